package rhmap

import (
	"iter"
	"sync/atomic"
	"unsafe"

	"corelane/internal/yield"
)

// MapWalker is a walk over a Map, in the order of the hashes. It is for one
// goroutine at a time. It may be kept, paused and dropped at any moment; the map
// does not know of it.
type MapWalker[K comparable, V any] struct {
	m   *Map[K, V]
	cur cursor
	buf []*entry[K] // found, and to be returned from i on
	i   int
	own [walkBuffer + 4*slotsPer]*entry[K] // buf, unless a chain is very long
}

// Walk begins a walk (W1 to W6). While the map moves to a fresh hash key, Walk
// first completes that.
func (m *Map[K, V]) Walk() *MapWalker[K, V] {
	w := &MapWalker[K, V]{m: m}
	w.Restart()
	return w
}

// Restart begins anew, allocating nothing.
func (w *MapWalker[K, V]) Restart() {
	w.Stop()
	w.m.ready()
	w.cur = cursor{ep: w.m.settle()}
}

// Stop ends the walk early: Next returns nothing more. It is never necessary.
func (w *MapWalker[K, V]) Stop() {
	clear(w.buf)
	w.buf, w.i = nil, 0
	w.cur = cursor{over: true}
}

// Next returns the next key that is in the map now, with its value now. It locks
// nothing.
func (w *MapWalker[K, V]) Next() (key K, value V, ok bool) {
	for {
		e := w.next()
		if e == nil {
			return key, value, false
		}
		if p := atomic.LoadPointer(&e.val); p != nil {
			return e.key, w.m.value(p), true
		}
	}
}

// next returns the next entry, nil at the end. It may be dead.
func (w *MapWalker[K, V]) next() *entry[K] {
	for w.i == len(w.buf) {
		if w.cur.over {
			return nil
		}
		w.refill()
	}
	e := w.buf[w.i]
	w.buf[w.i] = nil
	w.i++
	return e
}

// refill takes the entries of the next chains. Entries are never used again, so
// those from the head of a chain belong to it; the others prove it by their hash.
func (w *MapWalker[K, V]) refill() {
	w.buf, w.i = w.own[:0], 0
	for len(w.buf) < walkBuffer && !w.cur.over {
		v, b, m := w.cur.chain()
		if b == nil {
			w.cur.pass(v.segmentLast(w.cur.pos))
			continue
		}
		yield.Point("rhmap.walk")
		lo, hi := w.cur.pos, v.last(w.cur.pos)
		foreign := lo != v.start(v.index(lo))
		for hops := int32(-1); ; hops-- {
			for u := used(m); u != 0; u &= u - 1 {
				if e := (*entry[K])(b.entry(first(u))); e != nil && (!foreign || w.within(e, lo, hi)) {
					w.buf = append(w.buf, e)
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
		w.cur.pass(hi)
	}
	var alive int
	for _, e := range w.buf { // start all cache misses before waiting for one
		if atomic.LoadPointer(&e.val) != nil {
			alive++
		}
	}
	_ = alive
}

// within reports whether the hash of an entry lies in a range.
func (w *MapWalker[K, V]) within(e *entry[K], lo, hi uint64) bool {
	h := w.m.hash(&w.cur.ep.hashKey, unsafe.Pointer(e))
	return h >= lo && h <= hi
}

// Range calls f with each key and value, until it returns false, by a walk: W1 to
// W6 hold, f may do anything to the map, and may keep what it is given.
func (m *Map[K, V]) Range(f func(key K, value V) bool) {
	if m.cur.Load() == nil {
		return
	}
	w := MapWalker[K, V]{m: m}
	w.Restart()
	for {
		for _, e := range w.buf {
			if p := atomic.LoadPointer(&e.val); p != nil && !f(e.key, m.value(p)) {
				return
			}
		}
		if w.cur.over {
			return
		}
		w.refill()
	}
}

// All is Range as an iterator.
func (m *Map[K, V]) All() iter.Seq2[K, V] { return m.Range }
