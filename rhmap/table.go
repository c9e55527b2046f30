package rhmap

import (
	"fmt"
	"hash/maphash"
	"sync/atomic"
	"unsafe"

	"corelane/internal/yield"
)

// Table is a set of objects found by key. The objects are the caller's: each
// embeds a Node, which holds the key, and the table allocates nothing per
// element.
//
// All methods may be called by any number of goroutines. A Table must not be
// copied.
type Table[K Words, N any] struct {
	off uintptr // of the Node in N; immutable
	id  uint64  // names the table in the top 16 bits of gen; immutable
	index[K]
}

// Config configures a Table or a Map. The zero Config is a good one.
type Config[K comparable] struct {
	Hasher   Hasher[K] // zero: MapHash
	Capacity int       // elements to make room for at once; the table never shrinks below it
	Max      int       // elements; more are refused with ErrFull; 0: no limit
	NoShrink bool      // never give buckets back

	// RefuseBusy makes inserts fail with ErrBusy when more than 24 elements share
	// a chain and no fresh hash key is to be had: a resize runs, the last reseed
	// has not been paid for, or the hash is weak. It bounds the cost of every
	// operation whatever the hash. Otherwise the chain just grows.
	RefuseBusy bool
}

func (c *Config[K]) limits() limits {
	return limits{max: int64(c.Max), noShrink: c.NoShrink, refuse: c.RefuseBusy}
}

// tables counts the tables made, for their ids.
var tables atomic.Uint64

const idShift = 48

// NewTable makes an empty table of objects of type N. node returns the address of
// the Node embedded in its argument; it is called here only, to learn where in an
// N that is. It panics if the configuration cannot be had.
func NewTable[K Words, N any](node func(*N) *Node[K], cfg Config[K]) *Table[K, N] {
	if cfg.Max < 0 || cfg.Capacity < 0 {
		panic(fmt.Sprintf("rhmap: Max %d and Capacity %d must not be negative", cfg.Max, cfg.Capacity))
	}
	t := &Table[K, N]{id: tables.Add(1) << idShift}
	n := new(N)
	t.off = uintptr(unsafe.Pointer(node(n))) - uintptr(unsafe.Pointer(n))
	if t.off > unsafe.Sizeof(*n)-unsafe.Sizeof(Node[K]{}) {
		panic("rhmap: the Node is not embedded in the object")
	}
	t.hash = func(by *hashKey, e unsafe.Pointer) uint64 { return t.hasher.sum(by, &(*Node[K])(e).key) }
	t.setup(cfg.Hasher, cfg.limits(), cfg.Capacity)
	return t
}

func (t *Table[K, N]) node(n *N) *Node[K] {
	return (*Node[K])(unsafe.Add(unsafe.Pointer(n), t.off))
}

func (t *Table[K, N]) object(n *Node[K]) *N {
	return (*N)(unsafe.Pointer(uintptr(unsafe.Pointer(n)) - t.off))
}

// Lookup returns the element with that key, or a Ref that is not Ok (R1). It is
// wait-free and writes nothing. By the time it returns the element may have been
// removed: lock the object, and ask Live.
func (t *Table[K, N]) Lookup(k *K) Ref[N] {
	v := t.cur.Load()
	var h uint64
	if t.hasher.kind == hashBytes { // spares a call
		h = maphash.Bytes(v.seed, memory(k))
	} else {
		h = t.hasher.sum(&v.hashKey, k)
	}
	// The first candidate is nearly always the one; all else is search's.
	if b := v.bucket(h); b != nil {
		m := b.meta.Load()
		if x := match(m, tagOf(h)); x != 0 && m&gone == 0 {
			if n := (*Node[K])(b.entry(first(x))); n != nil {
				if gen := n.gen.Load(); gen&1 == 1 && differ(&n.key, k) == 0 && n.gen.Load() == gen {
					return Ref[N]{(*N)(unsafe.Pointer(uintptr(unsafe.Pointer(n)) - t.off)), gen}
				}
			}
		}
	}
	return t.search(v, h, k)
}

// search is Lookup for a key whose hash in v, which was current, is h.
func (t *Table[K, N]) search(v *version, h uint64, k *K) Ref[N] {
	v, h, b, m := t.look(v, h, k)
	if b == nil {
		return Ref[N]{}
	}
	return t.scan(v, b, m, h, k)
}

