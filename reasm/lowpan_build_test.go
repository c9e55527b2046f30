package reasm

import (
	"encoding/binary"
	"slices"
	"strings"

	"corelane/internal/vectors"
)

// loWPAN is the family of a rig whose packets are 6LoWPAN frames.
const loWPAN = int(LoWPAN)

// The ends of a rig's frames.
var (
	linkA = ExtendedAddr([8]byte{0x02, 0, 0, 0xff, 0xfe, 0, 0, 0x0a})
	linkB = ShortAddr(0xb0b)
)

// link is the usual link fragment: bytes [off, off+n) of the uncompressed
// datagram tag, which has size bytes.
func link(tag uint32, off, n, size int) frag { return frag{ID: tag, Off: off, Len: n, Length: size} }

// linkPacket builds the frame of a frag: ID is the tag, Length the datagram's
// size, and the first fragment is not compressed.
func linkPacket(f frag) []byte {
	d := linkDatagram{tag: uint16(f.ID), packet: linkIPv6(f.Length, 253, *f.Fill)}
	end := f.Off + f.Len
	if end > len(d.packet) { // a frame that lies
		d.packet = append(d.packet, make([]byte, end-len(d.packet))...)
	}
	if f.Off == 0 {
		return resize(d.first(d.plain(), 0, end), f.Length)
	}
	return resize(d.next(f.Off, end), f.Length)
}

// resize makes a frame say another datagram_size.
func resize(frame []byte, size int) []byte {
	frame[0], frame[1] = frame[0]&0xf8|byte(size>>8), byte(size)
	return frame
}

// linkIPv6 is an IPv6 packet of size bytes, whose payload is the pattern.
func linkIPv6(size int, proto byte, fill int) []byte {
	b := make([]byte, max(size, 40))
	b[0], b[6], b[7] = 0x60, proto, 61
	binary.BigEndian.PutUint16(b[4:], uint16(len(b)-40))
	src, dst := vectors.Src6.As16(), vectors.Dst6.As16()
	copy(b[8:], src[:])
	copy(b[24:], dst[:])
	for i := range b[40:] {
		b[40+i] = vectors.PatternByte(fill, i)
	}
	return b
}

// linkDatagram is an IPv6 packet to be cut into link fragments.
type linkDatagram struct {
	packet []byte
	tag    uint16
}

// first is the first fragment: head stands for the first lead bytes, the others
// up to end follow.
func (d linkDatagram) first(head []byte, lead, end int) []byte {
	b := []byte{0xc0 | byte(len(d.packet)>>8), byte(len(d.packet)), byte(d.tag >> 8), byte(d.tag)}
	b = append(b, head...)
	return append(b, d.packet[lead:end]...)
}

// next is the fragment of bytes [off, end).
func (d linkDatagram) next(off, end int) []byte {
	b := []byte{0xe0 | byte(len(d.packet)>>8), byte(len(d.packet)), byte(d.tag >> 8), byte(d.tag), byte(off / 8)}
	return append(b, d.packet[off:end]...)
}

// plain is a head that stands for nothing.
func (d linkDatagram) plain() []byte { return []byte{0x41} }

// cut cuts the whole datagram: each byte of cuts is the size of a fragment, in
// units, and the rest goes into fragments of 96 bytes.
func (d linkDatagram) cut(head []byte, lead int, cuts []byte) (frames [][]byte) {
	for off := 0; off < len(d.packet); {
		n := 96
		if len(cuts) > 0 {
			n, cuts = (1+int(cuts[0])%32)*8, cuts[1:]
		}
		if off == 0 {
			n = max(n, lead, 40)
		}
		end := min(off+n, len(d.packet))
		if off == 0 {
			frames = append(frames, d.first(head, lead, end))
		} else {
			frames = append(frames, d.next(off, end))
		}
		off = end
	}
	return frames
}

// chooser chooses a number below n; an encoder asks it where RFC 6282 leaves a
// choice.
type chooser func(n int) int

