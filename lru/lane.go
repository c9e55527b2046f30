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

// search is a pop in progress, over one lane or all.
type search[T any] struct {
	before int64 // wanted: a node touched before this tick
	scan   int64 // nodes that may still be filed anew on the way
	over   bool  // one more had to be, and scan was used up

	// The oldest of the nodes filed anew so far, which must do when the search
	// is over: where it is, and the tick it was filed under.
	met  *Node[T]
	in   *lane[T]
	tick int64
}

// oldest returns the node of l that was touched longest ago. It returns nil if
// that was after limit or not before s.before, and when the search is over. It
// files anew every node it meets on the way that was touched since it was
// filed. The caller holds mu.
func (l *lane[T]) oldest(limit int64, s *search[T]) *Node[T] {
	limit = min(limit, s.before-1)
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
		if s.scan == 0 {
			s.over = true
			return nil
		}
		s.scan--
		l.refile(n, max(tick, n.pos), exact)
		if s.met == nil || n.pos < s.tick {
			s.met, s.in, s.tick = n, l, n.pos
		}
	}
}

// settle ends a search that is over with the oldest node it met. ok is false if
// that node has left its place meanwhile, and the search must start again; the
// Ref is zero if the node is too young. It takes the lock of one lane.
func (s *search[T]) settle(pop bool) (r Ref[T], ok bool) {
	l := s.in
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.met.home.Load() != &l.list || s.met.pos != s.tick {
		return r, false
	}
	l.stats.Cut++
	if s.tick >= s.before {
		return r, true
	}
	r = s.met.ref()
	if pop {
		l.drop(s.met)
		l.stats.Popped++
	}
	return r, true
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
func (l *lane[T]) take(refs []Ref[T], limit int64, s *search[T]) (n int) {
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
