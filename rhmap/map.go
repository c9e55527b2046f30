package rhmap

import (
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"unsafe"

	"corelane/internal/yield"
)

// Map is a concurrent map[K]V with the methods of sync.Map and xsync. The zero
// Map is empty and ready, with the zero Config. It must not be copied after first
// use.
//
// An insert allocates an entry: the key, a word, and room for the value unless
// that is a pointer. Storing anew under a key that is there allocates a V unless
// that is a pointer; everything else allocates nothing. Inserting a key that is
// not equal to itself (NaN) panics: nobody could ever remove it.
//
// R11 covers the operations that change something and those that find something.
// A Load that finds nothing synchronizes with the removal it saw only.
type Map[K comparable, V any] struct {
	index[K]
	direct bool // V is one pointer; immutable
	once   sync.Once
}

// NewMap makes an empty Map. It panics if the configuration cannot be had. Max
// and RefuseBusy bind TryStore only: the other methods have no way to refuse.
func NewMap[K comparable, V any](cfg Config[K]) *Map[K, V] {
	if cfg.Max < 0 || cfg.Capacity < 0 {
		panic(fmt.Sprintf("rhmap: Max %d and Capacity %d must not be negative", cfg.Max, cfg.Capacity))
	}
	m := new(Map[K, V])
	m.once.Do(func() { m.start(cfg) })
	return m
}

func (m *Map[K, V]) start(cfg Config[K]) {
	m.direct = isPointer[V]()
	m.hash = func(by *hashKey, e unsafe.Pointer) uint64 { return m.hasher.sum(by, &(*entry[K])(e).key) }
	m.setup(cfg.Hasher, cfg.limits(), cfg.Capacity)
}

// ready makes a zero Map usable.
func (m *Map[K, V]) ready() {
	if m.cur.Load() == nil {
		m.once.Do(func() { m.start(Config[K]{}) })
	}
}

// Load returns the value of key, and whether there is one.
func (m *Map[K, V]) Load(key K) (value V, ok bool) { return m.LoadPtr(&key) }

// LoadPtr is Load with the key by address: for keys that are in memory already.
// A struct passed by value is put together in registers and stored field by
// field, and a hash that reads it at once waits for those stores: 17 ns on
// current CPUs.
func (m *Map[K, V]) LoadPtr(key *K) (value V, ok bool) {
	v := m.cur.Load()
	if v == nil {
		return value, false
	}
	var h uint64
	if m.hasher.kind == hashBytes { // spares a call
		h = maphash.Bytes(v.seed, memory(key))
	} else {
		h = m.hasher.sum(&v.hashKey, key)
	}
	// The first candidate is nearly always the one; all else is search's.
	if b := v.bucket(h); b != nil {
		meta := b.meta.Load()
		if x := match(meta, tagOf(h)); x != 0 && meta&gone == 0 {
			if e := (*entry[K])(b.entry(first(x))); e != nil && e.key == *key {
				if p := atomic.LoadPointer(&e.val); p != nil {
					return m.value(p), true
				}
			}
		}
	}
	if p := m.search(v, h, key); p != nil {
		return m.value(p), true
	}
	return value, false
}

// search looks for a key whose hash in v, which was current, is h.
func (m *Map[K, V]) search(v *version, h uint64, k *K) (p unsafe.Pointer) {
	v, h, b, meta := m.look(v, h, k)
	if b == nil {
		return nil
	}
	return m.scan(v, b, meta, h, k)
}

// peek looks for key among the first candidates, so that a write can allocate
// what it will probably need before it takes the lock. When p is nil the key may
// be there all the same.
func (m *Map[K, V]) peek(key *K) (v *version, h uint64, p unsafe.Pointer) {
	m.ready()
	v, h = m.hashNow(key)
	if b := v.bucket(h); b != nil {
		if x := match(b.meta.Load(), tagOf(h)); x != 0 {
			if e := (*entry[K])(b.entry(first(x))); e != nil && e.key == *key {
				p = atomic.LoadPointer(&e.val)
			}
		}
	}
	return v, h, p
}

// Store sets the value of key.
func (m *Map[K, V]) Store(key K, value V) {
	v, h, p := m.peek(&key)
	_, _, _ = m.write(v, h, p, &key, value, storeAlways)
}