// compress is LOWPAN_IPHC as a sender may write it: head stands for the first
// lead bytes of the packet. Whatever can be left out without a context may be
// left out, or not. nhc is what announces UDP, 0 if nothing does.
func compress(packet []byte, src, dst LinkAddr, choose chooser) (head []byte, lead int, nhc byte) {
	class := packet[0]<<4 | packet[1]>>4
	flow := []byte{packet[1] & 15, packet[2], packet[3]}
	rotated := class>>2 | class<<6
	noFlow := flow[0]|flow[1]|flow[2] == 0
	udp := packet[6] == 17 && len(packet) >= 48 && int(binary.BigEndian.Uint16(packet[44:])) == len(packet)-40 && choose(2) == 1

	tf := [][]byte{append([]byte{rotated}, flow...)}
	modes := []byte{0}
	if class>>2 == 0 {
		tf, modes = append(tf, []byte{rotated | flow[0], flow[1], flow[2]}), append(modes, 1)
	}
	if noFlow {
		tf, modes = append(tf, []byte{rotated}), append(modes, 2)
	}
	if noFlow && class == 0 {
		tf, modes = append(tf, nil), append(modes, 3)
	}
	i := choose(len(tf))
	b0, b1 := 0x60|modes[i]<<3, byte(0)
	body := tf[i]
	if udp {
		b0 |= 4
	} else {
		body = append(body, packet[6])
	}
	hops := map[byte]byte{1: 1, 64: 2, 255: 3}[packet[7]]
	if hops == 0 || choose(2) == 0 {
		hops, body = 0, append(body, packet[7])
	}
	b0 |= hops
	var cid []byte
	if choose(4) == 0 {
		b1, cid = 0x80, []byte{byte(choose(256))} // contexts that nobody uses
	}
	mode, inline := compressAddr(packet[8:24], src, choose)
	if mode >= 8 {
		mode, inline = 0, packet[8:24] // only a destination has ways to be multicast
	}
	b1, body = b1|mode<<4, append(body, inline...)
	mode, inline = compressAddr(packet[24:40], dst, choose)
	if mode == 4 {
		mode, inline = 0, packet[24:40] // no way to leave out an unspecified destination
	}
	b1, body = b1|mode, append(body, inline...)
	head = append(append([]byte{b0, b1}, cid...), body...)
	if !udp {
		return head, 40, 0
	}
	u := compressUDP(packet[40:48], choose)
	return append(head, u...), 48, u[0]
}

// compressAddr returns the mode, M or SAC included, and what stands in line.
func compressAddr(a []byte, link LinkAddr, choose chooser) (mode byte, inline []byte) {
	zero := func(from, to int) bool { return slices.Max(append(a[from:to:to], 0)) == 0 }
	type way struct {
		mode   byte
		inline []byte
	}
	ways := []way{{0, a}}
	switch {
	case zero(0, 16):
		ways = append(ways, way{4, nil})
	case a[0] == 0xff:
		ways[0].mode = 8
		if zero(2, 11) {
			ways = append(ways, way{9, append([]byte{a[1]}, a[11:]...)})
		}
		if zero(2, 13) {
			ways = append(ways, way{10, append([]byte{a[1]}, a[13:]...)})
		}
		if a[1] == 2 && zero(2, 15) {
			ways = append(ways, way{11, a[15:]})
		}
	case a[0] == 0xfe && a[1] == 0x80 && zero(2, 8):
		ways = append(ways, way{1, a[8:]})
		if binary.BigEndian.Uint64(a[8:])>>16 == 0xfffe00 {
			ways = append(ways, way{2, a[14:]})
		}
		if slices.Equal(a[8:], interfaceID(link)) {
			ways = append(ways, way{3, nil})
		}
	}
	w := ways[choose(len(ways))]
	return w.mode, w.inline
}

// interfaceID is the interface identifier made of a link address.
func interfaceID(link LinkAddr) []byte {
	switch link.size {
	case 2:
		return []byte{0, 0, 0, 0xff, 0xfe, 0, byte(link.bits >> 8), byte(link.bits)}
	case 8:
		id := binary.BigEndian.AppendUint64(nil, link.bits)
		id[0] ^= 2
		return id
	}
	return nil
}

