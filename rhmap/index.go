package rhmap

import "hash/maphash"

// index is a core whose entries have keys of type K: the part of Map and Table
// that hashes.
type index[K comparable] struct {
	hasher Hasher[K] // immutable; on the line of cur
	core
}

// setup makes the index ready, but for core.hash.
func (x *index[K]) setup(h Hasher[K], lim limits, capacity int) {
	h.settle()
	x.hasher = h
	x.draw = x.hasher.draw
	x.init(lim, capacity)
}

// look returns the head of the chain of *k for reading, with its meta word. v was
// current at an instant of this call's caller, and h is the hash of *k there. b is
// nil when the chain is empty because nothing was ever written near it.
//
// A chain that has been retired is left once, and the second one is read
// whatever it says. For if that one was retired as well, it was so during this
// call: its version could be left only after the first one was, which was
// current when the call began. So what it shows, less what has been marked dead
// since, was true at an instant of this call.
func (x *index[K]) look(v *version, h uint64, k *K) (*version, uint64, *bucket, uint64) {
	b := v.bucket(h)
	if b == nil {
		return v, h, nil, 0
	}
	// ACQUIRE moved.
	m := b.meta.Load()
	if m&gone == 0 {
		return v, h, b, m
	}
	nv := x.after(v)
	if nv.ep != v.ep {
		h = x.hasher.sum(&nv.hashKey, k)
	}
	if b = nv.bucket(h); b == nil {
		return nv, h, nil, 0
	}
	return nv, h, b, b.meta.Load()
}

// hashNow returns the current version, and the hash of *k in it.
func (x *index[K]) hashNow(k *K) (v *version, h uint64) {
	v = x.cur.Load()
	if x.hasher.kind == hashBytes { // spares a call
		return v, maphash.Bytes(v.seed, memory(k))
	}
	return v, x.hasher.sum(&v.hashKey, k)
}

// acquire locks the chain of *k where it rules, helping with a resize on the way.
func (x *index[K]) acquire(k *K) (*version, uint64, *bucket, uint64) {
	v, h := x.hashNow(k)
	if b := v.bucket(h); b != nil && v.next.Load() == nil { // nearly always
		if m, ok := b.tryLock(); ok {
			return v, h, b, m
		}
	}
	return x.acquireSlow(v, h, k)
}

func (x *index[K]) acquireSlow(v *version, h uint64, k *K) (*version, uint64, *bucket, uint64) {
	for {
		b := x.bucketTo(v, h)
		if m, ok := x.lock(b); ok {
			return v, h, b, m
		}
		v, h = x.next(v, h, k)
	}
}

// acquireFor is acquire for one who means to insert, and knows the hash of *k in a
// version that was current. slot is the one reserved, -1 if none was free; m has
// its tag set.
func (x *index[K]) acquireFor(v *version, h uint64, k *K) (_ *version, _ uint64, _ *bucket, m uint64, slot int) {
	if b := v.bucket(h); b != nil && v.next.Load() == nil {
		if m, slot, ok := b.tryLockFor(h); ok {
			return v, h, b, m, slot
		}
	}
	v, h, b, m := x.acquireSlow(v, h, k)
	return v, h, b, m, -1
}

// bucketTo returns the head of the chain of h in v to a writer, who first does
// his share of a resize.
func (c *core) bucketTo(v *version, h uint64) *bucket {
	if v.next.Load() != nil {
		c.assist(v, h)
	}
	return v.bucketMade(h)
}

// next goes on to the version after v.
func (x *index[K]) next(v *version, h uint64, k *K) (*version, uint64) {
	nv := x.after(v)
	if nv.ep != v.ep {
		h = x.hasher.sum(&nv.hashKey, k)
	}
	return nv, h
}
