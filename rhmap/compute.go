package rhmap

import "sync/atomic"

// ComputeOp is what a function given to Compute decides.
type ComputeOp int

const (
	CancelOp ComputeOp = iota // leave everything as it is
	UpdateOp                  // store the value returned
	DeleteOp                  // remove the key
)

// Compute calls f with the value of key, and whether there is one, and does what
// it says, as one atomic step: f is called exactly once. It returns the value of
// key afterwards, and whether there is one.
//
// f runs under the lock of a chain. It must be short, and must not write to any
// Map or Table of this package; where that would deadlock, it panics. If f
// panics nothing has changed.
func (m *Map[K, V]) Compute(key K, f func(old V, loaded bool) (V, ComputeOp)) (actual V, ok bool) {
	m.ready()
	mustEqualItself(&key)
	v, h, b, meta := m.acquire(&key)
	e, o, i := m.scanLocked(b, meta, h, &key)
	op := CancelOp
	func() {
		done := false
		defer func() {
			if !done {
				m.unlock(b, meta)
			}
		}()
		if ok = e != nil; ok {
			actual = m.value(atomic.LoadPointer(&e.val))
		}
		var value V
		runUser(func() { value, op = f(actual, ok) })
		if op == UpdateOp {
			actual = value
		}
		done = true
	}()
	switch {
	case op == UpdateOp && ok:
		// PUBLISH value.
		atomic.StorePointer(&e.val, m.cell(actual))
		m.unlock(b, meta)
	case op == UpdateOp:
		m.insertLocked(v, b, h, meta, m.newEntry(&key, actual))
		ok = true
	case op == DeleteOp && ok:
		meta = m.bury(b, h, meta, e, o, i)
		m.unlock(b, meta)
		if used(meta) == 0 {
			m.shrink(v)
		}
		actual, ok = *new(V), false
	default:
		m.unlock(b, meta)
	}
	return actual, ok
}

// LoadOrCompute returns the value of key if there is one. Otherwise it calls f,
// exactly once, and stores what it returns, unless f cancels. It returns the
// value of key afterwards, and whether it was there before.
//
// f runs as in Compute.
func (m *Map[K, V]) LoadOrCompute(key K, f func() (value V, cancel bool)) (actual V, loaded bool) {
	if actual, loaded = m.LoadPtr(&key); loaded {
		return actual, true
	}
	actual, _ = m.Compute(key, func(old V, was bool) (V, ComputeOp) {
		if was {
			loaded = true
			return old, CancelOp
		}
		value, cancel := f()
		if cancel {
			return old, CancelOp
		}
		return value, UpdateOp
	})
	return actual, loaded
}
