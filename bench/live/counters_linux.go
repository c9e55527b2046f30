package live

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// counts are the counters of one namespace and family, and what its fragment
// table holds.
type counts struct {
	reasm [5]int // reqds, oks, fails, timeout, overlaps
	other [len(otherNames)]int
	held  [2]int // queues, bytes
}

var reasmNames = [...]string{"ReasmReqds", "ReasmOKs", "ReasmFails", "ReasmTimeout"}

// overlaps is the index of a counter that is read separately: see reader.
const overlaps = len(reasmNames)

// otherNames are counters of packets that went wrong outside of reassembly.
var otherNames = [...]string{"InHdrErrors", "InAddrErrors", "InUnknownProtos", "InDiscards", "InTruncatedPkts", "InNoRoutes"}

// Counters that /proc/net/snmp lacks and /proc/net/netstat has, for IPv4.
const firstExt = 4

// reader reads the counters of a namespace, from files that stay open.
//
// IPv4 keeps them in snmp, and the last few in netstat, which is long and slow
// to read. IPv6 keeps them in snmp6, but shows overlaps over netlink only, per
// device: a packet's overlap counts where its route ends, which is lo. Both are
// read at the end of a case, and in between where an overlap is possible: it is
// a failure, too, so ReasmFails has moved.
type reader struct {
	family  int
	snmp    *os.File
	netstat *os.File // IPv4
	route   int      // IPv6: netlink socket
	at      int      // IPv6: where ReasmOverlaps stands in its answer, 0 before calibrate
	stat    *os.File
	buf     []byte

	columns []column // IPv4: of snmp
	ext     []column // IPv4: of netstat
	lines   [][]byte // IPv6: names in snmp6, in the order of into
	into    []func(*counts) *int
}

// column says where the value of a counter stands in a line of /proc/net/snmp.
type column struct {
	at   int // 0 is the line's name
	into func(*counts) *int
}

// The files are those of the calling thread's namespace.
func openReader(family int) (r *reader, err error) {
	r = &reader{family: family, buf: make([]byte, 64<<10), route: -1}
	open := func(name string) (f *os.File) {
		if err == nil {
			f, err = os.Open("/proc/thread-self/net/" + name)
		}
		return f
	}
	if family == 4 {
		r.snmp, r.netstat, r.stat = open("snmp"), open("netstat"), open("sockstat")
	} else {
		r.snmp, r.stat = open("snmp6"), open("sockstat6")
	}
	if err != nil {
		return nil, err
	}
	reasm := func(i int) func(*counts) *int { return func(c *counts) *int { return &c.reasm[i] } }
	other := func(i int) func(*counts) *int { return func(c *counts) *int { return &c.other[i] } }
	if family == 6 {
		for i, name := range reasmNames {
			r.lines, r.into = append(r.lines, []byte("Ip6"+name)), append(r.into, reasm(i))
		}
		for i, name := range otherNames {
			r.lines, r.into = append(r.lines, []byte("Ip6"+name)), append(r.into, other(i))
		}
		r.route, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
		return r, err
	}
	snmp, ext := map[string]func(*counts) *int{}, map[string]func(*counts) *int{"ReasmOverlaps": reasm(overlaps)}
	for i, name := range reasmNames {
		snmp[name] = reasm(i)
	}
	for i, name := range otherNames {
		if i < firstExt {
			snmp[name] = other(i)
		} else {
			ext[name] = other(i)
		}
	}
	if r.columns, err = r.find(r.snmp, "Ip: ", snmp); err == nil {
		r.ext, err = r.find(r.netstat, "IpExt: ", ext)
	}
	return r, err
}

func (r *reader) close() {
	for _, f := range []*os.File{r.snmp, r.netstat, r.stat} {
		f.Close()
	}
	if r.route >= 0 {
		unix.Close(r.route)
	}
}

func (r *reader) load(f *os.File) ([]byte, error) {
	n, err := unix.Pread(int(f.Fd()), r.buf, 0)
	if err == nil && n == len(r.buf) {
		err = fmt.Errorf("%s does not fit in %d bytes", f.Name(), n)
	}
	return r.buf[:max(n, 0)], err
}

// find looks up names in the title line of a file like /proc/net/snmp.
func (r *reader) find(f *os.File, prefix string, names map[string]func(*counts) *int) (cs []column, err error) {
	b, err := r.load(f)
	if err != nil {
		return nil, err
	}
	_, title, ok := bytes.Cut(b, []byte(prefix))
	if !ok {
		return nil, fmt.Errorf("%s has no line %q", f.Name(), prefix)
	}
	title, _, _ = bytes.Cut(title, []byte("\n"))
	for i, name := range bytes.Fields(title) {
		if into, ok := names[string(name)]; ok {
			cs = append(cs, column{i + 1, into})
		}
	}
	if len(cs) != len(names) {
		return nil, fmt.Errorf("%s: not all of its counters are there: %s", f.Name(), title)
	}
	return cs, nil
}

