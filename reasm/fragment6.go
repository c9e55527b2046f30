package reasm

import "encoding/binary"

// IPv6 headers, RFC 8200.
const (
	ipv6Header = 40
	fragHeader = 8

	nhHopByHop = 0
	nhTCP      = 6
	nhUDP      = 17
	nhRouting  = 43
	nhFragment = 44
	nhAuth     = 51
	nhICMPv6   = 58
	nhNone     = 59
	nhDestOpts = 60
)

// Where RFC 8200 makes a parameter problem point.
const (
	codeField     = 0 // erroneous header field
	codeChain     = 3 // first fragment without its whole header chain, RFC 7112
	payloadLenAt  = 4
	fragOffsetAt  = 2 // within the Fragment header
	maxIPv6Length = 65535
)

// IPv6 parses an IPv6 packet and reports f.Verdict. The Fragment header may
// stand behind hop-by-hop, routing and destination options of any legal length;
// those headers are skipped, not interpreted. Bytes behind the payload length
// are cut off. Cost: a few nanoseconds more than IPv4, no allocation.
//
// A packet with several Fragment headers is parsed by its first; what is behind
// it is payload, and comes back to the parser when that datagram is complete.
func (p Parser) IPv6(packet []byte, domain uint64, f *Fragment) Verdict {
	f.Verdict = f.ipv6(packet, domain)
	return f.Verdict
}

func (f *Fragment) ipv6(b []byte, domain uint64) Verdict {
	f.Packet, f.HeaderLen, f.problem = b, 0, Problem{}
	if len(b) < ipv6Header {
		if len(b) == 0 || b[0]>>4 != 6 {
			return BadHeader
		}
		return Truncated
	}
	if b[0]>>4 != 6 {
		return BadHeader
	}
	total := ipv6Header + int(binary.BigEndian.Uint16(b[payloadLenAt:]))
	if len(b) < total {
		return Truncated
	}
	b = b[:total]
	f.Packet = b
	at, prev, ok := findFragmentHeader(b)
	if !ok {
		return Whole
	}
	if total < at+fragHeader {
		f.ask(codeField, uint32(at))
		return NoRoom
	}
	word := binary.BigEndian.Uint16(b[at+fragOffsetAt:])
	f.HeaderLen, f.lead = uint32(at+fragHeader), 0
	f.nextHeaderAt = uint32(prev)
	f.Offset = uint32(word &^ 7)
	f.More = word&1 != 0
	f.DF = false
	f.ECN = b[1] >> 4 & 3
	f.Key = Key{
		SrcHi: binary.BigEndian.Uint64(b[8:]), SrcLo: binary.BigEndian.Uint64(b[16:]),
		DstHi: binary.BigEndian.Uint64(b[24:]), DstLo: binary.BigEndian.Uint64(b[32:]),
		Domain: domain, tag: makeTag(IPv6, 0, binary.BigEndian.Uint32(b[at+4:])),
	}
	switch {
	case f.Offset == 0 && !f.More:
		return Atomic
	case f.Offset == 0 && chainTruncated(b, int(f.HeaderLen), b[at]):
		f.ask(codeChain, 0)
		return ShortChain
	case f.end() > maxIPv6Length:
		f.ask(codeField, uint32(at+fragOffsetAt))
		return OffsetTooLarge
	case f.More && f.end()%unit != 0:
		f.ask(codeField, payloadLenAt)
		return BadLength
	}
	return Held
}

func (f *Fragment) ask(code uint8, pointer uint32) {
	f.problem = Problem{Due: true, Code: code, Pointer: pointer}
}

// findFragmentHeader returns where the first Fragment header stands, and where
// the byte that announces it; ok is false when the chain ends without one.
func findFragmentHeader(b []byte) (at, prev int, ok bool) {
	at, prev = ipv6Header, 6
	for {
		switch b[prev] {
		case nhFragment:
			return at, prev, true
		case nhHopByHop, nhRouting, nhDestOpts:
			if at+2 > len(b) {
				return 0, 0, false
			}
			prev, at = at, at+(int(b[at+1])+1)*8
			if at > len(b) {
				return 0, 0, false
			}
		default:
			return 0, 0, false
		}
	}
}

// chainTruncated reports whether a first fragment lacks part of its header
// chain: the chain that starts at at with header type nh must reach an upper
// layer header, and that must be there (RFC 7112). Like Linux it does not notice
// an extension header that is cut where it announces another one.
func chainTruncated(b []byte, at int, nh byte) bool {
	for {
		var n int
		switch nh {
		case nhHopByHop, nhRouting, nhDestOpts, nhAuth, nhFragment:
			if at+2 > len(b) {
				return false
			}
			n = (int(b[at+1]) + 1) * 8
			if nh == nhAuth {
				n = (int(b[at+1]) + 2) * 4
			}
			if nh == nhFragment {
				// A later fragment inside: its chain is elsewhere. One that is cut
				// behind its offset is seen for what it is.
				if at+fragOffsetAt+2 > len(b) || binary.BigEndian.Uint16(b[at+fragOffsetAt:])&^7 != 0 {
					return false
				}
				n = fragHeader
			}
		case nhNone:
			return false
		case nhTCP:
			return at+20 > len(b)
		case nhUDP, nhICMPv6:
			return at+8 > len(b)
		default:
			return at+1 > len(b)
		}
		nh, at = b[at], at+n
	}
}
