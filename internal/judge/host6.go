package judge

import (
	"corelane/reasm"
	"encoding/binary"
	"net/netip"
	"slices"
)

// IPv6 headers, RFC 8200.
const (
	ipv6Header = 40
	fragHeader = 8

	nhHopByHop = 0
	nhTCP      = 6
	nhRouting  = 43
	nhFragment = 44
	nhAuth     = 51
	nhICMPv6   = 58
	nhNone     = 59
	nhDestOpts = 60
)

func (h *host) enter6(b []byte, iface int, a *arrival) {
	domain := uint64(0)
	if len(b) >= ipv6Header {
		if dst := addr6(b[24:]); dst.IsMulticast() || dst.IsLinkLocalUnicast() {
			domain = uint64(iface) + 1
		}
	}
	if a.refused = h.malformed(h.parser.IPv6(b, domain, &a.f), len(b) >= ipv6Header); a.refused {
		a.offered = true
		return
	}
	b = a.f.Packet
	src, dst := addr6(b[8:]), addr6(b[24:])
	switch {
	case src.IsLoopback(), src.IsMulticast():
		h.count("InHdrErrors")
		return
	case !local6(dst):
		h.count("InAddrErrors")
		return
	}
	var ok bool
	if a.at, a.prev, ok = h.headers6(b, ipv6Header, 6, true); !ok {
		return
	}
	if a.offered = b[a.prev] == nhFragment; !a.offered {
		h.deliver6(b, a.at, a.prev, 0)
	}
}

func (h *host) leave6(a *arrival, r reasm.Result) {
	b := a.f.Packet
	if r.Problem.Due {
		h.problem(int(r.Problem.Code), int(r.Problem.Pointer), b)
	}
	switch r.Verdict {
	case reasm.Atomic:
		h.behindFragment(b, a.at+fragHeader, a.at, len(b))
	case reasm.Complete:
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
func (h *host) behindFragment(b []byte, at, prev, max int) {
	at, prev, ok := h.headers6(b, at, prev, false)
	switch {
	case !ok:
	case b[prev] == nhFragment: // only one is allowed
		h.problem(0, at, b)
	default:
		h.deliver6(b, at, prev, max)
	}
}

// headers6 processes extension headers from at, where prev says what stands
// there, up to a Fragment header or the upper layer; false if one is refused.
func (h *host) headers6(b []byte, at, prev int, first bool) (_, _ int, ok bool) {
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
				h.problem(0, at+2, b)
				return 0, 0, false
			}
		} else if !h.options6(b, at+2, end) {
			return 0, 0, false
		}
		prev, at = at, end
	}
}

// options6 walks the options of one header.
func (h *host) options6(b []byte, at, end int) bool {
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

func (h *host) deliver6(b []byte, at, prev, max int) {
	switch proto := b[prev]; proto {
	case 253, 254, 17:
		d := datagram{proto: int(proto), payload: b[at:], max: max, header: b[:at]}
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
func (h *host) problem(code, ptr int, b []byte) {
	h.count("InHdrErrors")
	if answerable6(b, 4, code) {
		h.answer(4, code, ptr, b)
	}
}

func addr6(b []byte) netip.Addr { return netip.AddrFrom16([16]byte(b[:16])) }

func local6(a netip.Addr) bool { return slices.Contains(locals6, a) }

// answerable6 is RFC 4443 2.4(e): not to groups (but for an unknown option, code
// 2), and not about an ICMPv6 error.
func answerable6(b []byte, typ, code int) bool {
	if addr6(b[24:]).IsMulticast() && (typ != 4 || code != 2) {
		return false
	}
	at, prev, word := ipv6Header, 6, uint16(0) // word is of the last Fragment header
	for {
		n := 0
		switch b[prev] {
		case nhHopByHop, nhDestOpts, nhRouting:
			if at+2 <= len(b) {
				n = (int(b[at+1]) + 1) * 8
			}
		case nhAuth:
			if at+2 <= len(b) {
				n = (int(b[at+1]) + 2) * 4
			}
		case nhFragment:
			if at+4 <= len(b) {
				if word = binary.BigEndian.Uint16(b[at+2:]); word&^7 != 0 {
					return true // its upper layer is not here
				}
				n = fragHeader
			}
		}
		if n == 0 {
			break
		}
		prev, at = at, at+n
	}
	if at >= len(b) { // an ICMPv6 message without its type is taken for an error, unless that is in another fragment
		return b[prev] != nhICMPv6 || word != 0
	}
	return b[prev] != nhICMPv6 || b[at] >= 128
}
