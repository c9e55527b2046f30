package rhmap

import (
	"math/bits"
	"unsafe"

	"corelane/internal/yield"
)

// cursor is a place in a walk: a position in hash space, never an element.
//
// All versions of an epoch have the same order, so growing and shrinking do not
// disturb a cursor: the next chain is the one that holds pos in the version that
// rules it. A reseed ends the epoch, but leaves its last version frozen, with
// every slot as it was: a cursor goes on over that, and what has been removed
// since is dead. Nobody knows of a cursor, so nobody waits for one and an
// abandoned one costs nothing; it keeps one array alive, and only after a reseed.
//
// Proof of W1, for an element present from Walk to the end. Let r be the range
// of hashes that a step covers, and b the chain it reads. If b's head showed
// live when the step loaded it, b ruled r at that instant: chain comes to a
// version by ep.cur, so that all before it have been left, or by a chain that
// says moved. So the element was in b, and it stays readable there: slots of
// present elements are not cleared, and a retired chain does not change (B3,
// B5). If it showed moved, the step went on to the next version, which has the
// element by then. If it showed frozen, the element was in b when b froze, for
// the walk began before this reseed did (see settle). So every step finds every
// such element of its range, and ranges are disjoint and cover all hashes.
//
// Proof of W2. A key is taken only in the step whose range holds its hash: that
// is checked wherever an entry might have come from elsewhere. Within a step the
// same key can be found in two lives only if the first has ended by the time the
// second is found, and Next does not return what has ended. In one life it stands
// in one slot of the chain (B2, B3), and besides in a copy, from the time the chain
// is being moved. Copies are in new arrays, which the step does not read, and in
// overflow buckets. It may be in one of those, if that was the end of the chain when
// the step went there, and was unlinked and used again: see strayed.
//
// Proof of W6, that every call ends, whatever the others do:
//
//	T1. A step covers at least the hash at pos, and all up to the last one of a
//	    bucket. So it is over after as many steps as the arrays it meets have
//	    buckets.
//	T2. Within a chain a step follows longest links, a number loaded once, though
//	    the links may lead through buckets that are being used again: even if they
//	    led in a circle it would end. (Under the lock chains are followed to their
//	    end. There a bucket belongs to one chain or to one list of spares, and
//	    leaves it before it joins another, so there are no circles: see check.)
//	T3. chain goes from a version to a later one each time round, so it goes round
//	    as often as resizes begin during the call, and twice more. For a chain
//	    says moved only if its version has a next; that is later; and where next
//	    says retired, ep.cur is later, because of the order in finish. With cur
//	    before ep.cur, say, a late finisher could set ep.cur back to a version
//	    that is retired, and a walker would turn from it to retired to ep.cur to
//	    it for ever. finish_test.go searches every interleaving of this.
type cursor struct {
	ep   *epoch
	pos  uint64 // the first hash not yet covered
	over bool   // every hash is covered
}

// A haul is what a walk finds in one go: the entries of some chains, in the order
// of the walk. There is no slice in it but long, so that it can stay on the stack.
type haul struct {
	n       int                       // entries
	places  int                       // buckets
	from    uint64                    // the first hash covered
	plain   bool                      // every place is sure, and long is empty
	links   int32                     // the most that a chain here can have had
	entry   [haulSlots]unsafe.Pointer // nil where a slot had a tag and no entry
	slot    [haulSlots]uint16         // where each was: its place << 3, and the slot of that
	place   [haulSlots]place          // those without a tag are left out
	long    []unsafe.Pointer          // addresses of slots of the last chain that found no room, for it is over-long
	touched byte                      // keeps loads that only start a cache miss
}

// A place is a bucket of a haul. It covers the hashes up to last, from the end of
// the chain before it.
type place struct {
	b    *bucket
	last uint64
	// head is the head of the chain, or nil, which says that it is b and that all
	// entries of b belong to this range. Otherwise the range may be only a part of
	// the chain's (the table shrank), or b, for it is an overflow bucket, may belong
	// to another chain by now.
	head *bucket
}

const (
	// walkBuffer is how many entries a walk looks ahead: enough for their cache
	// misses to overlap.
	walkBuffer = 40
	haulSlots  = walkBuffer + (1+chainLimit)*slotsPer // a power of two spares bounds checks
)

// at is the slot of entry i.
func (h *haul) at(i int) *unsafe.Pointer {
	x := h.slot[i]
	return h.place[x>>3].b.at(int(x & 7))
}

// forget lets go of the buckets, so that a walk that pauses keeps no array.
func (h *haul) forget() { clear(h.place[:h.places]) }

// span is the range of place i, and the head of its chain.
func (h *haul) span(i int) (lo, last uint64, head *bucket) {
	p := &h.place[i]
	if head = p.head; head == nil {
		head = p.b
	}
	for lo = h.from; i > 0; i-- {
		if before := h.place[i-1].last; before != p.last {
			lo = before + 1
			break
		}
	}
	return lo, p.last, head
}

// strayed reports whether the bucket of a slot has left the chain of head and may
// hold copies of that chain's elements: to be asked after the slot was read. If it
// holds such a copy, it does say so. If it does say so, no element present from
// before the step stands in it.
func (h *haul) strayed(head *bucket, at *unsafe.Pointer) bool {
	// CROSSED copy/mark: a mover locks the chain, uses the bucket for a copy, and
	// marks the chain; we have read the copy, and load the head. So it is locked or
	// gone, and either way its links are at rest, and not to that bucket.
	if head.meta.Load()&(locked|gone) == 0 {
		return false
	}
	for o, hops := head, h.links; ; hops-- {
		if uintptr(unsafe.Pointer(at))-uintptr(unsafe.Pointer(o)) < unsafe.Sizeof(bucket{}) {
			return false
		}
		// Whoever locked it may be no mover, and change the links behind the last
		// element that is present: then this may lead anywhere, but not on for ever.
		if o = o.next.Load(); o == nil || hops == 0 {
			return true
		}
	}
}

