package rhmap

import (
	"sync/atomic"
	"unsafe"
)

// Words are the keys of a Table: up to eight 64 bit words.
type Words interface {
	comparable
	~[1]uint64 | ~[2]uint64 | ~[3]uint64 | ~[4]uint64 | ~[5]uint64 | ~[6]uint64 | ~[7]uint64 | ~[8]uint64
}

// Node is what an object embeds to be held by a Table. The zero Node is ready.
//
// A node may be inserted, removed and inserted again as often as one likes, but
// into one table only, for as long as it exists: readers that are late may still
// look at it through old arrays. Each stay in the table is a life with a number
// of its own, so a late reader notices. A node must not be copied.
type Node[K Words] struct {
	// gen is the life: odd while the node is in the table. The top 16 bits name
	// the table. Changed under the lock of the chain that holds the node, read by
	// anyone.
	gen atomic.Uint64

	// key is written word by word, atomically, while gen is even and the owner
	// alone has the node. Readers compare it between two equal odd loads of gen.
	key K
}

// Live reports whether the node is in its table.
func (n *Node[K]) Live() bool { return n.gen.Load()&1 == 1 }

// Key returns the key of the life the node is in, or was in last. The caller must
// know that the node is not inserted meanwhile: it owns the node, or holds a lock
// that every inserter of it takes.
func (n *Node[K]) Key() K {
	var k K
	for i := range len(k) {
		*word(&k, i) = atomic.LoadUint64(word(&n.key, i))
	}
	return k
}

// word is the place of word i of a key.
func word[K Words](k *K, i int) *uint64 {
	return (*uint64)(unsafe.Add(unsafe.Pointer(k), uintptr(i)*8))
}

// setKey stores a key. A word that is right already is left alone: a load costs
// a fraction of an atomic store, and with pooled nodes most words of most keys
// (families, zero halves of addresses) repeat.
func (n *Node[K]) setKey(k *K) {
	for i := range len(*k) {
		if w := word(&n.key, i); atomic.LoadUint64(w) != *word(k, i) {
			atomic.StoreUint64(w, *word(k, i))
		}
	}
}

// equal compares the key word by word.
func (n *Node[K]) equal(k *K) bool {
	return differ(&n.key, k) == 0
}

// differ compares the words of *k with those at n.key, loading the latter
// atomically. It is 0 when they are equal. len(*k) is a constant wherever this is
// compiled, so what is left is straight-line code; a loop costs a nanosecond a
// word.
func differ[K Words](key, k *K) (diff uint64) {
	diff = atomic.LoadUint64(word(key, 0)) ^ *word(k, 0)
	if len(*k) > 1 {
		diff |= atomic.LoadUint64(word(key, 1)) ^ *word(k, 1)
	}
	if len(*k) > 2 {
		diff |= atomic.LoadUint64(word(key, 2)) ^ *word(k, 2)
	}
	if len(*k) > 3 {
		diff |= atomic.LoadUint64(word(key, 3)) ^ *word(k, 3)
	}
	if len(*k) > 4 {
		diff |= atomic.LoadUint64(word(key, 4)) ^ *word(k, 4)
	}
	if len(*k) > 5 {
		diff |= atomic.LoadUint64(word(key, 5)) ^ *word(k, 5)
	}
	if len(*k) > 6 {
		diff |= atomic.LoadUint64(word(key, 6)) ^ *word(k, 6)
	}
	if len(*k) > 7 {
		diff |= atomic.LoadUint64(word(key, 7)) ^ *word(k, 7)
	}
	return diff
}

// life returns gen when the node is in its table with that key.
//
// The key can change only between two lives, so equal loads of gen on both sides
// of the comparison mean that it was the key of this life.
func (n *Node[K]) life(k *K) (gen uint64, ok bool) {
	gen = n.gen.Load()
	return gen, gen&1 == 1 && n.equal(k) && n.gen.Load() == gen
}

// Ref names an element of a Table: a node in one of its lives. It stays valid,
// and means that life, for ever. The zero Ref names nothing.
type Ref[N any] struct {
	Node *N
	gen  uint64
}

// Ok reports whether r names an element, living or not.
func (r Ref[N]) Ok() bool { return r.Node != nil }
