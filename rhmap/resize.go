package rhmap

import (
	"unsafe"

	"corelane/internal/invariant"
	"corelane/internal/yield"
)

// A resize moves a table from a version v to v.next, chain by chain.
//
//	v.next     entered by                   meaning                        left when
//	nil        newVersion                   v rules alone                  one CAS wins (start)
//	nv         the CAS winner               each chain of v rules until    all chains of v are
//	                                        it is moved or frozen, then    moved or frozen
//	                                        nv does
//	retired    whoever sees the last one    cur is beyond v                never
//
//	chain      entered by                   meaning                        left when
//	live       -                            the chain rules its hashes     moved, under its lock
//	moved      a mover: any writer          nv rules them, same order      never
//	frozen     a mover: any writer          nv rules them, fresh key       never
//
// Nobody waits for a resize. A writer that meets one moves the chain it is about
// to write, and helpUnits more; readers and walkers do nothing. There is no
// background goroutine: Advance lets an owner's worker do the rest.
//
// Growing splits chain i into 2i and 2i+1, shrinking merges 2i and 2i+1 into i.
// Either way nobody else can reach the new chains before the old ones say moved,
// so they are filled without their locks. A reseed scatters a chain over all of
// nv, whose chains others write already, and locks them one at a time.
//
// Lock order: chains of v before chains of nv; in v, two neighbours in ascending
// order (merge); in nv, one at a time.

// start begins a resize to nv unless v is being left already.
func (c *core) start(v, nv *version) bool {
	if c.self != c {
		panic("rhmap: a Map or Table was copied after first use")
	}
	// PUBLISH resize: nv is complete, though its segments are still to come.
	return v.next.CompareAndSwap(nil, nv)
}

// idle reports whether v rules alone, so that a resize may start from it.
func (c *core) idle(v *version) bool { return v.next.Load() == nil && c.cur.Load() == v }

// grow doubles the table if it is too full. Inserts that lengthened a chain ask.
func (c *core) grow(v *version) {
	if !c.idle(v) || v.bits() >= maxBits || c.count()*growDen <= v.buckets()*slotsPer*growNum {
		return
	}
	if c.start(v, newVersion(v.ep, v.bits()+1)) {
		c.grows.Add(1)
	}
}

// shrink halves the table if it is too empty. Removals that emptied a chain ask.
func (c *core) shrink(v *version) {
	if c.limits.noShrink || v.bits() <= c.limits.minBits || !c.idle(v) ||
		c.count()*shrinkDen >= v.buckets()*slotsPer {
		return
	}
	if c.start(v, newVersion(v.ep, v.bits()-1)) {
		c.shrinks.Add(1)
	}
}

// overlong decides what becomes of an insert that crossed depth buckets of a
// chain in v and found no place. It gives nil when the insert should be tried
// again: with the limit returned.
//
// A table that is too full grows. Otherwise somebody knows the hash key, or the
// hash is bad, and the table moves to a fresh key. The first reseed is free;
// each later one must have been paid for by inserts that crossed a quarter as
// many buckets as there are elements to move. So even an attacker who learns
// every key at once costs a bounded number of moves per insert. If an over-long
// chain showed while the fresh key was still being moved to, the hash itself is
// probably weak; then moving means crossing long chains, and the price is as many
// buckets as that could cross.
func (c *core) overlong(v *version, depth int) (limit int, err error) {
	overrun := v.ep.overrun.Add(int64(depth))
	if c.idle(v) {
		n := c.count()
		full := n*growDen > v.buckets()*slotsPer*growNum
		price := int64(n / 4)
		if c.weak.Load() {
			price = int64(n) * int64(v.longest.Load())
		}
		switch {
		case full && v.bits() < maxBits:
			if c.start(v, newVersion(v.ep, v.bits()+1)) {
				c.grows.Add(1)
			}
			return chainLimit, nil
		case v.ep.n == 0 || overrun >= price:
			c.reseed(v)
			return chainLimit, nil
		}
	}
	if c.limits.refuse {
		return 0, ErrBusy
	}
	return noLimit, nil
}

