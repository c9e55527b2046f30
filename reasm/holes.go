package reasm

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"sync"
)

// holes knows which bytes of one datagram are held, and nothing else: integers
// in, integers out. It is not safe for concurrent use; the zero value is empty.
//
// The bytes are held as runs, by the rule recorded from Linux 6.18: a fragment
// that starts exactly where the highest run ends joins it; every other fragment
// is a run of its own for ever. Filling a gap joins nothing, and lower runs
// never grow. So what counts as a duplicate depends on the order of arrival
// (RE-L25), and no cheaper structure gives the same answers.
//
//	highest run:  [lastOff, top)           grows in place: in order costs nothing more
//	lower runs:   low[:n], then two bitmaps over units of 8 bytes
//
// Invariants, between calls:
//
//	H1. All runs are disjoint, and the highest one ends at top.
//	H2. bytes is the sum of the lengths of all runs.
//	H3. Every run but the highest starts and ends at a multiple of 8.
//	H4. bits, if set, holds every lower run, and then n is 0.
//	H5. links is set in 6LoWPAN and holds every run, none of which ever joins; then
//	    n is 0 and bits is nil.
type holes struct {
	lastOff, top uint32
	bytes        uint32
	n            uint32
	low          [inlineRuns]run
	bits         *unitMap
	links        *linkMap
}

// inlineRuns is how many lower runs fit without the bitmaps: enough for the
// usual reordering, and cheap to scan.
const inlineRuns = 6

type run struct{ off, end uint32 }

// fit is how a fragment lies against the bytes held.
type fit uint8

const (
	fits      fit = iota // touches no byte that is held
	duplicate            // lies within one run
	overlaps             // touches held bytes in any other way
)

// classify reports how [off, end) lies against the bytes held; off < end, and
// off is a multiple of 8. Cost: about 1 ns in order, a few words of the bitmap
// otherwise.
func (h *holes) classify(off, end uint32) fit {
	if off >= h.top && end > off {
		return fits // most are, in line
	}
	return h.compare(off, end)
}

func (h *holes) compare(off, end uint32) fit {
	switch {
	case end > h.top:
		if off < h.top {
			return overlaps
		}
		return fits
	case h.links != nil:
		return h.links.classify(off/unit, units(end))
	case off >= h.lastOff:
		return duplicate
	case end > h.lastOff:
		return overlaps
	case h.bits != nil:
		return h.bits.classify(off/unit, end/unit)
	}
	for _, r := range h.low[:h.n] {
		if off < r.end && end > r.off {
			if off >= r.off && end <= r.end {
				return duplicate
			}
			return overlaps
		}
	}
	return fits
}

// add marks [off, end), which must fit, as held. It reports whether it had to
// take the bitmaps.
func (h *holes) add(off, end uint32) (tookMap bool) {
	h.bytes += end - off
	if off == h.top { // most do this, in line; the first of all too, where lastOff is 0
		h.top = end
		return false
	}
	return h.begin(off, end)
}

// begin adds bytes that do not follow the highest run.
func (h *holes) begin(off, end uint32) (tookMap bool) {
	switch {
	case end <= h.top:
		return h.lower(run{off, end})
	case h.top > 0:
		tookMap = h.lower(run{h.lastOff, h.top})
	}
	h.lastOff, h.top = off, end
	return tookMap
}

// lower adds a run below the highest one.
func (h *holes) lower(r run) (tookMap bool) {
	if h.bits == nil {
		if h.n < inlineRuns {
			h.low[h.n] = r
			h.n++
			return false
		}
		h.bits = unitMaps.Get().(*unitMap)
		for _, old := range h.low {
			h.bits.add(old)
		}
		h.n = 0
		tookMap = true
	}
	h.bits.add(r)
	return tookMap
}

// reset forgets everything and gives the bitmaps back.
func (h *holes) reset() {
	if h.bits != nil {
		h.bits.clear(h.top / unit)
		unitMaps.Put(h.bits)
	}
	if h.links != nil {
		*h.links = linkMap{}
		linkMaps.Put(h.links)
	}
	h.lastOff, h.top, h.bytes, h.n, h.bits, h.links = 0, 0, 0, 0, nil, nil
}

// contiguous reports whether the bytes held are the first ones, without a gap.
func (h *holes) contiguous() bool { return h.bytes == h.top }

