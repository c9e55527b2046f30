package lru

import (
	"math"
	"sync"
	"sync/atomic"
)

// Any is the bound of PopIdle that every node meets.
const Any = math.MaxInt64

// inFresh is the slot of a node in list.fresh.
const inFresh = 0

// list is what Global is, and what every lane of a PerCPU has: one lock, the
// nodes that it guards, and counters.
type list[T any] struct {
	mu sync.Mutex

	index int // which lane of a PerCPU; immutable

	// size is how many nodes are linked. Written under mu, read by anyone.
	size atomic.Int64

	// The rest is guarded by mu.
	fresh chain[T] // nodes filed at their Insert; in a Global, all nodes
	stats Stats
}

// Stats counts what happened to a list, or to all lists of a PerCPU, since it
// was made. Inserted = Removed + Popped + Len whenever nobody is inside a call.
type Stats struct {
	Inserted uint64 // Insert calls
	Removed  uint64 // Remove calls that took a node out
	Popped   uint64 // nodes handed out by Pop calls
	Relinked uint64 // nodes met while looking for the oldest that had been touched since, and were filed anew
	Cut      uint64 // searches for the oldest that gave up after Config.Scan nodes
}

func (s *Stats) add(o Stats) {
	s.Inserted += o.Inserted
	s.Removed += o.Removed
	s.Popped += o.Popped
	s.Relinked += o.Relinked
	s.Cut += o.Cut
}

// begin starts a life of n in l, whose lock the caller holds.
func (l *list[T]) begin(n *Node[T], tick int64) {
	if n.owner == nil {
		panic("lru: Insert of a node without an owner; call Init first")
	}
	// PUBLISH home: the compare-and-swap refuses a node that some list holds,
	// and hands it to this one.
	if !n.home.CompareAndSwap(nil, l) {
		panic("lru: Insert of a node that is in a list")
	}
	n.life.Add(1)
	n.tick.Store(tick)
	n.slot = inFresh
	l.size.Add(1)
	l.stats.Inserted++
}

// end ends the life of n, which the caller has just unlinked from l under its
// lock.
func (l *list[T]) end(n *Node[T]) {
	l.size.Add(-1)
	n.home.Store(nil) // PUBLISH home: whoever takes the lock now finds it gone
}
