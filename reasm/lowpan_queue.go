package reasm

import (
	"encoding/binary"
	"sync"
)

// linkMap knows which link fragments of a 6LoWPAN datagram are held, and where
// each begins and ends: RFC 4944 tells a repeated fragment from a conflict by its
// borders, so fragments never join. 2047 bytes are 256 units, and a bit for each
// is all there is to keep (RE-26).
type linkMap struct{ held, start linkBits }

type linkBits [256 / 64]uint64

// linkMapBytes is what a linkMap pins.
const linkMapBytes = 2 * 256 / 8

var linkMaps = sync.Pool{New: func() any { return new(linkMap) }}

func (b *linkBits) has(u uint32) bool { return b[u/64]>>(u%64)&1 != 0 }
func (b *linkBits) set(u uint32)      { b[u/64] |= 1 << (u % 64) }

func (m *linkMap) add(u, end uint32) {
	m.start.set(u)
	for ; u < end; u++ {
		m.held.set(u)
	}
}

// classify is holes.classify for units [u, end): what is held is a duplicate only
// if it is exactly one fragment.
func (m *linkMap) classify(u, end uint32) fit {
	held, same := uint32(0), m.start.has(u) && m.ends(end)
	for i := u; i < end; i++ {
		if m.held.has(i) {
			held++
		}
		same = same && (i == u || !m.start.has(i))
	}
	switch {
	case held == 0:
		return fits
	case held == end-u && same:
		return duplicate
	}
	return overlaps
}

// ends reports whether no fragment reaches across the border in front of unit u.
func (m *linkMap) ends(u uint32) bool {
	return u == 64*uint32(len(m.held)) || !m.held.has(u) || m.start.has(u)
}

// appendRuns appends the fragments, in order; the last one ends at top.
func (m *linkMap) appendRuns(rs []run, top uint32) []run {
	for u := uint32(0); u < units(top); u++ {
		if !m.start.has(u) {
			continue
		}
		end := u + 1
		for !m.ends(end) {
			end++
		}
		rs = append(rs, run{u * unit, min(end*unit, top)})
	}
	return rs
}

// units is how many units n bytes take.
func units(n uint32) uint32 { return (n + unit - 1) / unit }

// addLink is add for a fragment of 6LoWPAN.
func (h *holes) addLink(off, end uint32) (tookMap bool) {
	if h.links == nil {
		h.links = linkMaps.Get().(*linkMap)
		tookMap = true
	}
	h.links.add(off/unit, units(end))
	h.bytes += end - off
	if end > h.top {
		h.lastOff, h.top = off, end
	}
	return tookMap
}

// noteLink is the part of note that 6LoWPAN does in its own way.
func (q *queue) noteLink(f *Fragment) (pinned int64) {
	q.end = int32(f.Key.linkSize()) // every fragment says so
	if f.Offset == 0 {
		var h lowpanHeader
		h.expand(f.Packet[f.nextHeaderAt:], &f.Key)
		q.hdr = append(q.hdrBuf[:0], h.b[:h.n]...)
		q.firstLen, q.lead, q.unsummed = f.end(), f.lead, h.unsummed
		q.announced = f.Key.linkSize()
	}
	if q.holes.addLink(f.Offset, f.end()) {
		return linkMapBytes
	}
	return 0
}

// sumUDP fills in the UDP checksum that the sender left out, as RFC 6282 4.3.2
// demands. Only the datagram's last byte may stand at an odd place.
func (d *Datagram) sumUDP() {
	udp := d.hdr[ipv6Header:]
	// The pseudo header: both addresses, which stand in front of it, the length
	// and the protocol.
	s := uint32(binary.BigEndian.Uint16(udp[4:])) + nhUDP
	first := true
	for b := range d.Segments() {
		if first {
			b, first = b[8:], false
		}
		for ; len(b) > 1; b = b[2:] {
			s += uint32(binary.BigEndian.Uint16(b))
		}
		if len(b) == 1 {
			s += uint32(b[0]) << 8
		}
	}
	for s>>16 != 0 {
		s = s&0xffff + s>>16
	}
	if s == 0xffff {
		s = 0 // 0 would mean that there is none
	}
	binary.BigEndian.PutUint16(udp[6:], ^uint16(s))
}
