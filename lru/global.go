package lru

import "iter"

// Global is one list under one lock, in exact order of use: the baseline that
// the others are measured against, and what IP fragment caches had until 2013.
//
// The zero Global is empty and ready. It must not be copied. All methods are
// safe for concurrent use, take the lock for a constant time (Walk for 2 ns a
// node), and allocate nothing (Walk a copy). The lock is a leaf: a caller may
// hold locks of its own, and nothing of the caller's runs under it.
//
// Ticks are the caller's clock, in any unit. Order is the order of the calls;
// the ticks only say how long ago they were, for PopIdle and Ref.Tick.
type Global[T any] struct {
	list list[T]
}

// Insert links n as the most recently used. It panics if n has no owner or is
// in a list already.
func (g *Global[T]) Insert(n *Node[T], tick int64) {
	g.list.mu.Lock()
	defer g.list.mu.Unlock()
	g.list.begin(n, tick)
	g.list.fresh.push(n)
}

// Touch makes n the most recently used. It does nothing if n is in no list,
// because it was popped an instant ago, say; it panics if n is in another one.
func (g *Global[T]) Touch(n *Node[T], tick int64) {
	g.list.mu.Lock()
	defer g.list.mu.Unlock()
	if g.holds(n) {
		n.touch(tick)
		g.list.fresh.promote(n)
	}
}

// Remove takes n out and reports whether this call did: false if n was removed
// or popped before, or never inserted. It panics if n is in another list.
func (g *Global[T]) Remove(n *Node[T]) bool {
	g.list.mu.Lock()
	defer g.list.mu.Unlock()
	if !g.holds(n) {
		return false
	}
	g.list.fresh.unlink(n)
	g.list.end(n)
	g.list.stats.Removed++
	return true
}

// PopOldest takes out the least recently used node and returns the claim on
// it; false if the list is empty.
func (g *Global[T]) PopOldest() (Ref[T], bool) { return g.PopIdle(Any) }

// PopIdle is PopOldest for a node that was touched before the tick given, and
// leaves a younger one in place.
func (g *Global[T]) PopIdle(before int64) (Ref[T], bool) {
	g.list.mu.Lock()
	defer g.list.mu.Unlock()
	n := g.list.fresh.oldest
	if n == nil || before != Any && n.tick.Load() >= before {
		return Ref[T]{}, false
	}
	g.list.fresh.unlink(n)
	r := n.ref()
	g.list.end(n)
	g.list.stats.Popped++
	return r, true
}

// Oldest returns the least recently used node and leaves it in the list; false
// if the list is empty.
func (g *Global[T]) Oldest() (Ref[T], bool) {
	g.list.mu.Lock()
	defer g.list.mu.Unlock()
	if g.list.fresh.oldest == nil {
		return Ref[T]{}, false
	}
	return g.list.fresh.oldest.ref(), true
}

// Len returns how many nodes are linked. It is one load, and takes no lock.
func (g *Global[T]) Len() int { return int(g.list.size.Load()) }

// Walk yields every node that was linked when the walk began, oldest first. It
// works on a copy: the body may call anything, and finds objects that have left
// the list since.
func (g *Global[T]) Walk() iter.Seq[Ref[T]] {
	return func(yield func(Ref[T]) bool) {
		g.list.mu.Lock()
		refs := g.list.fresh.appendTo(make([]Ref[T], 0, g.Len()))
		g.list.mu.Unlock()
		for _, r := range refs {
			if !yield(r) {
				return
			}
		}
	}
}

// Stats returns the counters at one instant.
func (g *Global[T]) Stats() Stats {
	g.list.mu.Lock()
	defer g.list.mu.Unlock()
	return g.list.stats
}

// holds reports whether n is in g. The caller holds the lock.
func (g *Global[T]) holds(n *Node[T]) bool {
	switch n.home.Load() { // ACQUIRE home
	case &g.list:
		return true
	case nil:
		return false
	default:
		panic("lru: node of another list")
	}
}
