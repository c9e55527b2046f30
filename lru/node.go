package lru

import "sync/atomic"

// Node makes an object a member of an eviction list. Embed it in the object,
// tell it whose it is once with Init, and pass its address to the list:
//
//	type queue struct {
//		mu   sync.Mutex
//		node lru.Node[queue]
//	}
//
//	q := new(queue)
//	q.node.Init(q)
//	list.Insert(&q.node, tick)
//
// A node is in one list at a time, and may be inserted again after it was
// removed or popped: each Insert starts a new life. It must not be copied. It
// is 56 bytes (40 on 32-bit systems), and no call on a list allocates for it.
type Node[T any] struct {
	// Immutable after Init.
	owner *T

	// home is the list that holds the node, nil while none does. It is written
	// under that list's lock only: nil -> list by Insert, list -> nil by the one
	// call that takes the node out. Anyone may load it, to learn which lock to
	// take; what it says counts only under that lock.
	home atomic.Pointer[list[T]]

	// tick is when the node was touched last. Insert stores it, Touch raises
	// it; a PerCPU touch does so without a lock, so it may move at any time.
	tick atomic.Int64

	// life counts the Inserts. Written under the lock of the list; read by
	// anyone who holds a Ref.
	life atomic.Uint32

	// The rest is guarded by home's lock.
	slot       uint16   // which chain of home the node is in: fresh, or a slot of aged
	pos        int64    // the tick the node is filed under
	next, prev *Node[T] // neighbours in that chain; next is the younger one
}

// Init tells the node which object it is part of. Call it once, before the
// first Insert.
func (n *Node[T]) Init(owner *T) { n.owner = owner }

// Owner returns the object that the node is part of.
func (n *Node[T]) Owner() *T { return n.owner }

// Linked reports whether a list holds the node at this instant.
func (n *Node[T]) Linked() bool { return n.home.Load() != nil }

// Tick returns when the node was touched last. It is meaningless before the
// first Insert.
func (n *Node[T]) Tick() int64 { return n.tick.Load() }

// touch raises the tick. The common case, a second touch within a tick, is one
// load. It never lowers it, so of two touches that race the later tick stays.
func (n *Node[T]) touch(tick int64) {
	for {
		old := n.tick.Load()
		if tick <= old || n.tick.CompareAndSwap(old, tick) {
			return
		}
	}
}

// stamp is the tick as a lane files it: Any is not a tick.
func (n *Node[T]) stamp() int64 { return min(n.tick.Load(), Any-1) }

// ref describes the node as it is now. The caller holds home's lock.
func (n *Node[T]) ref() Ref[T] {
	return Ref[T]{Owner: n.owner, Tick: n.tick.Load(), node: n, life: n.life.Load()}
}

// Ref is an object as a list saw it. The zero Ref has a nil Owner.
//
// A Ref from a Pop call is a claim: that call, and no other, took the object
// out of the list. Between the pop and the moment its holder locks the object,
// somebody who reached the object another way may have retired it, and even
// given it a new life in the list. So lock the object first, then ask Current.
type Ref[T any] struct {
	Owner *T
	Tick  int64 // when it was touched last, as far as the list knew then

	node *Node[T]
	life uint32
}

// Current reports whether the object is still in the life that the Ref speaks
// of, that is, whether it was not inserted again since.
func (r Ref[T]) Current() bool { return r.node != nil && r.node.life.Load() == r.life }
