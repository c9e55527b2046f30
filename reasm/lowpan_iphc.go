package reasm

import (
	"encoding/binary"
	"math/bits"
)

// lowpanHeader is the start of a 6LoWPAN datagram as its first fragment says it:
// the IPv6 header, and the UDP header if that was compressed too.
//
// Compression by RFC 6282 takes away what can be told from the link: the length,
// and addresses made of link addresses. What it takes away by contexts, which
// routers hand out, cannot be told from the frame; nor are extension headers
// undone, nor the older HC1.
type lowpanHeader struct {
	b        [ipv6Header + udpHeader]byte
	n        int  // bytes of b
	used     int  // bytes of the frame that said so
	unsummed bool // the UDP checksum was left out
}

const udpHeader = 8

// What the datagram itself may start with.
const (
	dispIPv6     = 0x41 // an IPv6 header as it is
	dispIPHC     = 0x60 // RFC 6282 3
	dispIPHCMask = 0xe0
	nhcUDP       = 0xf0 // 11110cpp
	nhcUDPMask   = 0xf8
)

// expand reads the first bytes of a datagram, and returns Held or what is wrong
// with them. It is a function of its arguments: whoever stored the fragment may
// expand it again.
func (h *lowpanHeader) expand(b []byte, k *Key) Verdict {
	switch {
	case len(b) == 0:
		return Truncated
	case b[0] == dispIPv6:
		return h.plain(b, k.linkSize())
	case b[0]&dispIPHCMask == dispIPHC:
		return h.iphc(b, k)
	}
	return Unsupported
}

// plain reads an uncompressed header. It must agree about the length: RFC 4944
// 5.3 has the size 40 above its payload length.
func (h *lowpanHeader) plain(b []byte, size uint32) Verdict {
	if len(b) < 1+ipv6Header {
		return ShortChain
	}
	h.n, h.used = ipv6Header, 1+copy(h.b[:ipv6Header], b[1:])
	if h.b[0]>>4 != 6 || uint32(binary.BigEndian.Uint16(h.b[payloadLenAt:]))+ipv6Header != size {
		return BadHeader
	}
	return Held
}

// iphc undoes LOWPAN_IPHC:
//
//	 0 1 2 3 4 5 6 7   0   1   2 3  4   5   6 7
//	[0 1 1|TF |N|HLI] [CID|SAC|SAM |M |DAC|DAM ] [contexts] what is not compressed
func (h *lowpanHeader) iphc(b []byte, k *Key) Verdict {
	if len(b) < 2 {
		return Truncated
	}
	r := inline{b: b[2:]}
	if b[1]&0x80 != 0 {
		r.byte() // contexts, which no address that follows may use
	}
	h.class(&r, b[0]>>3&3)
	compressed := b[0]&4 != 0
	if !compressed {
		r.take(h.b[6:7])
	}
	if h.b[7] = [...]byte{0, 1, 64, 255}[b[0]&3]; b[0]&3 == 0 {
		r.take(h.b[7:8])
	}
	if v := r.source(h.b[8:24], b[1]>>4&7, k.LinkSrc()); v != Held {
		return v
	}
	if v := r.destination(h.b[24:40], b[1]&15, k.LinkDst()); v != Held {
		return v
	}
	payload := k.linkSize() - ipv6Header
	binary.BigEndian.PutUint16(h.b[payloadLenAt:], uint16(payload))
	h.n = ipv6Header
	if compressed {
		if v := h.udp(&r, payload); v != Held {
			return v
		}
	}
	if r.short {
		return Truncated
	}
	h.used = len(b) - len(r.b)
	return Held
}

// class fills the first four bytes. The traffic class stands in line with ECN in
// front: rotated right by two bits.
func (h *lowpanHeader) class(r *inline, mode byte) {
	var class byte
	switch mode {
	case 0:
		class = r.byte()
		r.take(h.b[1:4])
	case 1: // no DSCP
		r.take(h.b[1:4])
		class = h.b[1] & 0xc0
	case 2:
		class = r.byte()
	}
	class = bits.RotateLeft8(class, 2)
	h.b[0] = 6<<4 | class>>4
	h.b[1] = class<<4 | h.b[1]&15
}

// udp undoes LOWPAN_NHC for UDP. Its length is always left out.
func (h *lowpanHeader) udp(r *inline, payload uint32) Verdict {
	nhc := r.byte()
	switch {
	case r.short:
		return Truncated
	case nhc&nhcUDPMask != nhcUDP:
		return Unsupported
	case payload < udpHeader:
		return BadHeader
	}
	h.b[6] = nhUDP
	u := h.b[ipv6Header:]
	switch nhc & 3 {
	case 0:
		r.take(u[:4])
	case 1:
		r.take(u[:2])
		u[2], u[3] = 0xf0, r.byte()
	case 2:
		u[0], u[1] = 0xf0, r.byte()
		r.take(u[2:4])
	case 3:
		ports := r.byte()
		u[0], u[1], u[2], u[3] = 0xf0, 0xb0|ports>>4, 0xf0, 0xb0|ports&15
	}
	binary.BigEndian.PutUint16(u[4:], uint16(payload))
	if h.unsummed = nhc&4 != 0; !h.unsummed {
		r.take(u[6:8])
	}
	h.n += udpHeader
	return Held
}

// inline is what a compressed header carries in line; short is set for good when
// more was taken than there is.
type inline struct {
	b     []byte
	short bool
}

func (r *inline) take(to []byte) {
	if len(r.b) < len(to) {
		r.b, r.short = nil, true
	}
	r.b = r.b[copy(to, r.b):]
}

func (r *inline) byte() byte {
	var one [1]byte
	r.take(one[:])
	return one[0]
}

// source reads a source address; mode is SAC and SAM.
func (r *inline) source(a []byte, mode byte, link LinkAddr) Verdict {
	switch {
	case mode == 4:
		return Held // "::", which needs no context
	case mode > 4:
		return Unsupported
	}
	return r.unicast(a, mode, link)
}

// destination reads a destination address; mode is M, DAC and DAM.
func (r *inline) destination(a []byte, mode byte, link LinkAddr) Verdict {
	switch mode {
	case 4, 13, 14, 15:
		return BadHeader // reserved
	case 5, 6, 7, 12:
		return Unsupported
	case 0, 1, 2, 3:
		return r.unicast(a, mode, link)
	}
	a[0] = 0xff
	switch mode & 3 {
	case 0:
		r.take(a)
	case 1: // ffXX::XX:XXXX:XXXX
		r.take(a[1:2])
		r.take(a[11:])
	case 2: // ffXX::XX:XXXX
		r.take(a[1:2])
		r.take(a[13:])
	case 3: // ff02::XX
		a[1] = 2
		r.take(a[15:])
	}
	return Held
}

// unicast reads an address, whole or with the link-local prefix left out, and
// then as 64 or 16 bits, or made of the link address.
func (r *inline) unicast(a []byte, mode byte, link LinkAddr) Verdict {
	if mode == 0 {
		r.take(a)
		return Held
	}
	a[0], a[1] = 0xfe, 0x80
	switch {
	case mode == 1:
		r.take(a[8:])
	case mode == 2:
		a[11], a[12] = 0xff, 0xfe
		r.take(a[14:])
	case link.size == 2:
		a[11], a[12] = 0xff, 0xfe
		binary.BigEndian.PutUint16(a[14:], uint16(link.bits))
	case link.size == 8:
		binary.BigEndian.PutUint64(a[8:], link.bits^2<<56) // the universal/local bit is inverted
	default:
		return BadHeader // made of an address that the frame does not have
	}
	return Held
}