// scan searches a chain without its lock.
func (t *Table[K, N]) scan(v *version, b *bucket, m, h uint64, k *K) Ref[N] {
	tag := tagOf(h)
	for hops := int32(-1); ; hops-- {
		for x := match(m, tag); x != 0; x &= x - 1 {
			// ACQUIRE slot.
			n := (*Node[K])(b.entry(first(x)))
			yield.Point("rhmap.read")
			if n == nil {
				continue
			}
			// ACQUIRE life; and an even one is ACQUIRE death.
			if gen, ok := n.life(k); ok {
				return Ref[N]{t.object(n), gen}
			}
		}
		o := b.next.Load()
		if hops < 0 {
			hops = v.longest.Load()
		}
		if o == nil || hops == 0 {
			return Ref[N]{}
		}
		b, m = o, o.meta.Load()
	}
}

// LookupBatch looks up every key, out[i] receiving what Lookup(&keys[i]) would
// return. Looking up several keys at once lets their cache misses overlap: past
// the caches it takes a third of the time. out must be as long as keys.
func (t *Table[K, N]) LookupBatch(keys []K, out []Ref[N]) {
	const group = 8
	type place struct {
		v *version
		h uint64
		n *Node[K] // the first candidate, if any
	}
	var at [group]place
	var touch uint64
	out = out[:len(keys)]
	for len(keys) > 0 {
		n := min(len(keys), group)
		// Hash all keys first, then load from all buckets, then from all nodes:
		// so the misses of each kind run side by side.
		v := t.cur.Load()
		for i := range n {
			var h uint64
			if t.hasher.kind == hashBytes {
				h = maphash.Bytes(v.seed, memory(&keys[i]))
			} else {
				h = t.hasher.sum(&v.hashKey, &keys[i])
			}
			at[i] = place{v: v, h: h}
			if b := v.bucket(h); b != nil {
				touch += b.meta.Load()
			}
		}
		for i := range n {
			p := &at[i]
			if b := v.bucket(p.h); b != nil {
				m := b.meta.Load()
				if x := match(m, tagOf(p.h)); x != 0 && m&gone == 0 {
					if p.n = (*Node[K])(b.entry(first(x))); p.n != nil {
						touch += p.n.gen.Load()
					}
				}
			}
		}
		for i := range n {
			p, k := &at[i], &keys[i]
			if nd := p.n; nd != nil {
				if gen := nd.gen.Load(); gen&1 == 1 && differ(&nd.key, k) == 0 && nd.gen.Load() == gen {
					out[i] = Ref[N]{(*N)(unsafe.Pointer(uintptr(unsafe.Pointer(nd)) - t.off)), gen}
					continue
				}
			}
			out[i] = t.search(p.v, p.h, k)
		}
		keys, out = keys[n:], out[n:]
	}
	_ = touch
}

// Warm brings the chains of keys near, all at once, for one who is about to insert
// or remove these keys one by one. It changes nothing. In a table past the caches
// most of the time of InsertUnique and Remove is a wait for the memory of one
// chain, and writers must not begin the next one before it ends; after a Warm of
// 32 keys they take a third of the time. For one key it is of no use, nor after
// Lookup or LookupBatch, which bring it near as well.
func (t *Table[K, N]) Warm(keys []K) {
	const group = 16
	var at [group]*bucket
	for len(keys) > 0 {
		n := min(len(keys), group)
		v := t.cur.Load()
		for i := range n {
			at[i] = v.bucket(t.hasher.sum(&v.hashKey, &keys[i]))
		}
		for _, b := range at[:n] {
			if b != nil {
				b.meta.Load()
			}
		}
		keys = keys[n:]
	}
}

