package reasm

import (
	"encoding/binary"
	"fmt"
)

// LinkAddr is an IEEE 802.15.4 address: 16 bits, 64 bits, or none, which is the
// zero value. It can be compared.
type LinkAddr struct {
	bits uint64
	size uint8 // in bytes: 0, 2 or 8
}

// ShortAddr is a 16-bit address. It is unique within its PAN only, so the PAN
// identifier belongs into the domain.
func ShortAddr(a uint16) LinkAddr { return LinkAddr{uint64(a), 2} }

// ExtendedAddr is an EUI-64, in the order in which it is printed; in the frame it
// stands the other way round.
func ExtendedAddr(a [8]byte) LinkAddr { return LinkAddr{binary.BigEndian.Uint64(a[:]), 8} }

// String prints the address in hexadecimal, "none" for the zero value.
func (a LinkAddr) String() string {
	if a.size == 0 {
		return "none"
	}
	return fmt.Sprintf("%0*x", 2*int(a.size), a.bits)
}

// KeyLoWPAN is the key of a 6LoWPAN datagram: RFC 4944 5.3 includes its size.
func KeyLoWPAN(src, dst LinkAddr, tag, size uint16, domain uint64) Key {
	return Key{
		SrcHi: uint64(src.size), SrcLo: src.bits, DstHi: uint64(dst.size), DstLo: dst.bits,
		Domain: domain, tag: makeTag(LoWPAN, 0, uint32(size)<<16|uint32(tag)),
	}
}

// LinkSrc returns the link address of the source; none but in 6LoWPAN.
func (k *Key) LinkSrc() LinkAddr { return k.link(k.SrcHi, k.SrcLo) }

// LinkDst returns the link address of the destination; none but in 6LoWPAN.
func (k *Key) LinkDst() LinkAddr { return k.link(k.DstHi, k.DstLo) }

func (k *Key) link(hi, lo uint64) LinkAddr {
	if k.Family() != LoWPAN {
		return LinkAddr{}
	}
	return LinkAddr{lo, uint8(hi)}
}

// linkSize returns the datagram_size of a 6LoWPAN key.
func (k *Key) linkSize() uint32 { return k.ID() >> 16 }

// What a 6LoWPAN frame may start with, RFC 4944 5.1.
const (
	dispMesh      = 0x80 // 10vfhhhh, then the addresses of both ends
	dispMeshMask  = 0xc0
	dispBroadcast = 0x50 // then a sequence number
	dispFirst     = 0xc0 // 11000sss, size and tag
	dispNext      = 0xe0 // 11100sss, size, tag and offset
	dispFragMask  = 0xf8

	firstHeader = 4
	nextHeader  = 5
)

// LoWPAN parses the payload of an IEEE 802.15.4 frame, without its checksum, as
// a 6LoWPAN link fragment (RFC 4944 5.3), and reports f.Verdict. src and dst are
// the frame's addresses; those of a mesh header take their place. domain goes
// into the key and should tell PANs apart. Cost: about 10 ns, 50 for a compressed
// first fragment; no allocation.
//
// What makes a datagram of several frames is an IPv6 packet, and its Datagram is
// that packet, uncompressed. Offsets are those of the uncompressed packet. The
// first fragment has to hold its IPv6 header: as it is (dispatch 0x41), or
// compressed by RFC 6282 without contexts, with UDP compressed as well or not.
// A header compressed in any other way is Unsupported: the caller, who has the
// contexts, may replace it by what it decompresses to behind dispatch 0x41, and
// parse the frame again. A UDP checksum that was left out is computed at
// completion. Datagrams may be as large as the field can say, 2047 bytes, though
// the MTU is 1280 and Linux takes no more.
//
// Frames that are no fragment are Whole and left to the caller, compressed as
// they are; so are recoverable fragments (RFC 8931).
func (p Parser) LoWPAN(frame []byte, src, dst LinkAddr, domain uint64, f *Fragment) Verdict {
	f.Verdict = f.lowpan(frame, src, dst, domain)
	return f.Verdict
}

func (f *Fragment) lowpan(b []byte, src, dst LinkAddr, domain uint64) Verdict {
	f.Packet, f.HeaderLen, f.problem = b, 0, Problem{}
	at, src, dst := skipMesh(b, src, dst)
	if at >= len(b) {
		return Truncated
	}
	first := b[at]&dispFragMask == dispFirst
	switch {
	case !first && b[at]&dispFragMask != dispNext:
		return Whole
	case at+firstHeader > len(b), !first && at+nextHeader > len(b):
		return Truncated
	}
	size := binary.BigEndian.Uint16(b[at:]) & 0x7ff
	f.Key = KeyLoWPAN(src, dst, binary.BigEndian.Uint16(b[at+2:]), size, domain)
	f.DF, f.ECN = false, 0
	switch {
	case size < ipv6Header:
		return BadHeader
	case first:
		var h lowpanHeader
		f.nextHeaderAt = uint32(at + firstHeader)
		if v := h.expand(b[f.nextHeaderAt:], &f.Key); v != Held {
			return v
		}
		f.Offset, f.lead, f.HeaderLen = 0, uint32(h.n), f.nextHeaderAt+uint32(h.used)
	default:
		f.Offset, f.lead, f.HeaderLen = uint32(b[at+4])*unit, 0, uint32(at+nextHeader)
		if f.Offset < ipv6Header {
			return BadHeader // the first fragment's
		}
	}
	end := f.end()
	f.More = end < uint32(size)
	switch {
	case end > uint32(size):
		return OffsetTooLarge
	case end == f.Offset, f.More && end%unit != 0:
		return BadLength
	}
	return Held
}

// skipMesh returns where the headers for mesh and broadcast end (RFC 4944 5.2,
// 11.1), and the addresses of the datagram's ends. It may point beyond b.
func skipMesh(b []byte, src, dst LinkAddr) (at int, from, to LinkAddr) {
	if len(b) > 0 && b[0]&dispMeshMask == dispMesh {
		at = 1
		if b[0]&15 == 15 {
			at = 2 // more than 14 hops left stand in a byte of their own
		}
		src, at = meshAddr(b, at, b[0]&0x20 != 0)
		dst, at = meshAddr(b, at, b[0]&0x10 != 0)
	}
	if at < len(b) && b[at] == dispBroadcast {
		at += 2
	}
	return at, src, dst
}

// meshAddr reads the address at at and returns where it ends.
func meshAddr(b []byte, at int, short bool) (LinkAddr, int) {
	switch {
	case short && at+2 <= len(b):
		return ShortAddr(binary.BigEndian.Uint16(b[at:])), at + 2
	case !short && at+8 <= len(b):
		return ExtendedAddr([8]byte(b[at:])), at + 8
	}
	return LinkAddr{}, len(b)
}
