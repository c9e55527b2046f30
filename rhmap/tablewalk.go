package rhmap

import (
	"sync/atomic"

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
	own [walkBuffer + 4*slotsPer]Ref[N] // buf, unless a chain is very long
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
		if r, ok := w.buffered(); ok {
			return r, true
		}
		if w.cur.over {
			return Ref[N]{}, false
		}
		w.refill(walkBuffer)
	}
}

// NextBatch fills out with the next elements, visiting at most about chains
// chains, and returns their number. more says whether the walk goes on; n may be
// 0 all the same, where the table is nearly empty. Elements at the front of out
// may be removed by the time those at its end are found.
func (w *Walker[K, N]) NextBatch(out []Ref[N], chains int) (n int, more bool) {
	for n < len(out) {
		if r, ok := w.buffered(); ok {
			out[n] = r
			n++
			continue
		}
		if w.cur.over || chains <= 0 {
			break
		}
		chains -= w.refill(min(walkBuffer, chains))
	}
	return n, w.i < len(w.buf) || !w.cur.over
}

// buffered pops the next living element of the buffer.
func (w *Walker[K, N]) buffered() (Ref[N], bool) {
	for w.i < len(w.buf) {
		r := w.buf[w.i]
		w.buf[w.i] = Ref[N]{}
		w.i++
		if w.t.Live(r) {
			return r, true
		}
	}
	return Ref[N]{}, false
}

// refill takes the entries of the next chains, at most limit, and returns how
// many it visited.
func (w *Walker[K, N]) refill(limit int) (chains int) {
	var space [walkBuffer + 4*slotsPer]found
	ep := w.cur.ep
	seen, chains := w.cur.gather(space[:0], walkBuffer, limit)
	w.buf, w.i = w.t.alive(ep, seen, w.own[:0]), 0
	return chains
}

// alive appends to refs the entries that are elements of their range.
//
// The node in a slot may be removed, and inserted elsewhere, at any moment, in
// whatever life it is by then. So the life is read first and then the slot again,
// and then the head. If the chain still ruled, that life was in that slot, or has
// ended, and then Next drops it. If the chain had been retired meanwhile the slot
// proves nothing, but the hash of the key does: if it lies outside the range,
// another step covers that key.
func (t *Table[K, N]) alive(ep *epoch, seen []found, refs []Ref[N]) []Ref[N] {
	var lives uint64
	for i := range seen { // start all cache misses before waiting for one
		lives += (*Node[K])(seen[i].e).gen.Load()
	}
	_ = lives
	for i := range seen {
		f := &seen[i]
		n := (*Node[K])(f.e)
		gen := n.gen.Load()
		if gen&1 == 0 {
			continue
		}
		yield.Point("rhmap.walk.life")
		if atomic.LoadPointer(f.at) != f.e {
			continue
		}
		if f.foreign || f.head.meta.Load()&gone != 0 {
			k := n.Key()
			if h := t.hasher.sum(&ep.hashKey, &k); h < f.lo || h > f.hi {
				continue
			}
		}
		refs = append(refs, Ref[N]{t.object(n), gen})
	}
	return refs
}

// Probe fills out with elements that stand next to the place r in the table, and
// returns their number: for samplers, with r drawn at random. It visits at most
// len(out) chains, so in a table that is nearly empty it may find nothing. Every
// chain is equally likely to be the first; elements of one chain come together,
// and while the table moves to a fresh hash key the newest ones do not come.
func (t *Table[K, N]) Probe(r uint64, out []Ref[N]) int {
	v := t.cur.Load()
	c := cursor{ep: v.ep, pos: v.start(v.index(r))}
	var space [walkBuffer + 4*slotsPer]found
	seen, _ := c.gather(space[:0], len(out), len(out))
	if c.over && len(seen) < len(out) {
		c = cursor{ep: v.ep}
		seen, _ = c.gather(seen, len(out), len(out))
	}
	var own [walkBuffer + 4*slotsPer]Ref[N]
	return copy(out, t.alive(v.ep, seen, own[:0]))
}