// chain returns the chain that rules pos in this epoch, or ruled it last; nil if
// it is in a segment never written.
func (w *cursor) chain() (v *version, b *bucket, m uint64) {
	v = w.ep.cur.Load()
	for {
		if b = v.bucket(w.pos); b == nil {
			return v, nil, 0
		}
		// ACQUIRE moved.
		if m = b.meta.Load(); m&moved == 0 {
			return v, b, m
		}
		// ACQUIRE retire.
		if v = v.next.Load(); v == retired {
			v = w.ep.cur.Load()
		}
	}
}

// gather fills h with the slots in use of the chains from pos on, until it has
// want, walkBuffer at most, or limit chains have been visited, or the walk is
// over. It returns how many chains it visited. It takes no lock.
func (w *cursor) gather(h *haul, want, limit int) (visited int) {
	h.n, h.places, h.from, h.plain, h.links, h.long = 0, 0, w.pos, true, 0, nil
	want = min(want, walkBuffer)
	for visited < limit && h.n < want && !w.over {
		v, b, m := w.chain()
		visited++
		if b == nil {
			w.pass(v.segmentLast(w.pos))
			continue
		}
		yield.Point("rhmap.walk")
		h.add(v, b, m, w.pos)
		w.pass(v.last(w.pos))
		if v == w.ep.cur.Load() { // what came before v has been left: all its chains rule, unless they say moved
			visited += w.run(h, v, b, want, limit-visited)
		}
	}
	return visited
}

// add adds the slots of the chain of b from lo on, whose meta word was m.
func (h *haul) add(v *version, b *bucket, m, lo uint64) {
	last, head := v.last(lo), b
	var unsure *bucket
	if lo != v.start(v.index(lo)) {
		unsure = head
	}
	for hops := int32(-1); ; hops-- {
		h.put(b, m, last, unsure)
		o := b.next.Load()
		if hops < 0 {
			hops = v.longest.Load()
			h.links = max(h.links, hops)
		}
		if o == nil || hops == 0 {
			return
		}
		yield.Point("rhmap.walk.link")
		b, m, unsure = o, o.meta.Load(), head
	}
}

// put adds the slots of one bucket.
func (h *haul) put(b *bucket, m, last uint64, unsure *bucket) {
	u := used(m)
	if u == 0 {
		return
	}
	h.plain = h.plain && unsure == nil
	if h.n > haulSlots-slotsPer {
		for ; u != 0; u &= u - 1 {
			h.long = append(h.long, unsafe.Pointer(b.at(first(u))))
		}
		return
	}
	h.place[h.places] = place{b, last, unsure}
	for ; u != 0; u &= u - 1 {
		h.entry[h.n] = b.entry(first(u))
		h.slot[h.n] = uint16(h.places<<3 | first(u))
		h.n++
	}
	h.places++
}

// run is gather for the ordinary chains that follow the one of b in its segment:
// those of one bucket, that have not moved on. v has been cur.
//
// How many slots of a bucket are in use no branch predictor can know, and a wrong
// guess costs as much as ten slots. So all six are taken, each in the place of the
// one before unless that was in use.
func (w *cursor) run(h *haul, v *version, b *bucket, want, limit int) (visited int) {
	i := v.index(w.pos - 1) // of b
	limit = min(limit, segBuckets-1-i&(segBuckets-1), v.buckets()-1-i)
	n, places, last, width := h.n, h.places, w.pos-1, v.last(0)+1
	for visited < limit && n < want {
		b = (*bucket)(unsafe.Add(unsafe.Pointer(b), unsafe.Sizeof(bucket{})))
		// ACQUIRE moved.
		m := b.meta.Load()
		yield.Point("rhmap.walk")
		if m&moved != 0 || b.next.Load() != nil {
			break
		}
		last += width
		visited++
		h.place[places] = place{b, last, nil}
		x, from := uint16(places<<3), n
		h.entry[n&(haulSlots-1)], h.slot[n&(haulSlots-1)] = b.entry(0), x
		n += int(m >> 7 & 1)
		h.entry[n&(haulSlots-1)], h.slot[n&(haulSlots-1)] = b.entry(1), x+1
		n += int(m >> 15 & 1)
		h.entry[n&(haulSlots-1)], h.slot[n&(haulSlots-1)] = b.entry(2), x+2
		n += int(m >> 23 & 1)
		h.entry[n&(haulSlots-1)], h.slot[n&(haulSlots-1)] = b.entry(3), x+3
		n += int(m >> 31 & 1)
		h.entry[n&(haulSlots-1)], h.slot[n&(haulSlots-1)] = b.entry(4), x+4
		n += int(m >> 39 & 1)
		h.entry[n&(haulSlots-1)], h.slot[n&(haulSlots-1)] = b.entry(5), x+5
		n += int(m >> 47 & 1)
		places += int(uint(from-n) >> (bits.UintSize - 1)) // one more, unless it is empty
	}
	h.n, h.places = n, places
	w.pass(last)
	return visited
}

// pass notes that all hashes up to last are covered.
func (w *cursor) pass(last uint64) {
	w.pos = last + 1
	w.over = w.pos == 0
}
