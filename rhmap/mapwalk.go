package rhmap

import (
	"iter"
	"sync/atomic"
	"unsafe"
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
	var space [walkBuffer + 4*slotsPer]found
	ep := w.cur.ep
	seen, _ := w.cur.gather(space[:0], walkBuffer, walkBuffer)
	w.buf, w.i = w.own[:0], 0
	var alive int
	for i := range seen { // start all cache misses before waiting for one
		if atomic.LoadPointer(&(*entry[K])(seen[i].e).val) != nil {
			alive++
		}
	}
	for i := range seen {
		f := &seen[i]
		if f.foreign {
			if h := w.m.hash(&ep.hashKey, unsafe.Pointer(f.e)); h < f.lo || h > f.hi {
				continue
			}
		}
		w.buf = append(w.buf, (*entry[K])(f.e))
	}
	_ = alive
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
		k, v, ok := w.Next()
		if !ok || !f(k, v) {
			return
		}
	}
}

// All is Range as an iterator.
func (m *Map[K, V]) All() iter.Seq2[K, V] { return m.Range }
