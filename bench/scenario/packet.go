package scenario

import (
	"encoding/binary"

	"corelane/reasm"
)

// packets makes real packets and takes them back. A buffer's payload is whatever
// its previous packet left there, but for a stamp that says where it belongs, so
// that a delivered datagram can be checked without copying payloads about.
type packets struct {
	free [][]byte
	out  int // with the cache
}

const (
	ipHeader  = 20
	udpHeader = 8
	stampSize = 6 // datagram and fragment, behind the UDP header if there is one
)

// build writes the packet of an event. It is the caller's until the cache keeps
// it.
func (p *packets) build(t *trace, e *event) []byte {
	d := &t.dgrams[e.dgram]
	var b []byte
	if n := len(p.free); n > 0 {
		b, p.free = p.free[n-1], p.free[:n-1]
	} else {
		b = make([]byte, ipHeader+mtuPayload)
	}
	b = b[:ipHeader+d.payload(int(e.frag))]
	word := e.frag * (mtuPayload / 8)
	if int(e.frag) < d.frags()-1 {
		word |= 0x2000 // more fragments
	}
	be := binary.BigEndian
	be.PutUint32(b[0:], 0x45<<24|uint32(len(b)))
	be.PutUint16(b[4:], d.id)
	be.PutUint16(b[6:], word)
	be.PutUint32(b[8:], 64<<24|17<<16) // TTL, UDP, checksum below
	be.PutUint32(b[12:], d.src)
	be.PutUint32(b[16:], d.dst)
	be.PutUint16(b[10:], checksum(b[:ipHeader]))
	body := b[ipHeader:]
	if e.frag == 0 {
		be.PutUint16(body[0:], d.port)
		be.PutUint16(body[2:], 9) // discard
		be.PutUint16(body[4:], d.claim)
		be.PutUint16(body[6:], 0)
		body = body[udpHeader:]
	}
	be.PutUint32(body[0:], e.dgram)
	be.PutUint16(body[4:], e.frag)
	return b
}

func (p *packets) back(b []byte) { p.free = append(p.free, b[:cap(b)]) }

// intact reports which datagram of the trace was delivered, and whether it is
// exactly that one: its length, and the stamp of each of its fragments.
func (t *trace) intact(got *reasm.Datagram) (dgram uint32, ok bool) {
	frag := -1 // the first segment is the header
	for s := range got.Segments() {
		body := s
		if frag == 0 {
			body = s[udpHeader:]
			dgram = binary.BigEndian.Uint32(body)
			if int(dgram) >= len(t.dgrams) || got.Len() != ipHeader+int(t.dgrams[dgram].bytes) {
				return 0, false
			}
		}
		if frag >= 0 {
			d := &t.dgrams[dgram]
			if binary.BigEndian.Uint32(body) != dgram || int(binary.BigEndian.Uint16(body[4:])) != frag ||
				len(s) != d.payload(frag) {
				return 0, false
			}
		}
		frag++
	}
	return dgram, frag == t.dgrams[dgram].frags()
}

// checksum is the Internet checksum of a header whose checksum field is 0.
func checksum(b []byte) uint16 {
	var s uint32
	for i := 0; i < len(b); i += 2 {
		s += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	s = s&0xffff + s>>16
	return ^uint16(s + s>>16)
}