// reseed begins the move to a fresh hash key.
func (c *core) reseed(v *version) bool {
	nv := newVersion(c.epoch(v.ep.n+1), v.bits())
	nv.ep.cur.Store(nv)
	c.weak.Store(false)
	if !c.start(v, nv) {
		return false
	}
	c.reseeds.Add(1)
	return true
}

// assist is what a writer of hash h in v does for a resize: if v is being left it
// moves the chain of h and helpUnits more.
func (c *core) assist(v *version, h uint64) {
	// ACQUIRE resize.
	if nv := v.next.Load(); nv != nil && nv != retired {
		done := 0
		if c.move(v, nv, unitOf(v, nv, h)) {
			done++
		}
		c.moveSome(v, nv, helpUnits, done)
	}
}

// moveSome claims and moves up to n units, adds them to the done ones the caller
// has moved, and finishes the resize when they were the last.
func (c *core) moveSome(v, nv *version, n, done int) {
	all := unitsOf(v, nv)
	if v.claim.Load() < int64(all) {
		from := int(v.claim.Add(int64(n))) - n
		for u := from; u < min(from+n, all); u++ {
			if c.move(v, nv, u) {
				done++
			}
		}
	}
	if done > 0 && v.done.Add(int64(done)) == int64(all) {
		c.finish(v, nv)
	}
}

// unitsOf is the number of units of a move: chains of v, or pairs of them.
func unitsOf(v, nv *version) int {
	if merging(v, nv) {
		return nv.buckets()
	}
	return v.buckets()
}

// unitOf is the unit that holds h.
func unitOf(v, nv *version, h uint64) int {
	if merging(v, nv) {
		return nv.index(h)
	}
	return v.index(h)
}

func merging(v, nv *version) bool { return nv.ep == v.ep && nv.shift > v.shift }

// move moves one unit and reports whether it was this call that did.
func (c *core) move(v, nv *version, unit int) bool {
	switch {
	case nv.ep != v.ep:
		return c.scatter(v, nv, unit)
	case merging(v, nv):
		return c.merge(v, nv, unit)
	default:
		return c.split(v, nv, unit)
	}
}

// split moves chain i of v to chains 2i and 2i+1 of nv.
func (c *core) split(v, nv *version, i int) bool {
	h := v.start(i)
	b := v.bucketMade(h)
	if b.meta.Load()&gone != 0 {
		return false
	}
	to := [2]filler{{c: c, v: nv, h: nv.start(2 * i)}, {c: c, v: nv, h: nv.start(2*i + 1)}}
	to[0].b, to[1].b = nv.bucketMade(to[0].h), nv.bucketMade(to[1].h)
	m, ok := c.lock(b)
	if !ok {
		return false
	}
	b.each(m, func(e unsafe.Pointer) {
		h := c.hash(&v.hashKey, e)
		to[h>>nv.shift&1].add(h, e)
	})
	to[0].end()
	to[1].end()
	yield.Point("rhmap.moved")
	// PUBLISH moved: both new chains are complete.
	c.unlock(b, m|moved)
	return true
}

// merge moves chains 2i and 2i+1 of v to chain i of nv.
func (c *core) merge(v, nv *version, i int) bool {
	ha, hb := v.start(2*i), v.start(2*i+1)
	a, b := v.bucketMade(ha), v.bucketMade(hb)
	if a.meta.Load()&gone != 0 {
		return false
	}
	to := filler{c: c, v: nv, h: nv.start(i), b: nv.bucketMade(nv.start(i))}
	ma, ok := c.lock(a)
	if !ok {
		return false
	}
	mb, ok := c.lock(b)
	if invariant.Enabled {
		invariant.Check(ok, "rhmap: chains %d and %d were not moved together", 2*i, 2*i+1)
	}
	add := func(e unsafe.Pointer) { to.add(c.hash(&v.hashKey, e), e) }
	a.each(ma, add)
	b.each(mb, add)
	to.end()
	yield.Point("rhmap.moved")
	// PUBLISH moved. Whoever sees the first mark finds the entries of the second
	// chain in nv as well, and nobody can change those before the second mark.
	c.unlock(a, ma|moved)
	c.unlock(b, mb|moved)
	return true
}

