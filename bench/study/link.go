package study

import (
	"encoding/binary"

	"corelane/bench/scenario"
	"corelane/reasm"
)

// link is what packets look like, and what holding one costs.
type link struct {
	name string
	// payload is what each fragment carries, the last one too; a multiple of 8.
	payload int
	charge  scenario.Charge
	ahead   int // bytes of a packet before its payload
	front   int // bytes of a delivered datagram before its payload
	first   int // bytes of the first fragment's payload before its stamp
	header  func(b []byte, t *trace, e *event)
	parse   func(b []byte, d *datagram, f *reasm.Fragment) reasm.Verdict
}

// The charges are about what Linux accounts for an skb with its buffer, and 256
// for a queue.
var (
	ipv4 = &link{"IPv4 1500", 1480, scenario.KernelCharge, 20, 20, 8, header4, parseIP}
	// ipv4Lean is charged what the packet holds, and 64.
	ipv4Lean = &link{"IPv4 1500 lean", 1480, scenario.Charge{Queue: 256, Fragment: 1480 + 64}, 20, 20, 8, header4, parseIP}
	ipv4576  = &link{"IPv4 576", 552, scenario.Charge{Queue: 256, Fragment: 1280}, 20, 20, 8, header4, parseIP}
	ipv49000 = &link{"IPv4 9000", 8976, scenario.Charge{Queue: 256, Fragment: 16640}, 20, 20, 8, header4, parseIP}
	ipv6     = &link{"IPv6 1500", 1448, scenario.KernelCharge, 48, 40, 8, header6, parseIP}
	ipv61280 = &link{"IPv6 1280", 1232, scenario.KernelCharge, 48, 40, 8, header6, parseIP}
	lowpan   = &link{"6LoWPAN", 96, scenario.Charge{Queue: 256, Fragment: 768}, 5, 0, 48, headerLoWPAN, parseLoWPAN}
)

const (
	protoUDP  = 17
	protoNone = 59 // of a silent datagram

	receiver4   = 192<<24 | 168<<16 // the index's high half is added to it
	moreFollow4 = 0x2000
)

func (d *datagram) proto() byte {
	if d.claim == silent {
		return protoNone
	}
	return protoUDP
}

// header4 writes all of an IPv4 packet but its payload, and the UDP header of a
// first one. A datagram's name is the identification with the destination, so
// that none repeats in a run.
func header4(b []byte, t *trace, e *event) {
	d, be := &t.dgrams[e.dgram], binary.BigEndian
	n := len(b) - 20
	word := uint16(int(e.frag) * n / 8)
	if e.frag < d.frags-1 {
		word |= moreFollow4
	}
	be.PutUint32(b[0:], 0x45<<24|uint32(len(b)))
	be.PutUint16(b[4:], uint16(d.key))
	be.PutUint16(b[6:], word)
	be.PutUint32(b[8:], 64<<24|uint32(d.proto())<<16) // nobody looks at the checksum
	be.PutUint32(b[12:], d.src)
	be.PutUint32(b[16:], receiver4|d.key>>16)
	udp(b[20:], d, e, n)
}

func header6(b []byte, t *trace, e *event) {
	d, be := &t.dgrams[e.dgram], binary.BigEndian
	n := len(b) - 48
	b[0], b[1], b[2], b[3] = 0x60, 0, 0, 0
	be.PutUint16(b[4:], uint16(len(b)-40))
	b[6], b[7] = 44, 64
	addr6(b[8:], d.src)
	addr6(b[24:], receiver4)
	word := uint16(int(e.frag) * n)
	if e.frag < d.frags-1 {
		word |= 1
	}
	b[40], b[41] = d.proto(), 0
	be.PutUint16(b[42:], word)
	be.PutUint32(b[44:], d.key)
	udp(b[48:], d, e, n)
}

func addr6(b []byte, low uint32) {
	clear(b[:12])
	b[0], b[1] = 0x20, 0x01
	binary.BigEndian.PutUint32(b[12:], low)
}

