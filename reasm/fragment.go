package reasm

import "encoding/binary"

// Fragment is one IP packet, or 6LoWPAN frame, as a Parser understood it. It refers to the packet
// and copies nothing, so one Fragment can be reused for every packet.
type Fragment struct {
	Key    Key
	Packet []byte // from the first header byte, cut to the length its header says
	Ref    uint64 // the caller's, given back with the buffer in borrow mode

	Offset    uint32 // of the payload in the datagram, in bytes; a multiple of 8
	HeaderLen uint32 // bytes of Packet in front of the payload
	More      bool   // more fragments follow
	DF        bool   // IPv4: don't fragment
	ECN       uint8  // IPv4 TOS & 3, IPv6 traffic class & 3

	// Verdict is the parser's: Held for a fragment to be reassembled, else why it
	// is none. Lane.Add counts such a packet and touches no state.
	Verdict Verdict

	// nextHeaderAt is where the byte stands that says what follows: in IPv6 that a
	// Fragment header does, in 6LoWPAN how the datagram starts.
	nextHeaderAt uint32
	lead         uint32 // 6LoWPAN: how much of the datagram the headers stand for
	problem      Problem
}

// Payload returns the bytes behind the headers; all bytes, if those made no sense.
func (f *Fragment) Payload() []byte { return f.Packet[f.HeaderLen:] }

// udpLength returns the length that the UDP header of a first fragment announces,
// 0 if it has none.
func (f *Fragment) udpLength() uint32 {
	proto := f.Key.Proto()
	if f.Key.Family() == IPv6 {
		proto = f.Packet[f.HeaderLen-fragHeader]
	}
	if data := f.Payload(); proto == nhUDP && len(data) >= 8 {
		return uint32(binary.BigEndian.Uint16(data[4:]))
	}
	return 0
}

// end returns the offset behind the last payload byte.
func (f *Fragment) end() uint32 { return f.Offset + f.lead + uint32(len(f.Packet)) - f.HeaderLen }

// Parser turns packets into fragments. The zero value is ready, and trusts
// checksums.
type Parser struct {
	// VerifyChecksum refuses IPv4 packets whose header checksum is wrong. Leave it
	// off for captures taken before the sender's NIC filled it in.
	VerifyChecksum bool
}

// Parse parses a packet of either version; domain goes into the key.
func (p Parser) Parse(packet []byte, domain uint64, f *Fragment) Verdict {
	if len(packet) > 0 && packet[0]>>4 == 6 {
		return p.IPv6(packet, domain, f)
	}
	return p.IPv4(packet, domain, f)
}

// IPv4 header layout, RFC 791.
const (
	ipv4MinHeader = 20
	ipv4MF        = 0x2000
	ipv4DF        = 0x4000
	ipv4OffMask   = 0x1fff
)

// IPv4 parses an IPv4 packet and reports f.Verdict. Bytes behind the total
// length (Ethernet padding) are cut off. Options are not interpreted. Cost: a
// few nanoseconds, no allocation.
func (p Parser) IPv4(packet []byte, domain uint64, f *Fragment) Verdict {
	f.Verdict = p.ipv4(packet, domain, f)
	return f.Verdict
}

func (p Parser) ipv4(b []byte, domain uint64, f *Fragment) Verdict {
	f.Packet, f.HeaderLen, f.problem = b, 0, Problem{}
	if len(b) < ipv4MinHeader {
		if len(b) == 0 || b[0]>>4 != 4 {
			return BadHeader
		}
		return Truncated
	}
	total := int(binary.BigEndian.Uint16(b[2:]))
	hdr := int(b[0]&15) * 4
	if b[0]>>4 != 4 || hdr < ipv4MinHeader || total < hdr {
		return BadHeader
	}
	// The checksum comes first, as in Linux: what a damaged header says about the
	// packet's length means nothing.
	if p.VerifyChecksum && len(b) >= hdr && checksum(b[:hdr]) != 0 {
		return BadChecksum
	}
	if len(b) < total {
		return Truncated
	}
	word := binary.BigEndian.Uint16(b[6:])
	packet := b[:total]
	f.HeaderLen, f.lead = uint32(hdr), 0
	f.Offset = uint32(word&ipv4OffMask) * 8
	f.More = word&ipv4MF != 0
	f.DF = word&ipv4DF != 0
	f.ECN = b[1] & 3
	f.Key = Key{
		SrcLo: uint64(binary.BigEndian.Uint32(b[12:])), DstLo: uint64(binary.BigEndian.Uint32(b[16:])),
		Domain: domain, tag: makeTag(IPv4, b[9], uint32(binary.BigEndian.Uint16(b[4:]))),
	}
	if f.More {
		// A fragment that is not the last carries a multiple of 8 bytes; what is
		// over is padding of some link, and Linux cuts it off (RE-L8).
		packet = b[:hdr+(total-hdr)&^7]
	}
	f.Packet = packet
	if word&(ipv4MF|ipv4OffMask) == 0 {
		return Whole
	}
	return Held
}

// checksum is the Internet checksum (RFC 1071) of b, which has even length; 0
// when b includes a correct one.
func checksum(b []byte) uint16 {
	var s uint32
	for i := 0; i+1 < len(b); i += 2 {
		s += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for s>>16 != 0 {
		s = s&0xffff + s>>16
	}
	return ^uint16(s)
}
