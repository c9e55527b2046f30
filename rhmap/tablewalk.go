package rhmap

import (
	"sync/atomic"
	"unsafe"

	"corelane/internal/yield"
)

// Walker is a walk over a Table, in the order of the hashes. It is for one
// goroutine at a time. It may be kept, paused and dropped at any moment; the
// table does not know of it.
type Walker[K Words, N any] struct {
	t   *Table[K, N]
	cur cursor
	buf []Ref[N] // found, and to be returned from i on
	i   int
	own [haulSlots]Ref[N] // buf, unless a chain is very long
	h   haul              // in use during a call only; here because clearing it takes longer than filling it
}

// Walk begins a walk (W1 to W6). While the table moves to a fresh hash key, Walk
// first completes that.
func (t *Table[K, N]) Walk() *Walker[K, N] {
	w := &Walker[K, N]{t: t}
	w.Restart()
	return w
}

// Restart begins anew, allocating nothing: for a worker that walks for ever.
func (w *Walker[K, N]) Restart() {
	w.Stop()
	w.cur = cursor{ep: w.t.settle()}
}

// Stop ends the walk early: Next returns nothing more. It is never necessary.
func (w *Walker[K, N]) Stop() {
	clear(w.buf)
	w.buf, w.i = nil, 0
	w.cur = cursor{over: true}
}

// Next returns the next element that is in the table now. It locks nothing, and
// visits chains until it finds one: see NextBatch to bound that.
func (w *Walker[K, N]) Next() (Ref[N], bool) {
	for {
		for w.i < len(w.buf) {
			r := w.buf[w.i]
			w.i++
			if w.t.Live(r) {
				return r, true
			}
		}
		if w.cur.over {
			w.Stop()
			return Ref[N]{}, false
		}
		w.refill(w.own[:0], walkBuffer)
	}
}

// refill makes buf the elements of the next chains, limit at most, found in the
// room of to if that is enough. It returns how many chains it visited.
func (w *Walker[K, N]) refill(to []Ref[N], limit int) (chains int) {
	chains = w.cur.gather(&w.h, walkBuffer, limit)
	w.buf, w.i = w.t.alive(w.cur.ep, &w.h, to), 0
	w.h.forget()
	return chains
}

// NextBatch fills out with the next elements, visiting at most about chains
// chains, and returns their number. more says whether the walk goes on; n may be
// 0 all the same, where the table is nearly empty. Elements at the front of out
// may be removed by the time those at its end are found. An out of 64 or more
// spares copying each element.
func (w *Walker[K, N]) NextBatch(out []Ref[N], chains int) (n int, more bool) {
	for ; n < len(out) && w.i < len(w.buf); w.i++ {
		if r := w.buf[w.i]; w.t.Live(r) {
			out[n] = r
			n++
		}
	}
	for n < len(out) && chains > 0 && !w.cur.over {
		to := out[n:n:len(out)]
		if cap(to) < haulSlots {
			to = w.own[:0]
		}
		chains -= w.refill(to, chains)
		w.i = copy(out[n:], w.buf)
		n += w.i
	}
	if w.i == len(w.buf) {
		w.buf, w.i = nil, 0
	}
	return n, w.buf != nil || !w.cur.over
}

// alive appends to refs the entries of a haul that are elements of their ranges.
//
// The node in a slot may be removed, and inserted elsewhere, at any moment, in
// whatever life it is by then. So the life is read first and then the slot again,
// and then the head. If the chain still ruled, that life was in that slot, or has
// ended. If the chain had been retired meanwhile the slot proves nothing, but the
// hash of the key does: if it lies outside the range, another step covers that
// key.
func (t *Table[K, N]) alive(ep *epoch, h *haul, refs []Ref[N]) []Ref[N] {
	var touch, heads uint64
	for _, e := range h.entry[:h.n] { // start all cache misses before waiting for one
		if e != nil {
			touch |= (*Node[K])(e).gen.Load()
		}
	}
	_ = touch
	if !h.plain {
		return t.aliveSlow(ep, h, refs)
	}
	begin := len(refs)
	for i, e := range h.entry[:h.n] {
		if gen := t.living(e, h.at(i)); gen != 0 {
			refs = append(refs, Ref[N]{t.object((*Node[K])(e)), gen})
		}
	}
	for i := range h.place[:h.places] {
		heads |= h.place[i].b.meta.Load()
	}
	if heads&gone != 0 {
		return t.aliveSlow(ep, h, refs[:begin])
	}
	return refs
}

// living returns the life of a node that was found in a slot and is there still,
// 0 if there is none.
func (t *Table[K, N]) living(e unsafe.Pointer, at *unsafe.Pointer) (gen uint64) {
	if e == nil {
		return 0
	}
	gen = (*Node[K])(e).gen.Load()
	yield.Point("rhmap.walk.life")
	// ACQUIRE slot.
	if gen&1 == 0 || atomic.LoadPointer(at) != e {
		return 0
	}
	return gen
}

// aliveSlow is alive where chains have been retired, or buckets may hold entries
// from elsewhere.
func (t *Table[K, N]) aliveSlow(ep *epoch, h *haul, refs []Ref[N]) []Ref[N] {
	for i, e := range h.entry[:h.n] {
		refs = t.aliveAt(ep, h, int(h.slot[i]>>3), e, h.at(i), refs)
	}
	for _, at := range h.long {
		at := (*unsafe.Pointer)(at)
		refs = t.aliveAt(ep, h, h.places-1, atomic.LoadPointer(at), at, refs)
	}
	return refs
}

// aliveAt is alive for the entry of one slot, in place i.
func (t *Table[K, N]) aliveAt(ep *epoch, h *haul, i int, e unsafe.Pointer, at *unsafe.Pointer, refs []Ref[N]) []Ref[N] {
	gen := t.living(e, at)
	if gen == 0 {
		return refs
	}
	n := (*Node[K])(e)
	lo, last, head := h.span(i)
	if h.place[i].head != nil || head.meta.Load()&gone != 0 {
		if h.strayed(head, at) || !t.within(ep, n, gen, lo, last) {
			return refs
		}
	}
	return append(refs, Ref[N]{t.object(n), gen})
}

// within reports whether the life gen of a node lasts, with a key whose hash lies
// in a range.
func (t *Table[K, N]) within(ep *epoch, n *Node[K], gen, lo, hi uint64) bool {
	k := n.Key()
	if n.gen.Load() != gen {
		return false
	}
	h := t.hasher.sum(&ep.hashKey, &k)
	return h >= lo && h <= hi
}

// Probe fills out with elements that stand next to the place r in the table, and
// returns their number: for samplers, with r drawn at random. It visits at most
// len(out) chains, so in a table that is nearly empty it may find nothing. Every
// chain is equally likely to be the first; elements of one chain come together,
// and while the table moves to a fresh hash key the newest ones do not come.
func (t *Table[K, N]) Probe(r uint64, out []Ref[N]) (n int) {
	v := t.cur.Load()
	c := cursor{ep: v.ep, pos: v.start(v.index(r))}
	var h haul
	var own [haulSlots]Ref[N]
	for chains := len(out); chains > 0 && n < len(out); {
		if c.over {
			c = cursor{ep: v.ep}
		}
		chains -= c.gather(&h, len(out)-n, chains)
		n += copy(out[n:], t.alive(v.ep, &h, own[:0]))
	}
	return n
}
