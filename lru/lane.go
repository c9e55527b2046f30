package lru

import (
	"sync/atomic"

	"corelane/internal/cacheline"
	"corelane/internal/invariant"
	"corelane/internal/yield"
)

// lane is one list of a PerCPU.
//
// Invariants, whenever mu is free:
//
//	B1. fresh is sorted by pos, and aged.base is not above the first of them.
//	B2. pos >= tick for no node but one never touched since it was filed, and
//	    pos > tick only for one inserted with a tick below aged.base.
//	B3. bound is not above the pos of any node.
type lane[T any] struct {
	list[T]
	aged aged[T] // guarded by mu: nodes that were touched after they were filed

	_ cacheline.Pad
	// bound is a tick that no node of the lane is filed under an earlier one
	// of; Any if it is empty. Written under mu, only when it changes; read by
	// every eviction, which is why it stands alone.
	bound atomic.Int64
	// births is a copy of stats.Inserted for searches that found every lane
	// empty. Written under mu, after bound; read by anyone.
	births atomic.Uint64
	_      cacheline.Pad
}

// add links n, whose life has just begun. The caller holds mu.
func (l *lane[T]) add(n *Node[T], tick int64) {
	n.pos = min(tick, Any-1)
	last := l.fresh.youngest()
	if last != nil && n.pos < last.pos || last == nil && key(n.pos) < l.aged.base {
		l.aged.place(n, n.pos) // the lane's clock stepped back
	} else {
		l.fresh.push(n)
	}
	if n.pos < l.bound.Load() {
		l.bound.Store(n.pos) // PUBLISH bound
	}
	l.births.Store(l.stats.Inserted) // PUBLISH births: after bound, see PerCPU.eldest
}

// drop unlinks n, which is in l. The caller holds mu.
func (l *lane[T]) drop(n *Node[T]) {
	if n.slot == inFresh {
		l.fresh.unlink(n)
	} else {
		l.aged.unlink(n)
	}
	l.end(n)
}

// search says which node a pop wants.
type search struct {
	before int64 // it was touched before this tick
	scan   int64 // nodes that may still be filed anew on the way; at 0 the oldest seen must do
	over   bool  // scan ran out, and the oldest seen would not do
}

// oldest returns the node of l that was touched longest ago, or nil if that was
// after limit or is not before s.before. It files anew every node it meets on
// the way that was touched since it was filed; when s.scan runs out it settles
// for the oldest of those, even past limit. The caller holds mu.
func (l *lane[T]) oldest(limit int64, s *search) *Node[T] {
	limit = min(limit, s.before-1)
	var met *Node[T] // the oldest node filed anew by this call
	for {
		n, atLeast, exact := l.aged.next()
		if first := l.fresh.oldest; first != nil && (n == nil || first.pos <= atLeast) {
			n, atLeast, exact = first, first.pos, true
		}
		if n == nil {
			l.raise(Any)
			return nil
		}
		if l.raise(atLeast); atLeast > limit {
			return nil
		}
		tick := n.stamp()
		if exact && tick <= n.pos {
			return n
		}
		if s.scan <= 0 && met != nil {
			l.stats.Cut++
			if met.pos >= s.before {
				s.over = true
				return nil
			}
			return met
		}
		s.scan--
		l.refile(n, max(tick, n.pos), exact)
		if met == nil || n.pos < met.pos {
			met = n
		}
	}
}

// refile moves n to the place of the tick in aged.
func (l *lane[T]) refile(n *Node[T], tick int64, exact bool) {
	if tick > n.pos {
		l.stats.Relinked++
	}
	if n.slot == inFresh {
		if l.aged.levels == 0 {
			l.aged.base = key(n.pos) // n is the first of all: fewer digits differ
		}
		l.fresh.unlink(n)
	} else {
		if !exact {
			l.aged.spill(n)
		}
		l.aged.unlink(n)
	}
	l.aged.place(n, tick)
	if invariant.Enabled {
		first := l.fresh.oldest
		invariant.Check(first == nil || l.aged.base <= key(first.pos), "lru B1: base is past the fresh list")
	}
}

// raise notes that no node is filed under an earlier tick.
func (l *lane[T]) raise(tick int64) {
	if l.bound.Load() != tick {
		l.bound.Store(tick) // PUBLISH bound
	}
}

// take pops nodes touched at limit or before, oldest first, until refs is full,
// and returns how many. It takes mu.
func (l *lane[T]) take(refs []Ref[T], limit int64, s *search) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for n < len(refs) {
		victim := l.oldest(limit, s)
		if victim == nil {
			break
		}
		refs[n] = victim.ref() // before drop: from then on it may begin a new life
		l.drop(victim)
		yield.Point("lru.dropped")
		l.stats.Popped++
		n++
	}
	return n
}