// disordered reports whether a fragment did not follow the one before it; not in
// 6LoWPAN.
func (h *holes) disordered() bool { return h.n > 0 || h.bits != nil }

// runs returns all runs in order of offset. For people and tests: it allocates.
func (h *holes) runs() []run {
	if h.links != nil {
		return h.links.appendRuns(nil, h.top)
	}
	rs := slices.Clone(h.low[:h.n])
	if h.bits != nil {
		rs = h.bits.appendRuns(rs, h.lastOff/unit)
	}
	slices.SortFunc(rs, func(a, b run) int { return int(a.off) - int(b.off) })
	if h.top > 0 {
		rs = append(rs, run{h.lastOff, h.top})
	}
	return rs
}

// gaps counts the holes below the highest byte held.
func (h *holes) gaps() (n int) {
	at := uint32(0)
	for _, r := range h.runs() {
		if r.off > at {
			n++
		}
		at = r.end
	}
	return n
}

// String draws the runs: "[ (8) 16 8 ]" is a hole of 8 bytes, a run of 16 and
// another run of 8 that did not join it.
func (h *holes) String() string {
	var b strings.Builder
	b.WriteString("[ ")
	at := uint32(0)
	for _, r := range h.runs() {
		if r.off > at {
			fmt.Fprintf(&b, "(%d) ", r.off-at)
		}
		fmt.Fprintf(&b, "%d ", r.end-r.off)
		at = r.end
	}
	b.WriteString("]")
	return b.String()
}

// unit is the granularity of fragment offsets, in bytes.
const unit = 8

// mapWords covers every unit a fragment can reach: an IPv4 fragment may start at
// 65528 and be 65515 bytes long.
const mapWords = 1 << 14 / 64

// unitMap is two bitmaps over units: which are held, and where a run starts.
type unitMap struct {
	held  [mapWords]uint64
	start [mapWords]uint64
}

// unitMapBytes is what a unitMap pins.
const unitMapBytes = 2 * mapWords * 8

var unitMaps = sync.Pool{New: func() any { return new(unitMap) }}

func (m *unitMap) add(r run) {
	u, end := r.off/unit, r.end/unit
	m.start[u/64] |= 1 << (u % 64)
	w, last, mask := u/64, (end-1)/64, ^uint64(0)<<(u%64)
	for ; w < last; w++ {
		m.held[w] |= mask
		mask = ^uint64(0)
	}
	m.held[w] |= mask & tail(end)
}

// classify is holes.classify for units [u, end).
func (m *unitMap) classify(u, end uint32) fit {
	var (
		w, last           = u / 64, (end - 1) / 64
		mask              = ^uint64(0) << (u % 64)
		inner             = mask &^ (1 << (u % 64)) // a run may start at u itself
		held, gap, starts uint64
	)
	for ; w < last; w++ {
		held |= m.held[w] & mask
		gap |= ^m.held[w] & mask
		starts |= m.start[w] & inner
		mask, inner = ^uint64(0), ^uint64(0)
	}
	held |= m.held[w] & mask & tail(end)
	gap |= ^m.held[w] & mask & tail(end)
	starts |= m.start[w] & inner & tail(end)
	switch {
	case held == 0:
		return fits
	case gap == 0 && starts == 0:
		return duplicate
	}
	return overlaps
}

// tail has the bits of the last word of a range that ends before end.
func tail(end uint32) uint64 { return ^uint64(0) >> (-end % 64) }

// clear empties the map; no unit beyond last is set.
func (m *unitMap) clear(last uint32) {
	n := min(last/64+1, mapWords)
	clear(m.held[:n])
	clear(m.start[:n])
}

// appendRuns appends the runs below unit end, in order.
func (m *unitMap) appendRuns(rs []run, end uint32) []run {
	for w := range uint32(len(m.held)) {
		for word := m.start[w]; word != 0; word &= word - 1 {
			u := w*64 + uint32(bits.TrailingZeros64(word))
			e := u + 1
			for e < end && m.held[e/64]>>(e%64)&1 != 0 && m.start[e/64]>>(e%64)&1 == 0 {
				e++
			}
			rs = append(rs, run{u * unit, e * unit})
		}
	}
	return rs
}
