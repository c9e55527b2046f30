package rhmap

import (
	"reflect"
	"sync/atomic"
	"unsafe"
)

// entry is what a slot of a Map points to. It is made for one key and never used
// again, so readers compare keys without care. The value is changed in place:
// arrays old and new point to the same entry, so each shows the newest value.
type entry[K comparable] struct {
	key K // immutable

	// val is the value -> another value ... -> nil, which means dead and is for
	// good. Changed under the lock of the chain that holds the entry, read by
	// anyone. It holds the value itself if that is one pointer (nilMark for a nil
	// one), else the address of an immutable V.
	val unsafe.Pointer
}

// roomy is the entry of a Map whose values are not pointers: the first value has
// its place in it, so that a lookup finds it on the same line.
type roomy[K comparable, V any] struct {
	entry[K]
	first V // immutable
}

// nilMark stands for a value that is a nil pointer.
var nilMark byte

// isPointer reports whether values of type V are one pointer.
func isPointer[V any]() bool {
	switch reflect.TypeFor[V]().Kind() {
	case reflect.Pointer, reflect.UnsafePointer, reflect.Map, reflect.Chan, reflect.Func:
		return true
	default:
		return false
	}
}

// newEntry makes an entry that nobody else sees yet.
func (m *Map[K, V]) newEntry(k *K, v V) *entry[K] {
	if m.direct {
		return &entry[K]{key: *k, val: m.cell(v)}
	}
	e := &roomy[K, V]{entry: entry[K]{key: *k}, first: v}
	e.val = unsafe.Pointer(&e.first)
	return &e.entry
}

// cell is what val holds for v. It allocates unless V is a pointer.
func (m *Map[K, V]) cell(v V) unsafe.Pointer {
	if !m.direct {
		p := new(V)
		*p = v
		return unsafe.Pointer(p)
	}
	if p := *(*unsafe.Pointer)(unsafe.Pointer(&v)); p != nil {
		return p
	}
	return unsafe.Pointer(&nilMark)
}

// value reads what a val that is not nil holds.
func (m *Map[K, V]) value(p unsafe.Pointer) (v V) {
	switch {
	case !m.direct:
		return *(*V)(p)
	case p == unsafe.Pointer(&nilMark):
		return v
	default:
		return *(*V)(unsafe.Pointer(&p))
	}
}

// scan searches a chain without its lock. p is the value at an instant of the
// call; nil if there was an instant without the key.
func (m *Map[K, V]) scan(v *version, b *bucket, meta, h uint64, k *K) (p unsafe.Pointer) {
	tag := tagOf(h)
	for hops := int32(-1); ; hops-- {
		for x := match(meta, tag); x != 0; x &= x - 1 {
			// ACQUIRE slot.
			if e := (*entry[K])(b.entry(first(x))); e != nil && e.key == *k {
				// ACQUIRE value; and nil is ACQUIRE death.
				if p = atomic.LoadPointer(&e.val); p != nil {
					return p
				}
			}
		}
		o := b.next.Load()
		if hops < 0 {
			hops = v.longest.Load()
		}
		if o == nil || hops == 0 {
			return nil
		}
		b, meta = o, o.meta.Load()
	}
}

// scanLocked searches a locked chain, and returns where the entry is.
func (m *Map[K, V]) scanLocked(b *bucket, meta, h uint64, k *K) (e *entry[K], o *bucket, i int) {
	tag := tagOf(h)
	for o = b; ; {
		for x := match(meta, tag); x != 0; x &= x - 1 {
			i = first(x)
			if e = (*entry[K])(o.entry(i)); e != nil && e.key == *k {
				return e, o, i
			}
		}
		if o = o.next.Load(); o == nil {
			return nil, nil, 0
		}
		meta = o.meta.Load()
	}
}
