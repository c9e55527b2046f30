package percpu

import "sync/atomic"

// Counter is a 64-bit sum that many goroutines add to. It is one word until
// writers are seen to compete for it, and one word per lane from then on.
//
// The zero value is 0 and ready. A Counter must not be copied after first use;
// all methods may be called at any time by anyone. It is 24 bytes; once sharded,
// 128 more for each lane. C1, C2, C6 and C8 apply.
type Counter struct {
	// base is added to by everybody while cells is nil, and by stragglers that
	// loaded cells before it was set; it stays part of the sum for ever, so the
	// switch moves nothing and can lose nothing.
	base  atomic.Int64
	cells atomic.Pointer[cells] // nil -> set, once
	seen  Spread
}

// Add adds n, which may be negative.
//
// Cost: one atomic add while unsharded, then ID plus one atomic add.
func (c *Counter) Add(n int64) {
	// ACQUIRE percpu.counter.cells
	cs := c.cells.Load()
	if cs == nil {
		// Nobody has to retry, and an add that met another one notices.
		if old := c.base.Load(); c.base.Add(n) != old+n {
			c.crowded()
		}
		return
	}
	lane := pin() // ID, by hand: a call less is a quarter of the cost
	unpin()
	lane = scatter(lane)
	if row := cs.find(lane); row != nil {
		row.Add(n)
	} else {
		cs.at(lane).Add(n)
	}
}

// Inc is Add(1).
func (c *Counter) Inc() { c.Add(1) }

// AddAt is Add for callers that know their lane.
func (c *Counter) AddAt(lane int, n int64) {
	// ACQUIRE percpu.counter.cells
	cs := c.cells.Load()
	if cs == nil {
		if old := c.base.Load(); c.base.Add(n) != old+n {
			c.crowded()
		}
		return
	}
	if row := cs.find(lane); row != nil {
		row.Add(n)
	} else {
		cs.at(lane).Add(n)
	}
}

// crowded notes that two adds met, and shards the counter when that was one time
// too many.
//
//go:noinline
func (c *Counter) crowded() {
	c.seen.Meet()
	if c.seen.Wide() {
		// PUBLISH percpu.counter.cells: they are complete before anyone can load
		// the pointer. A loser's are dropped before anybody added to them.
		c.cells.CompareAndSwap(nil, makeCells(1, 0))
	}
}

// Value returns the sum, as C2 says. Cost: one load, plus one per lane in use.
func (c *Counter) Value() int64 {
	// cells before base would miss nothing either: a sum is a sum in any order.
	n := c.base.Load()
	if cs := c.cells.Load(); cs != nil {
		n += cs.sum(0)
	}
	return n
}