// TryStore is Store for a Map with limits: it returns ErrFull or ErrBusy when a
// new key is refused.
func (m *Map[K, V]) TryStore(key K, value V) error {
	v, h, p := m.peek(&key)
	_, _, err := m.write(v, h, p, &key, value, storeWithin)
	return err
}

// Swap sets the value of key and returns the one before, and whether there was
// one.
func (m *Map[K, V]) Swap(key K, value V) (previous V, loaded bool) {
	v, h, p := m.peek(&key)
	p, loaded, _ = m.write(v, h, p, &key, value, storeAlways)
	return m.valueOr0(p), loaded
}

// LoadOrStore returns the value of key if there is one; otherwise it stores value
// and returns that.
func (m *Map[K, V]) LoadOrStore(key K, value V) (actual V, loaded bool) {
	m.ready()
	v, h := m.hashNow(&key)
	p := m.search(v, h, &key)
	if p == nil {
		if p, loaded, _ = m.write(v, h, p, &key, value, storeAbsent); !loaded {
			return value, false
		}
	}
	return m.value(p), true
}

func (m *Map[K, V]) valueOr0(p unsafe.Pointer) (v V) {
	if p != nil {
		return m.value(p)
	}
	return v
}

// storeMode says what write does about a key that is there, and about limits.
type storeMode uint8

const (
	storeAlways storeMode = iota // replace the value; ignore limits
	storeWithin                  // replace the value; refuse new keys beyond the limits
	storeAbsent                  // keep the value; ignore limits
)

// write stores under *k, whose hash in v, which was current, is h. p is not nil if
// the key is probably there. It returns what val was.
func (m *Map[K, V]) write(v *version, h uint64, p unsafe.Pointer, k *K, value V, mode storeMode) (old unsafe.Pointer, loaded bool, err error) {
	if m.hasher.kind != hashBytes {
		mustEqualItself(k)
	}
	var fresh *entry[K]
	var cell unsafe.Pointer
	if p == nil {
		fresh = m.newEntry(k, value)
	} else {
		cell = m.cell(value)
	}
	limit := chainLimit
	for {
		v, h, b, meta, slot := m.acquireFor(v, h, k)
		if e := m.present(b, meta, slot, h, k); e != nil {
			if mode == storeAbsent {
				old = atomic.LoadPointer(&e.val)
			} else {
				if cell == nil {
					cell = m.cell(value)
				}
				// PUBLISH value.
				old = atomic.SwapPointer(&e.val, cell)
			}
			m.unlock(b, unreserve(meta, slot))
			return old, true, nil
		}
		if !m.reserve() {
			if mode == storeWithin {
				m.unlock(b, unreserve(meta, slot))
				return nil, false, ErrFull
			}
			m.total.Add(1)
		}
		if fresh == nil {
			fresh = m.newEntry(k, value)
		}
		if slot >= 0 { // as put does
			yield.Point("rhmap.put")
			// PUBLISH slot.
			atomic.StorePointer(b.at(slot), unsafe.Pointer(fresh))
			m.lot(h).count.Add(1)
			m.unlock(b, meta)
			return nil, false, nil
		}
		at, ok := m.put(v, b, h, meta, slot, unsafe.Pointer(fresh), limit)
		if ok {
			m.lot(h).count.Add(1)
			m.unlock(b, at.meta)
			if at.linked {
				m.grow(v)
			}
			return nil, false, nil
		}
		m.unlock(b, meta)
		m.release()
		if limit, err = m.overlong(v, at.depth); err != nil {
			if mode == storeWithin {
				return nil, false, err
			}
			limit = noLimit
		}
	}
}

// present searches a locked chain whose meta word has the tag of the reserved slot.
func (m *Map[K, V]) present(b *bucket, meta uint64, slot int, h uint64, k *K) *entry[K] {
	if match(unreserve(meta, slot), tagOf(h)) == 0 && b.next.Load() == nil {
		return nil
	}
	e, _, _ := m.scanLocked(b, meta, h, k)
	return e
}

func mustEqualItself[K comparable](k *K) {
	if k2 := *k; k2 != *k {
		panic("rhmap: the key is not equal to itself")
	}
}