// InsertUnique inserts n under *k, unless an element with that key is there. It
// returns the element that is in the table now, and whether it is n.
//
// n must not be in a table; between the call and its return it belongs to the
// table, and its key is undefined when it was not inserted. The errors are
// ErrFull, ErrBusy and ErrClosed, each with a Ref that is not Ok; but an element
// that is there already is returned even then.
func (t *Table[K, N]) InsertUnique(k *K, n *N) (ref Ref[N], inserted bool, err error) {
	node := t.node(n)
	gen := node.gen.Load()
	if gen&1 == 1 {
		panic("rhmap: the node is in a table already")
	}
	if gen == 0 {
		gen = t.id
		node.gen.Store(gen)
	} else if gen>>idShift != t.id>>idShift {
		panic("rhmap: the node belongs to another table")
	}
	if !t.reserve() {
		if ref = t.Lookup(k); ref.Ok() {
			return ref, false, nil
		}
		return ref, false, ErrFull
	}
	node.setKey(k)
	v, h := t.hashNow(k)
	for limit := chainLimit; ; {
		v, h, b, m, slot := t.acquireFor(v, h, k)
		var old *Node[K]
		if match(unreserve(m, slot), tagOf(h)) != 0 || b.next.Load() != nil {
			old = t.scanLocked(b, m, h, k)
		}
		if old != nil {
			ref = Ref[N]{t.object(old), old.gen.Load()}
			t.unlock(b, unreserve(m, slot))
			t.release()
			return ref, false, nil
		}
		if t.closed.Load() {
			t.unlock(b, unreserve(m, slot))
			t.release()
			return ref, false, ErrClosed
		}
		p, ok := t.put(v, b, h, m, slot, unsafe.Pointer(node), limit)
		if !ok {
			t.unlock(b, m)
			if limit, err = t.overlong(v, p.depth); err != nil {
				t.release()
				return ref, false, err
			}
			continue
		}
		yield.Point("rhmap.born")
		// PUBLISH life: the key, and the slot. From here on every reader finds n.
		// Were the node alive before the slot shows it, a reader that came by an
		// old array would find n, and one after it, by the slot, would not.
		node.gen.Store(gen + 1)
		t.lot(h).count.Add(1)
		t.unlock(b, p.meta)
		if p.linked {
			t.grow(v)
		}
		return Ref[N]{n, gen + 1}, true, nil
	}
}

// scanLocked searches a locked chain. Nodes in it are alive and keep their keys,
// for both change under this lock.
func (t *Table[K, N]) scanLocked(b *bucket, m, h uint64, k *K) *Node[K] {
	tag := tagOf(h)
	for {
		for x := match(m, tag); x != 0; x &= x - 1 {
			if n := (*Node[K])(b.entry(first(x))); n != nil && n.equal(k) {
				return n
			}
		}
		if b = b.next.Load(); b == nil {
			return nil
		}
		m = b.meta.Load()
	}
}

// Live reports whether the element is still in the table.
func (t *Table[K, N]) Live(r Ref[N]) bool {
	return r.Node != nil && t.node(r.Node).gen.Load() == r.gen
}

// Remove removes the element and reports whether it was this call that did. It is
// the element that counts, not the key: a later life of the node, or another node
// with the same key, is left alone. After true the node is the caller's again,
// to be changed, inserted or pooled.
func (t *Table[K, N]) Remove(r Ref[N]) bool {
	if r.Node == nil {
		return false
	}
	n := t.node(r.Node)
	k := n.Key()
	if n.gen.Load() != r.gen {
		return false
	}
	v, h, b, m := t.acquire(&k)
	// While this life lasts the node is in this chain, and only the holder of
	// this lock can end it.
	if n.gen.Load() != r.gen {
		t.unlock(b, m)
		return false
	}
	// PUBLISH death: the element is gone for everybody, old arrays included.
	n.gen.Store(r.gen + 1)
	yield.Point("rhmap.dead")
	o, i := b, first(match(m, tagOf(h))) // nearly always
	if i >= slotsPer || b.entry(i) != unsafe.Pointer(n) {
		o, i = b.find(m, unsafe.Pointer(n))
	}
	m = t.drop(b, h, m, o, i)
	t.unlock(b, m)
	if used(m) == 0 {
		t.shrink(v)
	}
	return true
}

// Len returns the number of elements: exact when nobody writes, never negative.
// It reads a word per stripe, 16 in all.
func (t *Table[K, N]) Len() int { return t.count() }

// Advance moves up to n chains of a resize in progress and reports whether there
// is more to move. Writers do that by themselves; a table that is only read keeps
// two arrays until somebody advances it.
func (t *Table[K, N]) Advance(n int) (more bool) { return t.advance(n) }

// Close makes inserts of new keys fail with ErrClosed. When it returns no insert
// is under way that could still succeed, so the table can be emptied for good.
// Everything else goes on working.
func (t *Table[K, N]) Close() {
	t.closed.Store(true)
	t.fence()
}
