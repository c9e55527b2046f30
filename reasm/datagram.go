package reasm

import (
	"encoding/binary"
	"iter"
)

// Datagram is a complete IP packet. It is valid, and charged to its cache, until
// Release, which must be called once, from any goroutine, also after the cache
// was closed. Its bytes may be changed.
type Datagram struct {
	q    *queue
	hdr  []byte // the rebuilt header; in Copy it stands in buf, before the payload
	size int    // largest fragment
}

// Key returns the key that its fragments had in common.
func (d *Datagram) Key() Key { return d.q.key.public() }

// Len returns the length of the whole packet in bytes.
func (d *Datagram) Len() int { return len(d.hdr) + int(d.q.end-int32(d.q.lead)) }

// Header returns the IP header, in IPv6 with the extension headers that stood
// before the Fragment header. It says what the fragment at offset 0 said, but
// for the total length, the fragment fields, ECN, DF and the checksum. In 6LoWPAN
// it is what the first fragment decompresses to: the IPv6 header, and the UDP
// header behind it if that was compressed.
func (d *Datagram) Header() []byte { return d.hdr }

// MaxFragment returns the length of the largest fragment, header included: a
// router must not send larger ones on (RE-L13). In 6LoWPAN it is a frame.
func (d *Datagram) MaxFragment() int { return d.size }

// Fragments returns how many fragments it was made of.
func (d *Datagram) Fragments() int { return int(d.q.fragments) }

// Created and Completed are the times of its first and its completing fragment.
func (d *Datagram) Created() int64   { return d.q.created }
func (d *Datagram) Completed() int64 { return d.q.last }

// Segments yields the packet in order: the header, then the payload, in Borrow
// one slice for each fragment.
func (d *Datagram) Segments() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if !yield(d.hdr) {
			return
		}
		if d.q.buf != nil {
			front := d.q.host.buffers.front
			yield(d.q.buf.b[front+int(d.q.lead) : front+int(d.q.end)])
			return
		}
		for _, b := range d.q.bufs {
			if !yield(b.Packet[b.payload:]) {
				return
			}
		}
	}
}

// AppendTo appends the packet to b.
func (d *Datagram) AppendTo(b []byte) []byte {
	for s := range d.Segments() {
		b = append(b, s...)
	}
	return b
}

// Bytes returns the whole packet as one slice. In Copy it costs nothing; in
// Borrow it allocates a copy.
func (d *Datagram) Bytes() []byte { return d.Prepend(0) }

// Prepend returns the whole packet with n more bytes in front, for a header to
// be written there. It costs nothing in Copy while n <= Config.Headroom (and the
// IPv6 extension headers are not absurdly long); else it allocates a copy.
func (d *Datagram) Prepend(n int) []byte {
	front := d.q.host.buffers.front
	if at := front + int(d.q.lead) - len(d.hdr) - n; d.q.buf != nil && at >= 0 {
		return d.q.buf.b[at : front+int(d.q.end)]
	}
	return d.AppendTo(make([]byte, n, n+d.Len()))
}

// Release gives the memory back, and in Borrow the buffers, to Config.Free on
// this goroutine. A second Release panics, unless the memory has become another
// Datagram meanwhile.
func (d *Datagram) Release() {
	q, c := d.q, d.q.cache
	q.mu.Lock()
	was := q.state
	q.state = idle
	q.mu.Unlock()
	if was != delivered {
		panic("reasm: Datagram released twice")
	}
	c.account.UnchargeAt(q.lane, q.charged)
	c.host.free(q)
	c.bury()
}

// deliver makes a complete, retired queue the caller's Datagram.
func (q *queue) deliver() *Datagram {
	h := q.host
	d := &q.dgram
	d.q = q
	d.hdr, d.size = q.build()
	if at := h.buffers.front + int(q.lead) - len(d.hdr); q.buf != nil && at >= 0 {
		d.hdr = q.buf.b[at : at+copy(q.buf.b[at:], d.hdr)]
	}
	q.sort()
	if q.unsummed {
		d.sumUDP()
	}
	q.state = delivered
	return d
}

// ecnResult says what to set in the result's ECN field, from the set of
// codepoints seen (bit n: codepoint n), by RFC 3168 5.3: CE if any fragment was
// marked; ok is false if Not-ECT was mixed with anything else. Fragments with
// both ECT codepoints leave the first one's, as Linux does.
func ecnResult(seen uint8) (or byte, ok bool) {
	const notECT, ce = 0, 3
	if seen&(1<<notECT) != 0 && seen != 1<<notECT {
		return 0, false
	}
	if seen&(1<<ce) != 0 {
		or = ce
	}
	return or, true
}

// judgeComplete decides whether a complete queue makes a packet: Complete,
// BadECN or TooLong.
func (q *queue) judgeComplete() Verdict {
	if _, ok := ecnResult(q.ecns); !ok {
		return BadECN
	}
	n := len(q.hdr) + int(q.end)
	if q.key.Family() == IPv6 {
		n -= ipv6Header + fragHeader // the payload length counts neither
	}
	if n > maxIPv6Length {
		return TooLong
	}
	return Complete
}

// build rebuilds the header of a complete queue in place.
func (q *queue) build() (hdr []byte, size int) {
	or, _ := ecnResult(q.ecns)
	hdr, size = q.hdr, int(q.maxSize)
	switch q.key.Family() {
	case LoWPAN:
		return hdr, size // it was made from the datagram's size
	case IPv6:
		at := len(hdr) - fragHeader
		hdr[q.nextHdrAt] = hdr[at]
		hdr = hdr[:at]
		binary.BigEndian.PutUint16(hdr[payloadLenAt:], uint16(at-ipv6Header+int(q.end)))
		hdr[1] |= or << 4
		return hdr, size
	}
	hdr[1] |= or
	binary.BigEndian.PutUint16(hdr[2:], uint16(len(hdr)+int(q.end)))
	word := uint16(0)
	if q.maxDF == q.maxSize {
		word = ipv4DF
	}
	binary.BigEndian.PutUint16(hdr[6:], word)
	binary.BigEndian.PutUint16(hdr[10:], 0)
	binary.BigEndian.PutUint16(hdr[10:], checksum(hdr))
	return hdr, size
}
