package reasm

import (
	"slices"
	"sync"
)

// wishes are the namespaces that ask their host's worker to make room. A
// namespace asks once, and is on the list until it is served or given up.
//
// Its lock is a leaf: lanes ask with a queue's lock held.
type wishes struct {
	mu    sync.Mutex
	fresh []*cache // asked since the worker looked; guarded by mu

	open []*cache // the worker's: not served yet
}

// ask puts c on the list. It is cheap when c is there already.
func (w *wishes) ask(c *cache) {
	if c.asks.Load() || c.asks.Swap(true) {
		return
	}
	w.mu.Lock()
	w.fresh = append(w.fresh, c)
	w.mu.Unlock()
}

// left drops whoever was served, and reports whether somebody was not.
func (w *wishes) left() bool {
	w.mu.Lock()
	w.open = append(w.open, w.fresh...)
	clear(w.fresh)
	w.fresh = w.fresh[:0]
	w.mu.Unlock()
	w.open = slices.DeleteFunc(w.open, func(c *cache) bool {
		switch {
		case c.closed.Load():
			return true // what is charged to it is datagrams
		case c.excess() > 0:
			return false
		}
		// CROSSED ask: a lane charges, then looks whether asks is set; we clear
		// it, then look at what is charged. So one of us sees the other.
		c.asks.Store(false)
		return c.excess() <= 0 || c.asks.Swap(true)
	})
	return len(w.open) > 0
}

// giveUp drops everybody: there is nothing to evict. Who still wants room asks
// again.
func (w *wishes) giveUp() {
	for _, c := range w.open {
		c.asks.Store(false)
	}
	clear(w.open)
	w.open = w.open[:0]
}
