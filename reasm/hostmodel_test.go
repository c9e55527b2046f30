package reasm

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"time"
)

// hostModel is the host around the reassembler that the vectors were recorded
// on: what it refuses before reassembly, what it does with the result, and what
// it answers. It decides nothing about fragments; that is the cache's.
//
// Two addresses of each family are local, so are multicast and broadcast ones;
// sockets listen to the protocols 253, 254 and 17.
type hostModel struct {
	family int
	nf     bool // defragment before options and routes are looked at, as conntrack does
	parser Parser
	cache  Cache
	add    func(now int64, f *Fragment) Result
	now    int64
	out    hostOut // of the step at hand
}

// hostOut is what the host did in one step.
type hostOut struct {
	datagrams []hostDatagram
	icmp      []hostICMP
	other     map[string]int // counters of IP that are not reassembly's
}

type hostDatagram struct {
	proto   int
	payload []byte
	max     int
	header  []byte // IPv6: with the extension headers, which hbh, dopt and rt repeat

	hbh, dopt, rt []byte
}

type hostICMP struct {
	typ, code, ptr int
	quote          []byte
}

func (h *hostModel) count(counter string) {
	if h.out.other == nil {
		h.out.other = make(map[string]int)
	}
	h.out.other[counter]++
}

func (h *hostModel) answer(typ, code, ptr int, quote []byte) {
	limit := 576 - 20 - 8
	if h.family == 6 {
		limit = 1280 - 40 - 8
	}
	h.out.icmp = append(h.out.icmp, hostICMP{typ, code, ptr, slices.Clone(quote[:min(len(quote), limit)])})
}

// pause lets time pass.
func (h *hostModel) pause(d time.Duration) {
	h.now += int64(d)
	for h.cache.Step(h.now, 1000) {
	}
}

// receive takes in a packet from an interface.
func (h *hostModel) receive(b []byte, iface int) {
	if len(b) == 0 || b[0]>>4 != 4 && b[0]>>4 != 6 {
		h.count("DeviceRefused")
		return
	}
	if h.family == 4 {
		h.receive4(b)
	} else {
		h.receive6(b, iface)
	}
}

// malformed counts what the parser refused.
func (h *hostModel) malformed(v Verdict) bool {
	switch v {
	case Truncated:
		h.count("InTruncatedPkts")
	case BadHeader, BadChecksum:
		h.count("InHdrErrors")
	default:
		return false
	}
	return true
}

// expired answers time exceeded, if a host must.
func (h *hostModel) expired(e *Expired) {
	switch {
	case e.First == nil:
	case h.family == 4 && answerable4(e.First) && local4(e.Key.Dst()):
		h.answer(11, 1, 0, e.First)
	case h.family == 6 && answerable6(e.First, 3, 1):
		h.answer(3, 1, 0, e.First)
	}
}

func (h *hostModel) receive4(b []byte) {
	var f Fragment
	if v := h.parser.IPv4(b, 0, &f); h.malformed(v) {
		h.add(h.now, &f)
		return
	}
	if !h.nf && !h.accept4(f.Packet) {
		return
	}
	switch r := h.add(h.now, &f); r.Verdict {
	case Whole:
		h.deliver4(f.Packet, 0)
	case Complete:
		h.deliver4(slices.Clone(r.Datagram.Bytes()), r.Datagram.MaxFragment())
		r.Datagram.Release()
	}
}

// accept4 looks at options and routes.
func (h *hostModel) accept4(b []byte) bool {
	hdr := int(b[0]&15) * 4
	at, sourceRoute, ok := walkOptions4(b[:hdr])
	src, dst := addr4(b[12:]), addr4(b[16:])
	switch {
	case !ok:
		h.count("InHdrErrors")
		if answerable4(b) {
			h.answer(12, 0, at, b)
		}
		return false
	case sourceRoute, src.IsLoopback():
		return false // both unless configured; nothing is counted
	case !local4(dst):
		h.count("InAddrErrors")
		return false
	}
	return true
}