// scatter moves chain i of v to a version with a fresh key. The old slots stay
// as they are, for the walkers of the old key.
func (c *core) scatter(v, nv *version, i int) bool {
	h := v.start(i)
	b := v.bucketMade(h)
	m, ok := c.lock(b)
	if !ok {
		return false
	}
	b.each(m, func(e unsafe.Pointer) {
		h := c.hash(&nv.hashKey, e)
		d := nv.bucketMade(h)
		dm, _ := c.lock(d) // nv cannot be left before v is
		p, _ := c.put(nv, d, h, dm, -1, e, noLimit)
		c.unlock(d, p.meta)
		if p.depth > chainLimit {
			c.weak.Store(true)
		}
	})
	yield.Point("rhmap.moved")
	// PUBLISH moved.
	c.unlock(b, m|frozen)
	return true
}

// each calls f with the entries of a locked chain.
func (b *bucket) each(m uint64, f func(e unsafe.Pointer)) {
	for {
		for u := used(m); u != 0; u &= u - 1 {
			f(b.entry(first(u)))
		}
		if b = b.next.Load(); b == nil {
			return
		}
		m = b.meta.Load()
	}
}

// filler fills a new chain that nobody else can reach yet.
type filler struct {
	c *core
	v *version
	b *bucket
	h uint64 // any hash of the chain
	n int
	m uint64
}

func (f *filler) add(h uint64, e unsafe.Pointer) {
	if f.n < slotsPer {
		f.b.slot[f.n] = e
		f.m |= (h&0x7f | 0x80) << (8 * f.n)
		f.n++
		return
	}
	// Overflow buckets may be second-hand, with late readers in them.
	f.c.putOver(f.v, f.b, h, f.m, e, noLimit)
}

func (f *filler) end() { f.b.meta.Store(f.m) }

// finish leaves v, all of whose chains are moved or frozen. It may be called
// more than once, and late: each step is a CAS from v, or idempotent.
//
// The order matters. A walker that finds a chain moved and next retired turns to
// ep.cur, a reader or writer to cur: so both must be beyond v by then. And nv can
// be left only after cur says nv, so ep.cur never steps back.
func (c *core) finish(v, nv *version) {
	yield.Point("rhmap.finish")
	if nv.ep == v.ep {
		v.ep.cur.CompareAndSwap(v, nv)
	}
	yield.Point("rhmap.finish.cur")
	c.cur.CompareAndSwap(v, nv)
	yield.Point("rhmap.finish.retire")
	// PUBLISH retire.
	v.next.Store(retired)
}

// advance moves up to n units of a resize in progress, and reports whether there
// is more to do.
func (c *core) advance(n int) (more bool) {
	v := c.cur.Load()
	nv := v.next.Load()
	if nv == nil || nv == retired {
		return false
	}
	c.moveSome(v, nv, n, 0)
	return v.next.Load() == nv
}

// settle returns the epoch a walk may start in: one that no reseed is leaving.
// Elements inserted during a reseed stand in the new epoch only, so a walk that
// began in the old one would miss them; and a walk costs more than what is left
// to move. It does not wait: what others have claimed it moves itself.
func (c *core) settle() *epoch {
	for {
		v := c.cur.Load()
		nv := v.next.Load()
		switch {
		case nv == retired:
			continue
		case nv == nil || nv.ep == v.ep:
			return v.ep
		}
		for u := range unitsOf(v, nv) {
			c.move(v, nv, u)
		}
		c.finish(v, nv)
	}
}