// insertLocked puts an entry into a locked chain that does not hold its key,
// whatever the limits, and unlocks it.
func (m *Map[K, V]) insertLocked(v *version, b *bucket, h, meta uint64, e *entry[K]) {
	if !m.reserve() {
		m.total.Add(1)
	}
	at, _ := m.put(v, b, h, meta, -1, unsafe.Pointer(e), noLimit)
	m.lot(h).count.Add(1)
	m.unlock(b, at.meta)
	switch {
	case at.depth > chainLimit:
		_, _ = m.overlong(v, at.depth)
	case at.linked:
		m.grow(v)
	}
}

// Delete removes key.
func (m *Map[K, V]) Delete(key K) {
	m.ready()
	m.remove(&key, nil)
}

// LoadAndDelete removes key and returns the value it had, and whether it had one.
func (m *Map[K, V]) LoadAndDelete(key K) (value V, loaded bool) {
	m.ready()
	p := m.remove(&key, nil)
	return m.valueOr0(p), p != nil
}

// remove removes *k if it is there and its val is want (nil: any), and returns
// what val was.
func (m *Map[K, V]) remove(k *K, want unsafe.Pointer) (p unsafe.Pointer) {
	v, h, b, meta := m.acquire(k)
	var e *entry[K]
	o, i := b, first(match(meta, tagOf(h))) // nearly always
	if i < slotsPer {
		e = (*entry[K])(b.entry(i))
	}
	if e == nil || e.key != *k {
		e, o, i = m.scanLocked(b, meta, h, k)
	}
	if e != nil {
		p = atomic.LoadPointer(&e.val)
	}
	if e == nil || want != nil && p != want {
		m.unlock(b, meta)
		return nil
	}
	meta = m.bury(b, h, meta, e, o, i)
	m.unlock(b, meta)
	if used(meta) == 0 {
		m.shrink(v)
	}
	return p
}

// bury kills an entry of a locked chain and unlinks it.
func (m *Map[K, V]) bury(b *bucket, h, meta uint64, e *entry[K], o *bucket, i int) uint64 {
	// PUBLISH death: for those who look through old arrays too.
	atomic.StorePointer(&e.val, nil)
	return m.drop(b, h, meta, o, i)
}

// CompareAndSwap sets the value of key to new if it is old. Values are compared
// with ==; old must be comparable, or it panics, as sync.Map does.
func (m *Map[K, V]) CompareAndSwap(key K, old, new V) (swapped bool) {
	for {
		m.ready()
		v, h := m.hashNow(&key)
		p := m.search(v, h, &key)
		if p == nil || any(m.value(p)) != any(old) {
			return false
		}
		// The lock is taken only after the comparison, which may panic. What p
		// stands for is immutable, so if p is still there so is the value.
		cell := m.cell(new)
		_, h, b, meta := m.acquire(&key)
		e, _, _ := m.scanLocked(b, meta, h, &key)
		swapped = e != nil && atomic.LoadPointer(&e.val) == p
		if swapped {
			// PUBLISH value.
			atomic.StorePointer(&e.val, cell)
		}
		m.unlock(b, meta)
		if swapped {
			return true
		}
	}
}

// CompareAndDelete removes key if its value is old, compared as CompareAndSwap
// does.
func (m *Map[K, V]) CompareAndDelete(key K, old V) (deleted bool) {
	for {
		m.ready()
		v, h := m.hashNow(&key)
		p := m.search(v, h, &key)
		if p == nil || any(m.value(p)) != any(old) {
			return false
		}
		if m.remove(&key, p) != nil {
			return true
		}
	}
}

// Clear removes every key that is present from its call to its return. It
// removes them one by one, beside everything else that goes on.
func (m *Map[K, V]) Clear() {
	for w := m.Walk(); ; {
		e := w.next()
		if e == nil {
			return
		}
		v, h, b, meta := m.acquire(&e.key)
		if o, i := b.find(meta, unsafe.Pointer(e)); o != nil {
			meta = m.bury(b, h, meta, e, o, i)
		}
		m.unlock(b, meta)
		if used(meta) == 0 {
			m.shrink(v)
		}
	}
}

// Len returns the number of keys: exact when nobody writes, never negative. It
// reads a word per stripe, 16 in all.
func (m *Map[K, V]) Len() int { return m.count() }

// Advance is as in Table.
func (m *Map[K, V]) Advance(n int) (more bool) {
	m.ready()
	return m.advance(n)
}