// udp writes the header that starts a first fragment's payload.
func udp(b []byte, d *datagram, e *event, payload int) {
	if e.frag == 0 {
		binary.BigEndian.PutUint32(b[0:], 9<<16|9)
		binary.BigEndian.PutUint32(b[4:], uint32(int(d.claim)*payload)<<16)
	}
}

// headerLoWPAN writes the start of a frame: FRAG1 with an IPv6 header as it is,
// or FRAGN. What a first fragment speaks of is the frame's size field, so nobody
// can lie about it.
func headerLoWPAN(b []byte, t *trace, e *event) {
	d, be := &t.dgrams[e.dgram], binary.BigEndian
	size := int(d.frags) * 96
	be.PutUint16(b[2:], uint16(d.key))
	if e.frag > 0 {
		be.PutUint16(b[0:], 0xe000|uint16(size))
		b[4] = e.frag * (96 / 8)
		return
	}
	be.PutUint16(b[0:], 0xc000|uint16(size))
	b[4] = 0x41 // an IPv6 header follows
	p := b[5:]
	p[0], p[1], p[2], p[3] = 0x60, 0, 0, 0
	be.PutUint16(p[4:], uint16(size-40))
	p[6], p[7] = d.proto(), 64
	addr6(p[8:], d.src)
	addr6(p[24:], receiver4)
	be.PutUint32(p[40:], 9<<16|9)
	be.PutUint32(p[44:], uint32(size-40)<<16)
}

func parseIP(b []byte, _ *datagram, f *reasm.Fragment) reasm.Verdict {
	var p reasm.Parser
	return p.Parse(b, 0, f)
}

func parseLoWPAN(b []byte, d *datagram, f *reasm.Fragment) reasm.Verdict {
	var p reasm.Parser
	var src, dst [8]byte
	binary.BigEndian.PutUint32(src[4:], d.src)
	binary.BigEndian.PutUint32(dst[4:], d.key>>16)
	return p.LoWPAN(b, reasm.ExtendedAddr(src), reasm.ExtendedAddr(dst), 0, f)
}

// buffers makes packets and takes them back. A buffer's payload is whatever its
// previous packet left there, but for a stamp that says where it belongs.
type buffers struct {
	free [][]byte
	out  int // with the cache
}

func (p *buffers) build(l *link, t *trace, e *event) []byte {
	var b []byte
	if n := len(p.free); n > 0 {
		b, p.free = p.free[n-1], p.free[:n-1]
	} else {
		b = make([]byte, l.ahead+l.payload)
	}
	l.header(b, t, e)
	body := b[l.ahead:]
	if e.frag == 0 {
		body = body[l.first:]
	}
	binary.BigEndian.PutUint32(body, e.dgram)
	binary.BigEndian.PutUint16(body[4:], uint16(e.frag))
	return b
}

func (p *buffers) back(b []byte) { p.free = append(p.free, b[:cap(b)]) }

// intact reports which datagram was delivered, and whether it is exactly that
// one: its length, and the stamp of each of its fragments.
func (l *link) intact(t *trace, got *reasm.Datagram) (dgram uint32, ok bool) {
	frag, at, pos := 0, l.front+l.first, 0 // the next stamp, and where segments stand
	for s := range got.Segments() {
		for at < pos+len(s) {
			stamp := s[at-pos:]
			if len(stamp) < 6 {
				return 0, false
			}
			d := binary.BigEndian.Uint32(stamp)
			if frag == 0 {
				dgram = d
			}
			if d != dgram || int(binary.BigEndian.Uint16(stamp[4:])) != frag {
				return 0, false
			}
			frag++
			at = l.front + frag*l.payload
		}
		pos += len(s)
	}
	return dgram, int(dgram) < len(t.dgrams) && frag == int(t.dgrams[dgram].frags) && pos == at
}