func (h *hostModel) deliver4(b []byte, max int) {
	if h.nf && !h.accept4(b) {
		return
	}
	hdr := int(b[0]&15) * 4
	switch proto := int(b[9]); proto {
	case 253, 254, 17:
		h.out.datagrams = append(h.out.datagrams, hostDatagram{proto: proto, payload: b[hdr:], max: max, header: b[:hdr]})
	case 1, 6: // the kernel's own; with these payloads it is silent
	default:
		h.count("InUnknownProtos")
		h.answer(3, 2, 0, b)
	}
}

// walkOptions4 returns the offset of the first broken option. ok is false then.
func walkOptions4(hdr []byte) (at int, sourceRoute, ok bool) {
	for at = 20; at < len(hdr); {
		switch hdr[at] {
		case 0:
			return at, sourceRoute, true
		case 1:
			at++
			continue
		case 131, 137:
			sourceRoute = true
		}
		if at+2 > len(hdr) || hdr[at+1] < 2 || at+int(hdr[at+1]) > len(hdr) {
			return at, sourceRoute, false
		}
		at += int(hdr[at+1])
	}
	return at, sourceRoute, true
}

func addr4(b []byte) netip.Addr { return netip.AddrFrom4([4]byte(b[:4])) }

func local4(a netip.Addr) bool {
	switch a.String() {
	case "10.9.0.1", "10.9.0.2", "10.9.255.255", "224.0.0.1", "255.255.255.255":
		return true
	}
	return false
}

// answerable4 reports whether an ICMP error may be sent about b: not to groups,
// and not about an ICMP error.
func answerable4(b []byte) bool {
	dst := addr4(b[16:])
	if dst.IsMulticast() || dst.String() == "10.9.255.255" || dst.String() == "255.255.255.255" {
		return false
	}
	hdr := int(b[0]&15) * 4
	if b[9] == 1 && len(b) > hdr {
		return !slices.Contains([]byte{3, 4, 5, 11, 12}, b[hdr])
	}
	return true
}

func (h *hostModel) receive6(b []byte, iface int) {
	var f Fragment
	domain := uint64(0)
	if len(b) >= ipv6Header {
		if dst := addr6(b[24:]); dst.IsMulticast() || dst.IsLinkLocalUnicast() {
			domain = uint64(iface) + 1
		}
	}
	v := h.parser.IPv6(b, domain, &f)
	if h.malformed(v) {
		h.add(h.now, &f)
		return
	}
	b = f.Packet
	src, dst := addr6(b[8:]), addr6(b[24:])
	switch {
	case src.IsLoopback(), src.IsMulticast():
		h.count("InHdrErrors")
		return
	case !local6(dst):
		h.count("InAddrErrors")
		return
	}
	at, prev, ok := h.headers6(b, ipv6Header, 6, true)
	if !ok {
		return
	}
	if b[prev] != nhFragment {
		h.deliver6(b, at, prev, 0)
		return
	}
	r := h.add(h.now, &f)
	if r.HasProblem {
		h.problem(int(r.Problem.Code), int(r.Problem.Pointer), b)
	}
	switch r.Verdict {
	case Atomic:
		h.behindFragment(b, at+fragHeader, at, len(b))
	case Complete:
		whole := slices.Clone(r.Datagram.Bytes())
		end := len(r.Datagram.Header())
		prev := 6
		for at := ipv6Header; at < end; at += (int(whole[at+1]) + 1) * 8 {
			prev = at
		}
		max := r.Datagram.MaxFragment()
		r.Datagram.Release()
		h.behindFragment(whole, end, prev, max)
	}
}

// behindFragment goes on where a Fragment header stands, or stood.
func (h *hostModel) behindFragment(b []byte, at, prev, max int) {
	at, prev, ok := h.headers6(b, at, prev, false)
	switch {
	case !ok:
	case b[prev] == nhFragment: // only one is allowed
		h.problem(codeField, at, b)
	default:
		h.deliver6(b, at, prev, max)
	}
}

