package live

import (
	"fmt"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"corelane/internal/vectors"
)

// Host is the kernel's IP of one family in a namespace, with the addresses,
// listeners and settings that the vectors were recorded with. It belongs to the
// goroutine that made it.
type Host struct {
	family    int
	tun       [2]int
	listeners [3]listener
	counters  *reader
	last      counts

	maxDist *sysctl // IPv4
	high    *sysctl
	timeout *sysctl

	buf, control []byte
	late         time.Duration // of the steps behind a pause, at most
}

// listener is a raw socket, which gets every packet of one protocol.
type listener struct {
	fd, proto int
}

const (
	defaultHigh  = 4 << 20
	ipv6FlowInfo = 11 // IPV6_FLOWINFO, which x/sys lacks
)

// NewHost makes a host. The goroutine gets a thread of its own that ends with it;
// Close frees the rest.
func NewHost(family int) (h *Host, err error) {
	if err := enter(); err != nil {
		return nil, err
	}
	h = &Host{family: family, tun: [2]int{-1, -1}, buf: make([]byte, 1<<17), control: make([]byte, 1<<13)}
	for i := range h.listeners {
		h.listeners[i].fd = -1
	}
	defer func() {
		if err != nil {
			h.Close()
		}
	}()
	if err := h.setUp(); err != nil {
		return nil, err
	}
	if h.counters, err = openReader(family); err != nil {
		return nil, err
	}
	return h, h.ready()
}

// Close frees the host.
func (h *Host) Close() {
	for _, fd := range []int{h.tun[0], h.tun[1], h.listeners[0].fd, h.listeners[1].fd, h.listeners[2].fd} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	for _, s := range []*sysctl{h.maxDist, h.high, h.timeout} {
		if s != nil {
			s.file.Close()
		}
	}
	if h.counters != nil {
		h.counters.close()
	}
}

func (h *Host) setUp() (err error) {
	if err := setSysctls(map[string]string{
		"ipv4/conf/all/rp_filter": "0", "ipv4/conf/default/rp_filter": "0",
		"ipv4/icmp_ratemask": "0", "ipv6/icmp/ratemask": "255", // no error counts against a rate
		"ipv6/conf/default/accept_ra":     "0",
		"ipv6/conf/default/addr_gen_mode": "1", // no address but those given
		"ipv4/ipfrag_low_thresh":          "0", "ipv6/ip6frag_low_thresh": "0",
	}); err != nil {
		return err
	}
	nl, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer nl.Close()
	if err := address(nl, "lo"); err != nil {
		return err
	}
	for i, addrs := range [][]string{{"10.9.0.1/16", "10.9.0.2/16", "fd09::1/64", "fd09::2/64", "fe80::1/64"}, {"fe80::1/64"}} {
		name := fmt.Sprintf("tun%d", i)
		if h.tun[i], err = openTUN(name); err != nil {
			return err
		}
		if err := address(nl, name, addrs...); err != nil {
			return err
		}
	}
	for i, proto := range []int{253, 254, unix.IPPROTO_UDP} {
		if h.listeners[i], err = listen(h.family, proto); err != nil {
			return fmt.Errorf("listening to protocol %d: %w", proto, err)
		}
	}
	dir := "ipv4/ipfrag_"
	if h.family == 6 {
		dir = "ipv6/ip6frag_"
	} else if h.maxDist, err = openSysctl(dir + "max_dist"); err != nil {
		return err
	}
	if h.high, err = openSysctl(dir + "high_thresh"); err != nil {
		return err
	}
	h.timeout, err = openSysctl(dir + "time")
	return err
}

// ready waits until every address is reached: the kernel adds the routes of IPv6
// ones behind the caller's back.
func (h *Host) ready() error {
	probes := []vectors.Step{{Len: 8}, {Len: 8, Dst: "10.9.0.2"}}
	if h.family == 6 {
		probes = []vectors.Step{
			{Len: 8, Plain: true},
			{Len: 8, Plain: true, Dst: "fd09::2"},
			{Len: 8, Plain: true, Dst: "fe80::1"},
			{Len: 8, Plain: true, Dst: "fe80::1", If: 1},
			{Len: 8, Plain: true, Dst: "ff02::1"},
			{Len: 8, Plain: true, Dst: "ff02::1", If: 1},
		}
	}
	for end := time.Now().Add(5 * time.Second); len(probes) > 0; {
		if time.Now().After(end) {
			return fmt.Errorf("the namespace is not reached by %+v", probes[0])
		}
		var out vectors.Out
		err := h.send(probes[0].If, probes[0].Packet(h.family, 0), &out)
		if err == nil {
			err = h.outcome(&out, nil, true)
		}
		switch {
		case err != nil:
			return err
		case len(out.Datagrams) == 1:
			probes = probes[1:]
		default:
			time.Sleep(time.Millisecond)
		}
	}
	if h.family == 4 {
		return nil
	}
	// Three overlaps, and two failures more: a last fragment of no length.
	first, overlap, empty := vectors.Step{Len: 16, MF: true}, vectors.Step{Off: 8, Len: 16}, vectors.Step{Off: 16}
	err := h.counters.calibrate(3, func() error {
		var out vectors.Out
		for _, second := range []vectors.Step{overlap, empty, overlap, empty, overlap} {
			for _, s := range []vectors.Step{first, second} {
				if err := h.send(0, s.Packet(6, 0), &out); err != nil {
					return err
				}
			}
		}
		return h.outcome(&out, nil, false)
	})
	if err != nil {
		return err
	}
	return h.measure(&h.last, true)
}

func listen(family, proto int) (l listener, err error) {
	l.proto = proto
	domain, level, options := unix.AF_INET, unix.IPPROTO_IP, []int{unix.IP_RECVFRAGSIZE}
	if family == 6 {
		domain, level = unix.AF_INET6, unix.IPPROTO_IPV6
		options = []int{unix.IPV6_RECVFRAGSIZE, unix.IPV6_RECVTCLASS, unix.IPV6_RECVHOPLIMIT, ipv6FlowInfo,
			unix.IPV6_RECVHOPOPTS, unix.IPV6_RECVDSTOPTS, unix.IPV6_RECVRTHDR}
	}
	l.fd, err = unix.Socket(domain, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, proto)
	if err != nil {
		l.fd = -1
		return l, err
	}
	for _, o := range options {
		if err := unix.SetsockoptInt(l.fd, level, o, 1); err != nil {
			return l, fmt.Errorf("option %d: %w", o, err)
		}
	}
	return l, unix.SetsockoptInt(l.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 4<<20)
}
