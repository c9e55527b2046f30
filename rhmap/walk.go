package rhmap

import (
	"sync/atomic"
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
// live when the step loaded it, b ruled r at that instant, so the element was in
// b, and it stays readable there: slots of present elements are not cleared, and
// a retired chain does not change (B3, B5). If it showed moved, the step went on
// to the next version, which has the element by then. If it showed frozen, the
// element was in b when b froze, for the walk began before this reseed did (see
// settle). So every step finds every such element of its range, and ranges are
// disjoint and cover all hashes.
//
// Proof of W2. A key is taken only in the step whose range holds its hash: that
// is checked wherever an entry might have come from elsewhere. Within a step the
// same key can be found in two lives only if the first has ended by the time the
// second is found, and Next does not return what has ended.
type cursor struct {
	ep   *epoch
	pos  uint64 // the first hash not yet covered
	over bool   // every hash is covered
}

// found is an entry a step came across.
type found struct {
	e    unsafe.Pointer
	at   *unsafe.Pointer // its slot
	head *bucket         // of its chain
	lo   uint64          // the range of the step
	hi   uint64
	// foreign says that the entry may lie outside the range: the range is only a
	// part of the chain's (the table shrank), or the overflow bucket may have
	// come to another chain meanwhile.
	foreign bool
}

// chain returns the chain that rules pos in this epoch, nil if it is in a segment
// never written.
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

// gather appends the entries of the chains from pos on, until there are want, or
// chains have been visited, or the walk is over. It returns how many chains it
// visited. It takes no lock.
func (w *cursor) gather(buf []found, want, chains int) ([]found, int) {
	n := 0
	for ; n < chains && len(buf) < want && !w.over; n++ {
		v, b, m := w.chain()
		if b == nil {
			w.pass(v.segmentLast(w.pos))
			continue
		}
		yield.Point("rhmap.walk")
		lo, hi := w.pos, v.last(w.pos)
		foreign, head := lo != v.start(v.index(lo)), b
		for hops := int32(-1); ; hops-- {
			for u := used(m); u != 0; u &= u - 1 {
				at := b.at(first(u))
				if e := atomic.LoadPointer(at); e != nil {
					buf = append(buf, found{e, at, head, lo, hi, foreign})
				}
			}
			o := b.next.Load()
			if hops < 0 {
				hops = v.longest.Load()
			}
			if o == nil || hops == 0 {
				break
			}
			b, m, foreign = o, o.meta.Load(), true
		}
		w.pass(hi)
	}
	return buf, n
}

// pass notes that all hashes up to hi are covered.
func (w *cursor) pass(hi uint64) {
	w.pos = hi + 1
	w.over = w.pos == 0
}

// walkBuffer is how many entries a walk looks ahead: enough for their cache
// misses to overlap.
const walkBuffer = 48
