package judge

import (
	"corelane/reasm"
	"encoding/binary"
	"net/netip"
	"slices"
)

func (h *host) enter4(b []byte, a *arrival) {
	v := h.parser.IPv4(b, 0, &a.f)
	a.refused = h.malformed(v, len(b) >= 20 && len(b) >= int(b[0]&15)*4)
	a.offered = a.refused || h.nf || h.accept4(a.f.Packet)
}

func (h *host) leave4(a *arrival, r reasm.Result) {
	switch r.Verdict {
	case reasm.Whole:
		h.deliver4(a.f.Packet, 0)
	case reasm.Complete:
		h.deliver4(slices.Clone(r.Datagram.Bytes()), r.Datagram.MaxFragment())
		r.Datagram.Release()
	}
}

// accept4 looks at options and routes.
func (h *host) accept4(b []byte) bool {
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

func (h *host) deliver4(b []byte, max int) {
	if h.nf && !h.accept4(b) {
		return
	}
	hdr := int(b[0]&15) * 4
	switch proto := int(b[9]); proto {
	case 253, 254, 17:
		h.out.datagrams = append(h.out.datagrams, datagram{proto: proto, payload: b[hdr:], max: max, header: b[:hdr]})
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

// Where the host is reached, and where it answers: an address, a group and the
// two broadcasts.
var (
	locals4 = addrs("10.9.0.1", "10.9.0.2", "10.9.255.255", "224.0.0.1", "255.255.255.255")
	locals6 = addrs("fd09::1", "fd09::2", "fe80::1", "ff02::1")

	broadcasts4 = addrs("10.9.255.255", "255.255.255.255")
)

func addrs(names ...string) (as []netip.Addr) {
	for _, name := range names {
		as = append(as, netip.MustParseAddr(name))
	}
	return as
}

func local4(a netip.Addr) bool { return slices.Contains(locals4, a) }

// answerable4 reports whether an ICMP error may be sent about b: not to groups,
// not about an ICMP error, and not about a fragment that is not the first.
func answerable4(b []byte) bool {
	dst := addr4(b[16:])
	if dst.IsMulticast() || slices.Contains(broadcasts4, dst) || binary.BigEndian.Uint16(b[6:])&0x1fff != 0 {
		return false
	}
	hdr := int(b[0]&15) * 4
	if b[9] == 1 && len(b) > hdr {
		return !slices.Contains([]byte{3, 4, 5, 11, 12}, b[hdr])
	}
	return true
}
