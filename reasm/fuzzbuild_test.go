package reasm

import (
	"encoding/binary"
	"encoding/hex"
	"slices"

	"corelane/internal/vectors"
)

// vecPad is destination options of n bytes, all padding.
func vecPad(n int) []vectors.Ext {
	b := make([]byte, n)
	b[1] = byte(n/8 - 1)
	for at := 2; at < n; {
		k := min(n-at, 257)
		b[at], b[at+1] = 0x1e, byte(k-2) // an experimental option: skip if unknown
		if n-at-k == 1 {
			b[at+1]-- // a single byte cannot hold an option
			k--
		}
		at += k
	}
	return []vectors.Ext{{NH: nhDestOpts, Hex: hex.EncodeToString(b)}}
}

// wholePacket makes a packet without fragmentation that could be cut.
func wholePacket(family int, kind byte, head []byte, length int) []byte {
	f := frag{ID: uint32(len(head))<<8 | uint32(kind), Len: length, Plain: true, TOS: int(kind>>4) | int(kind>>2&1)*2, TTL: 1 + int(kind)}
	head = head[:min(len(head), 120)]
	if family == 4 {
		// Options that parse: none is looked at.
		f.Opt = hex.EncodeToString(head[:min(len(head), 40)/4*4])
		f.Len = min(f.Len, 65535-20-len(f.Opt)/2)
		f.DF = kind>>1&1 == 1
	} else {
		if n := len(head) / 4 * 8; n >= 8 {
			f.Pre = vecPad(n)
			f.Len = min(f.Len, 65535-n)
		}
		f.Flow = int(kind) * 17
	}
	zero := 0
	f.Fill = &zero
	return f.packet(family, 0)
}

// cutPacket fragments a packet; each byte of cuts is the size of a piece, in
// units, and the rest goes into pieces that fit.
func cutPacket(family int, packet []byte, cuts []byte) (pieces [][]byte) {
	front := 20
	if family == 4 {
		front = int(packet[0]&15) * 4
	} else {
		for nh := packet[6]; front < 40 || nh == nhDestOpts; {
			if front < 40 {
				front = 40
				continue
			}
			nh, front = packet[front], front+(int(packet[front+1])+1)*8
		}
	}
	payload := packet[front:]
	for off := 0; off < len(payload); {
		n := 8000
		if len(cuts) > 0 {
			n, cuts = (1+int(cuts[0]))*8, cuts[1:]
		}
		more := off+n < len(payload)
		if !more {
			n = len(payload) - off
		}
		pieces = append(pieces, fragmentOf(family, packet[:front], payload[off:off+n], off, more))
		off += n
	}
	return pieces
}

func fragmentOf(family int, hdr, payload []byte, off int, more bool) []byte {
	b := slices.Clone(hdr)
	if family == 4 {
		word := binary.BigEndian.Uint16(b[6:])&ipv4DF | uint16(off/8)
		if more {
			word |= ipv4MF
		}
		binary.BigEndian.PutUint16(b[2:], uint16(len(b)+len(payload)))
		binary.BigEndian.PutUint16(b[6:], word)
		resum(b)
		return append(b, payload...)
	}
	prev := 6
	for at := 40; at < len(b); at += (int(b[at+1]) + 1) * 8 {
		prev = at
	}
	next := b[prev]
	b[prev] = nhFragment
	word := uint16(off)
	if more {
		word |= 1
	}
	b = append(b, next, 0, byte(word>>8), byte(word), 0, 0, 0xab, 0xcd)
	binary.BigEndian.PutUint16(b[4:], uint16(len(b)-40+len(payload)))
	return append(b, payload...)
}

func resum(hdr []byte) {
	hdr[10], hdr[11] = 0, 0
	binary.BigEndian.PutUint16(hdr[10:], checksum(hdr))
}

func ecnOf(family int, b []byte) byte {
	if family == 4 {
		return b[1] & 3
	}
	return b[1] >> 4 & 3
}

// setCE marks a packet Congestion Experienced.
func setCE(family int, b []byte) {
	if family == 6 {
		b[1] |= 0x30
		return
	}
	b[1] |= 3
	resum(b[:b[0]&15*4])
}
