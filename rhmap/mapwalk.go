package rhmap

import (
	"iter"
	"math"
	"sync/atomic"
	"unsafe"
)

// MapWalker is a walk over a Map, in the order of the hashes. It is for one
// goroutine at a time. It may be kept, paused and dropped at any moment; the map
// does not know of it.
type MapWalker[K comparable, V any] struct {
	m   *Map[K, V]
	cur cursor
	i   int  // entries of h that have been returned
	h   haul // found
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
	w.i, w.h, w.cur = 0, haul{}, cursor{over: true}
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
	for {
		i := w.i
		w.i++
		switch {
		case i < w.h.n:
			if e := w.h.entry[i]; e != nil {
				return (*entry[K])(e)
			}
		case i-w.h.n < len(w.h.long):
			if e := w.h.long[i-w.h.n]; e != nil {
				return (*entry[K])(e)
			}
		case w.cur.over:
			w.Stop()
			return nil
		default:
			w.i = 0
			w.m.catch(&w.cur, &w.h)
			w.h.forget()
		}
	}
}

// catch fills h with the next entries, and starts the cache misses of all before
// anybody waits for one. long holds entries too then.
func (m *Map[K, V]) catch(c *cursor, h *haul) {
	c.gather(h, walkBuffer, math.MaxInt)
	touch := byte(0)
	for _, e := range h.entry[:h.n] {
		if e != nil { // the value may lie on the next line
			touch += *(*byte)(e)
			atomic.LoadPointer(&(*entry[K])(e).val)
		}
	}
	h.touched = touch
	if h.plain {
		return
	}
	for i, e := range h.entry[:h.n] {
		if x := int(h.slot[i] >> 3); h.place[x].head != nil && !m.within(c.ep, h, x, h.at(i), e) {
			h.entry[i] = nil
		}
	}
	for i, at := range h.long {
		h.long[i] = atomic.LoadPointer((*unsafe.Pointer)(at))
		if !m.within(c.ep, h, h.places-1, (*unsafe.Pointer)(at), h.long[i]) {
			h.long[i] = nil
		}
	}
}

// within reports whether entry e, read from a slot of place i of a haul, belongs to
// the range of that. Entries are never used again, so those in the head of a chain
// do; this is for the others.
func (m *Map[K, V]) within(ep *epoch, h *haul, i int, at *unsafe.Pointer, e unsafe.Pointer) bool {
	if e == nil {
		return false
	}
	lo, last, head := h.span(i)
	if h.strayed(head, at) {
		return false
	}
	x := m.hash(&ep.hashKey, e)
	return lo <= x && x <= last
}

// Range calls f with each key and value, until it returns false, by a walk: W1 to
// W6 hold, f may do anything to the map, and may keep what it is given.
func (m *Map[K, V]) Range(f func(key K, value V) bool) {
	if m.cur.Load() == nil {
		return
	}
	var h haul
	for c := (cursor{ep: m.settle()}); !c.over; {
		m.catch(&c, &h)
		if !m.call(h.entry[:h.n], f) || !m.call(h.long, f) {
			return
		}
	}
}

// call calls f with those of some entries that are alive.
func (m *Map[K, V]) call(entries []unsafe.Pointer, f func(key K, value V) bool) bool {
	for _, p := range entries {
		e := (*entry[K])(p)
		if e == nil {
			continue
		}
		if p := atomic.LoadPointer(&e.val); p != nil && !f(e.key, m.value(p)) {
			return false
		}
	}
	return true
}

// All is Range as an iterator.
func (m *Map[K, V]) All() iter.Seq2[K, V] { return m.Range }
