package capture

import (
	"encoding/binary"

	"github.com/gopacket/gopacket/layers"
)

// IP says where the IP packet of a frame is.
type IP struct {
	Start   int // bytes of link header in front of it, <= the frame's length
	Version int // 4 or 6, as the link header says
	// Domain keeps datagrams apart that equal addresses do not: the VLAN ids, 12
	// bits each, outermost first (a priority tag, id 0, is none); and above bit
	// 48 the interface, where IPv6 addresses mean something on their link only.
	Domain uint64
}

// Link types without a name in gopacket: raw IP as BSD and OpenBSD number it.
const (
	linkRawBSD     layers.LinkType = 12
	linkRawOpenBSD layers.LinkType = 14
)

// CanFindIP reports whether FindIP knows the link type.
func CanFindIP(link layers.LinkType) bool {
	switch link {
	case layers.LinkTypeEthernet, layers.LinkTypeLinuxSLL, layers.LinkTypeLinuxSLL2,
		linkRawBSD, linkRawOpenBSD, layers.LinkTypeRaw, layers.LinkTypeIPv4, layers.LinkTypeIPv6,
		layers.LinkTypePPP, layers.LinkTypePPP_HDLC, layers.LinkTypeNull, layers.LinkTypeLoop:
		return true
	}
	return false
}

// FindIP finds the outermost IP packet. It is false if the frame carries
// something else, is too short to tell, or of a link type that is not known. It
// does not look at the packet, except for the version where nothing else says
// it, and for the scope of an IPv6 destination.
func (p *Packet) FindIP() (ip IP, ok bool) {
	iface := uint32(p.Interface)
	b := p.Frame
	switch p.Link {
	case layers.LinkTypeEthernet:
		ip, ok = behindEtherType(b, 12, 14)
	case layers.LinkTypeLinuxSLL:
		ip, ok = behindEtherType(b, 14, 16)
	case layers.LinkTypeLinuxSLL2:
		if ip, ok = behindEtherType(b, 0, 20); ok {
			iface = binary.BigEndian.Uint32(b[4:])
		}
	case linkRawBSD, linkRawOpenBSD, layers.LinkTypeRaw:
		if len(b) > 0 {
			ip.Version = int(b[0] >> 4)
		}
		ok = ip.Version == 4 || ip.Version == 6
	case layers.LinkTypeIPv4:
		ip, ok = IP{Version: 4}, true
	case layers.LinkTypeIPv6:
		ip, ok = IP{Version: 6}, true
	case layers.LinkTypePPP, layers.LinkTypePPP_HDLC:
		ip, ok = behindPPP(b)
	case layers.LinkTypeNull, layers.LinkTypeLoop:
		ip, ok = behindFamily(b)
	}
	if !ok {
		return IP{}, false
	}
	if ip.Version == 6 && linkScope(b[ip.Start:]) {
		ip.Domain |= uint64(uint16(iface+1)) << (maxTags * vlanBits)
	}
	return ip, true
}

// Ethernet types.
const (
	typeIPv4 = 0x0800
	typeIPv6 = 0x86dd

	// VLAN tags: 802.1Q, 802.1ad, and what was used before 802.1ad.
	typeVLAN, typeQinQ, typeQinQ1, typeQinQ2 = 0x8100, 0x88a8, 0x9100, 0x9200
)

// A domain has room for the ids of this many VLAN tags; twice what networks use.
const (
	maxTags  = 4
	vlanBits = 12
)

// behindEtherType walks the VLAN tags from the Ethernet type at typeAt, whose
// payload starts at next.
func behindEtherType(b []byte, typeAt, next int) (ip IP, ok bool) {
	for range maxTags + 1 {
		if len(b) < next {
			return IP{}, false
		}
		ip.Start = next
		switch binary.BigEndian.Uint16(b[typeAt:]) {
		case typeIPv4:
			ip.Version = 4
			return ip, true
		case typeIPv6:
			ip.Version = 6
			return ip, true
		case typeVLAN, typeQinQ, typeQinQ1, typeQinQ2:
			typeAt, next = next+2, next+4
			if len(b) < next {
				return IP{}, false
			}
			if id := uint64(binary.BigEndian.Uint16(b[typeAt-2:])) & (1<<vlanBits - 1); id != 0 {
				ip.Domain = ip.Domain<<vlanBits | id
			}
		default:
			return IP{}, false
		}
	}
	return IP{}, false
}

// behindPPP reads a PPP header (RFC 1661, 1662): address and control may have
// been left out, and so may the first byte of a small protocol number.
func behindPPP(b []byte) (IP, bool) {
	at := 0
	if len(b) >= 2 && b[0] == 0xff && b[1] == 0x03 {
		at = 2
	}
	if len(b) <= at {
		return IP{}, false
	}
	proto, n := int(b[at]), 1
	if proto&1 == 0 { // the last byte of a protocol number is odd
		if len(b) < at+2 {
			return IP{}, false
		}
		proto, n = int(binary.BigEndian.Uint16(b[at:])), 2
	}
	switch proto {
	case 0x21:
		return IP{Start: at + n, Version: 4}, true
	case 0x57:
		return IP{Start: at + n, Version: 6}, true
	}
	return IP{}, false
}

// behindFamily reads the address family in front of a loopback packet. NULL
// wrote it in the byte order of the machine that captured, LOOP in network byte
// order; no family is a number in both, so either is accepted from both.
func behindFamily(b []byte) (IP, bool) {
	if len(b) < 4 {
		return IP{}, false
	}
	fam := binary.LittleEndian.Uint32(b)
	if fam > 0xffff {
		fam = binary.BigEndian.Uint32(b)
	}
	switch fam {
	case 2: // AF_INET everywhere
		return IP{Start: 4, Version: 4}, true
	case 10, 23, 24, 28, 30: // AF_INET6 of Linux, Windows, NetBSD and OpenBSD, FreeBSD, macOS
		return IP{Start: 4, Version: 6}, true
	}
	return IP{}, false
}

// linkScope reports whether an IPv6 packet goes to a link-local or multicast
// address. Linux has the interface in the key of its fragments then.
func linkScope(packet []byte) bool {
	const dst = 24
	return len(packet) >= dst+16 && (packet[dst] == 0xff || packet[dst] == 0xfe && packet[dst+1]&0xc0 == 0x80)
}