// values reads the line of values below the title line.
func (r *reader) values(f *os.File, prefix string, cs []column, c *counts) error {
	b, err := r.load(f)
	if err != nil {
		return err
	}
	p := []byte(prefix)
	i := bytes.Index(b, p)
	b = b[i+len(p):]
	i = bytes.Index(b, p)
	b = b[i:]
	field := 0
	for _, col := range cs {
		for ; field < col.at; field++ {
			b = b[bytes.IndexByte(b, ' ')+1:]
		}
		*col.into(c) = number(b)
	}
	return nil
}

// number is the decimal number that b starts with.
func number(b []byte) (n int) {
	for _, d := range b {
		if d < '0' || d > '9' {
			break
		}
		n = n*10 + int(d-'0')
	}
	return n
}

// read updates what can move with any packet.
func (r *reader) read(c *counts) error {
	if err := r.table(c); err != nil {
		return err
	}
	if r.family == 4 {
		return r.values(r.snmp, "Ip: ", r.columns, c)
	}
	b, err := r.load(r.snmp)
	if err != nil {
		return err
	}
	for left := len(r.lines); left > 0; {
		end := bytes.IndexByte(b, '\n')
		if end < 0 {
			return fmt.Errorf("%s: %d counters are missing", r.snmp.Name(), left)
		}
		for i, name := range r.lines {
			if bytes.HasPrefix(b, name) && b[len(name)] == ' ' {
				*r.into[i](c) = number(bytes.TrimLeft(b[len(name):], " \t"))
				left--
				break
			}
		}
		b = b[end+1:]
	}
	return nil
}

// readRare updates the rest.
func (r *reader) readRare(c *counts) (err error) {
	if r.family == 4 {
		return r.values(r.netstat, "IpExt: ", r.ext, c)
	}
	sums, err := r.devices()
	if err == nil && r.at > 0 {
		c.reasm[overlaps] = int(sums[r.at])
	}
	return err
}

// table reads what the fragment table holds: "FRAG: inuse 1 memory 1032", with a
// 6 behind FRAG for IPv6.
func (r *reader) table(c *counts) error {
	b, err := r.load(r.stat)
	if err != nil {
		return err
	}
	i := bytes.Index(b, []byte("FRAG"))
	fields := bytes.Fields(b[max(i, 0):])
	if i < 0 || len(fields) < 5 {
		return fmt.Errorf("%s has no line FRAG", r.stat.Name())
	}
	c.held = [2]int{number(fields[2]), number(fields[4])}
	return nil
}

// devices returns the IPv6 counters, summed over all devices. Their order is the
// kernel's own and differs between its versions.
func (r *reader) devices() (sums []uint64, err error) {
	ask := make([]byte, unix.SizeofNlMsghdr+unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(ask, uint32(len(ask)))
	binary.NativeEndian.PutUint16(ask[4:], unix.RTM_GETLINK)
	binary.NativeEndian.PutUint16(ask[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	ask[unix.SizeofNlMsghdr] = unix.AF_INET6
	if err := unix.Sendto(r.route, ask, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, err
	}
	for {
		n, _, err := unix.Recvfrom(r.route, r.buf, 0)
		if err != nil {
			return nil, err
		}
		for b := r.buf[:n]; len(b) >= unix.SizeofNlMsghdr; {
			size := int(binary.NativeEndian.Uint32(b))
			switch binary.NativeEndian.Uint16(b[4:]) {
			case unix.NLMSG_DONE:
				return sums, nil
			case unix.NLMSG_ERROR:
				return nil, fmt.Errorf("netlink: %w", unix.Errno(-int32(binary.NativeEndian.Uint32(b[unix.SizeofNlMsghdr:]))))
			}
			info := attribute(b[unix.SizeofNlMsghdr+unix.SizeofIfInfomsg:size], unix.IFLA_PROTINFO)
			stats := attribute(info, unix.IFLA_INET6_STATS)
			for i := 0; i < len(stats)/8; i++ {
				if i == len(sums) {
					sums = append(sums, 0)
				}
				sums[i] += binary.NativeEndian.Uint64(stats[8*i:])
			}
			b = b[min((size+3)&^3, len(b)):]
		}
	}
}

// calibrate finds ReasmOverlaps: the counter that moves by n over act, which
// moves no other by as much.
func (r *reader) calibrate(n uint64, act func() error) error {
	before, err := r.devices()
	if err == nil {
		err = act()
	}
	if err != nil {
		return err
	}
	after, err := r.devices()
	if err != nil {
		return err
	}
	var found []int
	for i := range min(len(before), len(after)) {
		if after[i]-before[i] == n {
			found = append(found, i)
		}
	}
	if len(found) != 1 {
		return fmt.Errorf("which IPv6 counter is ReasmOverlaps? %d overlaps moved %v", n, found)
	}
	r.at = found[0]
	return nil
}

// attribute finds a netlink attribute.
func attribute(b []byte, kind uint16) []byte {
	for len(b) >= 4 {
		size := int(binary.NativeEndian.Uint16(b))
		if size < 4 || size > len(b) {
			return nil
		}
		if binary.NativeEndian.Uint16(b[2:])&^unix.NLA_F_NESTED == kind {
			return b[4:size]
		}
		b = b[min((size+3)&^3, len(b)):]
	}
	return nil
}