func compressUDP(u []byte, choose chooser) []byte {
	type way struct {
		p      byte
		inline []byte
	}
	ways := []way{{0, u[:4]}}
	if u[2] == 0xf0 {
		ways = append(ways, way{1, []byte{u[0], u[1], u[3]}})
	}
	if u[0] == 0xf0 {
		ways = append(ways, way{2, []byte{u[1], u[2], u[3]}})
	}
	if u[0] == 0xf0 && u[2] == 0xf0 && u[1]>>4 == 0xb && u[3]>>4 == 0xb {
		ways = append(ways, way{3, []byte{u[1]<<4 | u[3]&15}})
	}
	w := ways[choose(len(ways))]
	if choose(2) == 1 { // leave the checksum out: it must be the right one
		return append([]byte{0xf4 | w.p}, w.inline...)
	}
	return append(append([]byte{0xf0 | w.p}, w.inline...), u[6:]...)
}

// linkUDP is an IPv6 packet with UDP and its right checksum, whose fields a
// chooser chooses, most often such that they can be compressed.
func linkUDP(size int, src, dst LinkAddr, choose chooser) []byte {
	b := linkIPv6(size, 17, choose(256))
	if size < 48 || choose(4) == 0 {
		b[6] = byte(choose(256))
		if b[6] == 17 {
			b[6] = 58
		}
	} else {
		u := b[40:]
		copy(u, [][]byte{{0xf0, 0xb1, 0xf0, 0xb2}, {0xf0, 7, 0xf0, 8}, {0x12, 0x34, 0xf0, 9}, {0xf0, 10, 1, 2}, {1, 2, 3, 4}}[choose(5)])
		binary.BigEndian.PutUint16(u[4:], uint16(size-40))
	}
	if choose(2) == 0 {
		b[0], b[1] = 0x60|byte(choose(16)), byte(choose(256))
	}
	if choose(2) == 0 {
		b[1] = b[1]&0xf0 | byte(choose(16))
		b[2], b[3] = byte(choose(256)), byte(choose(256))
	}
	b[7] = []byte{1, 64, 255, 63}[choose(4)]
	for i, link := range []LinkAddr{src, dst} {
		a := b[8+16*i : 24+16*i]
		kind := choose(9)
		if kind == 0 {
			continue // as it is
		}
		clear(a)
		switch kind {
		case 1:
			copy(a, "\xfe\x80")
			copy(a[8:], interfaceID(link))
		case 2:
			copy(a, "\xfe\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xfe\x00\x77")
			a[15] = byte(choose(256))
		case 3:
			copy(a, "\xfe\x80\x00\x00\x00\x00\x00\x00\x01\x02\x03\x04\x05\x06\x07\x08")
		case 4:
			copy(a, "\xff\x02")
			a[15] = byte(1 + choose(255))
		case 5:
			copy(a, "\xff\x05")
			copy(a[13:], "\x01\x02\x03")
		case 6:
			copy(a, "\xff\x3e")
			copy(a[11:], "\x09\x08\x07\x06\x05")
		case 7:
			copy(a, "\xff\x0e\x40")
			a[15] = 1
		}
	}
	if b[6] == 17 {
		binary.BigEndian.PutUint16(b[46:], 0)
		binary.BigEndian.PutUint16(b[46:], slowUDPSum(b))
	}
	return b
}

// slowUDPSum is the UDP checksum of an IPv6 packet, by RFC 8200 8.1 and RFC 768,
// over a pseudo header that is written out.
func slowUDPSum(packet []byte) uint16 {
	pseudo := slices.Clone(packet[8:40])
	pseudo = binary.BigEndian.AppendUint32(pseudo, uint32(len(packet)-40))
	pseudo = append(pseudo, 0, 0, 0, 17)
	pseudo = append(pseudo, packet[40:]...)
	pseudo[40+6], pseudo[40+7] = 0, 0
	if len(pseudo)%2 == 1 {
		pseudo = append(pseudo, 0)
	}
	if s := checksum(pseudo); s != 0 {
		return s
	}
	return 0xffff
}

// unhex reads hexadecimal with spaces.
func unhex(s string) []byte { return vectors.Unhex(strings.ReplaceAll(s, " ", "")) }