// headers6 processes extension headers from at, where prev says what stands
// there, up to a Fragment header or the upper layer; false if one is refused.
func (h *hostModel) headers6(b []byte, at, prev int, first bool) (_, _ int, ok bool) {
	for {
		nh := b[prev]
		if nh == nhHopByHop && (!first || prev != 6) || nh != nhHopByHop && nh != nhDestOpts && nh != nhRouting {
			return at, prev, true
		}
		if at+8 > len(b) || at+(int(b[at+1])+1)*8 > len(b) {
			h.count("InHdrErrors")
			return 0, 0, false
		}
		end := at + (int(b[at+1])+1)*8
		if nh == nhRouting {
			if b[at+3] > 0 { // segments left, and the type is none that is known
				h.problem(codeField, at+2, b)
				return 0, 0, false
			}
		} else if !h.options6(b, at+2, end) {
			return 0, 0, false
		}
		prev, at = at, end
	}
}

// options6 walks the options of one header.
func (h *hostModel) options6(b []byte, at, end int) bool {
	for pad := 0; at < end; {
		kind, n := b[at], 1
		if kind != 0 {
			if at+2 > end || at+2+int(b[at+1]) > end {
				h.count("InHdrErrors")
				return false
			}
			n = 2 + int(b[at+1])
		}
		switch {
		case kind <= 1: // Pad1, PadN: at most 7 bytes of padding in a row, all zero
			pad += n
			if pad > 7 || slices.ContainsFunc(b[min(at+2, at+n):at+n], func(c byte) bool { return c != 0 }) {
				h.count("InHdrErrors")
				return false
			}
		case kind>>6 == 0: // unknown: skip
			pad = 0
		case kind>>6 == 1:
			h.count("InHdrErrors")
			return false
		default:
			h.problem(2, at, b)
			return false
		}
		at += n
	}
	return true
}

func (h *hostModel) deliver6(b []byte, at, prev, max int) {
	switch proto := b[prev]; proto {
	case 253, 254, 17:
		d := hostDatagram{proto: int(proto), payload: b[at:], max: max, header: b[:at]}
		for p, q := 6, ipv6Header; q < at; {
			n := fragHeader
			if b[p] != nhFragment {
				n = (int(b[q+1]) + 1) * 8
			}
			switch b[p] {
			case nhHopByHop:
				d.hbh = b[q : q+n]
			case nhDestOpts:
				d.dopt = b[q : q+n]
			case nhRouting:
				d.rt = b[q : q+n]
			}
			p, q = q, q+n
		}
		h.out.datagrams = append(h.out.datagrams, d)
	case nhTCP, nhICMPv6, nhNone: // silent, with these payloads
	default:
		h.count("InUnknownProtos")
		if answerable6(b, 4, 1) {
			h.answer(4, 1, prev, b)
		}
	}
}

// problem counts a header error and answers a parameter problem.
func (h *hostModel) problem(code, ptr int, b []byte) {
	h.count("InHdrErrors")
	if answerable6(b, 4, code) {
		h.answer(4, code, ptr, b)
	}
}

func addr6(b []byte) netip.Addr { return netip.AddrFrom16([16]byte(b[:16])) }

func local6(a netip.Addr) bool {
	switch a.String() {
	case "fd09::1", "fd09::2", "fe80::1", "ff02::1":
		return true
	}
	return false
}

// answerable6 is RFC 4443 2.4(e): not to groups (but for an unknown option, code
// 2), and not about an ICMPv6 error.
func answerable6(b []byte, typ, code int) bool {
	if addr6(b[24:]).IsMulticast() && (typ != 4 || code != 2) {
		return false
	}
	at, prev := ipv6Header, 6
	for {
		n := 0
		switch b[prev] {
		case nhHopByHop, nhDestOpts, nhRouting:
			if at+2 <= len(b) {
				n = (int(b[at+1]) + 1) * 8
			}
		case nhFragment:
			if at+fragHeader <= len(b) {
				if binary.BigEndian.Uint16(b[at+fragOffsetAt:])&^7 != 0 {
					return true // its upper layer is not here
				}
				n = fragHeader
			}
		}
		if n == 0 {
			break
		}
		prev, at = at, at+n
		if at >= len(b) {
			return true
		}
	}
	return b[prev] != nhICMPv6 || at >= len(b) || b[at] >= 128
}
