package rhmap

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

// acquire locks the chain of *k where it rules, helping with a resize on the way.
func (x *index[K]) acquire(k *K) (*version, uint64, *bucket, uint64) {
	v := x.cur.Load()
	h := x.hasher.sum(&v.hashKey, k)
	for {
		x.assist(v, h)
		b := v.bucketMade(h)
		if m, ok := x.lock(b, h); ok {
			return v, h, b, m
		}
		v, h = x.next(v, h, k)
	}
}

// acquireFor is acquire for one who means to insert (lockFor), and knows the hash
// of *k in a version that was current.
func (x *index[K]) acquireFor(v *version, h uint64, k *K) (*version, uint64, *bucket, uint64, int) {
	for {
		x.assist(v, h)
		b := v.bucketMade(h)
		if m, slot, ok := x.lockFor(b, h); ok {
			return v, h, b, m, slot
		}
		v, h = x.next(v, h, k)
	}
}

// next goes on to the version after v.
func (x *index[K]) next(v *version, h uint64, k *K) (*version, uint64) {
	nv := x.after(v)
	if nv.ep != v.ep {
		h = x.hasher.sum(&nv.hashKey, k)
	}
	return nv, h
}
