package vectors

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"net/netip"
)

// Addresses of steps that name none.
var (
	Src4, Dst4 = netip.MustParseAddr("10.9.1.1"), netip.MustParseAddr("10.9.0.1")
	Src6, Dst6 = netip.MustParseAddr("fd09::1:1"), netip.MustParseAddr("fd09::1")
)

// PatternByte is payload byte p of a datagram in a fragment with this fill. For
// a given p, fills that differ modulo 256 give different bytes.
func PatternByte(fill, p int) byte { return byte(61*(fill+1) + 7*p + 13*(p>>8)) }

// FillAt is the fill of the step if it is the i-th of its case.
func (s *Step) FillAt(i int) int {
	if s.Fill != nil {
		return *s.Fill
	}
	return i
}

// Packet builds the packet that step i of a case sends, nil for a pause.
func (s *Step) Packet(family, i int) []byte {
	if s.Pause > 0 {
		return nil
	}
	var b []byte
	if family == 4 {
		b = s.header4(s.Len + s.Trail)
	} else {
		b = s.header6(s.Len + s.Trail)
	}
	at, fill := len(b), s.FillAt(i)
	for j := range s.Len {
		b = append(b, PatternByte(fill, s.Off+j))
	}
	copy(b[at:], Unhex(s.Data))
	b = append(b, bytes.Repeat([]byte{0xa5}, s.Trail)...)
	return b[: len(b)-s.Cut : len(b)-s.Cut]
}

// header4 leaves room for that much behind the header.
func (s *Step) header4(room int) []byte {
	opt := Unhex(s.Opt)
	opt = append(opt, make([]byte, -len(opt)&3)...)
	b := make([]byte, 20, 20+len(opt)+room)
	b = append(b, opt...)
	b[0] = 0x40 | byte(len(b)/4)
	b[1] = byte(s.TOS)
	binary.BigEndian.PutUint16(b[2:], uint16(s.length(len(b)+s.Len)))
	binary.BigEndian.PutUint16(b[4:], uint16(s.ID))
	word := uint16(s.Off / 8 & 0x1fff)
	if s.MF {
		word |= 0x2000
	}
	if s.DF {
		word |= 0x4000
	}
	if s.RB {
		word |= 0x8000
	}
	binary.BigEndian.PutUint16(b[6:], word)
	b[8] = s.ttl()
	b[9] = s.proto()
	src, dst := addr(s.Src, Src4).As4(), addr(s.Dst, Dst4).As4()
	copy(b[12:], src[:])
	copy(b[16:], dst[:])
	s.patch(b)
	ck := Checksum(b)
	if s.BadCk {
		ck++
	}
	binary.BigEndian.PutUint16(b[10:], ck)
	return b
}

func (s *Step) header6(room int) []byte {
	const nhFragment = 44
	b := make([]byte, 40, 40+8+room)
	binary.BigEndian.PutUint32(b, 6<<28|uint32(s.TOS)<<20|uint32(s.Flow))
	b[7] = s.ttl()
	src, dst := addr(s.Src, Src6).As16(), addr(s.Dst, Dst6).As16()
	copy(b[8:], src[:])
	copy(b[24:], dst[:])
	next := 6
	for _, e := range s.Pre {
		b[next] = byte(e.NH)
		next = len(b)
		b = append(b, Unhex(e.Hex)...)
	}
	if s.Plain {
		b[next] = s.proto()
	} else {
		b[next] = nhFragment
		word, reserved := uint16(s.Off)&^7, byte(0)
		if s.MF {
			word |= 1
		}
		if s.RB {
			word, reserved = word|6, 0xff
		}
		b = append(b, s.proto(), reserved)
		b = binary.BigEndian.AppendUint16(b, word)
		b = binary.BigEndian.AppendUint32(b, s.ID)
	}
	binary.BigEndian.PutUint16(b[4:], uint16(s.length(len(b)-40+s.Len)))
	s.patch(b)
	return b
}

func (s *Step) patch(b []byte) {
	for _, p := range s.Patch {
		copy(b[p.At:], Unhex(p.Hex))
	}
}

func (s *Step) length(right int) int {
	switch s.Length {
	case 0:
		return right
	case -1:
		return 0
	}
	return s.Length
}

func (s *Step) proto() byte {
	switch s.Proto {
	case 0:
		return 253
	case -1:
		return 0
	}
	return byte(s.Proto)
}

func (s *Step) ttl() byte {
	if s.TTL == 0 {
		return 64
	}
	return byte(s.TTL)
}

func addr(s string, def netip.Addr) netip.Addr {
	if s == "" {
		return def
	}
	return netip.MustParseAddr(s)
}

// Checksum is the Internet checksum of b, whose length is even.
func Checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

// Unhex decodes hex of which the programmer knows that it is right.
func Unhex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}
