// Package traffic makes fragments for benchmarks: real IPv4 and IPv6 packets
// with UDP inside.
package traffic

import "encoding/binary"

// The addresses of all datagrams.
var (
	Src4 = [4]byte{10, 9, 1, 1}
	Dst4 = [4]byte{10, 9, 0, 1}
	Src6 = [16]byte{0xfd, 9, 13: 1, 15: 1}
	Dst6 = [16]byte{0xfd, 9, 15: 1}
)

// Datagram describes one datagram.
type Datagram struct {
	Family int // 4 or 6
	ID     uint32
	Size   int // payload of the IP packet, UDP header included
	MTU    int
}

// Packets returns its fragments in order.
func (d Datagram) Packets() [][]byte {
	hdr := 20
	if d.Family == 6 {
		hdr = 48
	}
	step := (d.MTU - hdr) &^ 7
	var out [][]byte
	for off := 0; off < d.Size; off += step {
		n := min(step, d.Size-off)
		b := make([]byte, hdr+n)
		d.header(b, off, off+n < d.Size)
		for i := range n {
			b[hdr+i] = byte(off + i + int(d.ID))
		}
		if off == 0 && n >= 8 {
			binary.BigEndian.PutUint16(b[hdr+4:], uint16(d.Size))
			binary.BigEndian.PutUint16(b[hdr+6:], 0)
		}
		out = append(out, b)
	}
	return out
}

func (d Datagram) header(b []byte, off int, more bool) {
	if d.Family == 6 {
		b[0] = 0x60
		binary.BigEndian.PutUint16(b[4:], uint16(len(b)-40))
		b[6], b[7] = 44, 64
		copy(b[8:], Src6[:])
		copy(b[24:], Dst6[:])
		b[40] = 17
		word := uint16(off)
		if more {
			word |= 1
		}
		binary.BigEndian.PutUint16(b[42:], word)
		binary.BigEndian.PutUint32(b[44:], d.ID)
		return
	}
	b[0] = 0x45
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	binary.BigEndian.PutUint16(b[4:], uint16(d.ID))
	word := uint16(off / 8)
	if more {
		word |= 0x2000
	}
	binary.BigEndian.PutUint16(b[6:], word)
	b[8], b[9] = 64, 17
	copy(b[12:], Src4[:])
	copy(b[16:], Dst4[:])
	var sum uint32
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(b[10:], ^uint16(sum))
}
