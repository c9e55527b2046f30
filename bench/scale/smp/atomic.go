package smp

import (
	"unsafe"

	"corelane/bench/scale/machine"
)

func load(p unsafe.Pointer, chase bool) {
	if c := machine.Current; c != nil {
		c.AtomicLoad(uintptr(p), chase)
	}
}

func store(p unsafe.Pointer) {
	if c := machine.Current; c != nil {
		c.AtomicStore(uintptr(p))
	}
}

func change(p unsafe.Pointer) {
	if c := machine.Current; c != nil {
		c.RMW(uintptr(p))
	}
}

func add(p unsafe.Pointer) {
	if c := machine.Current; c != nil {
		c.Add(uintptr(p))
	}
}

// word is what the atomic types have in common.
type word[T comparable] struct{ v T }

// Load is an atomic load.
func (w *word[T]) Load() T { load(unsafe.Pointer(w), false); return w.v }

// Store is an atomic store.
func (w *word[T]) Store(v T) { store(unsafe.Pointer(w)); w.v = v }

// Swap is an exchange.
func (w *word[T]) Swap(v T) (old T) { change(unsafe.Pointer(w)); old, w.v = w.v, v; return old }

// CompareAndSwap is a locked compare and exchange.
func (w *word[T]) CompareAndSwap(old, v T) bool {
	change(unsafe.Pointer(w))
	if w.v != old {
		return false
	}
	w.v = v
	return true
}

type integer interface {
	~int32 | ~int64 | ~uint32 | ~uint64
}

type number[T integer] struct{ word[T] }

// Add is a locked addition.
func (n *number[T]) Add(d T) T { add(unsafe.Pointer(n)); n.v += d; return n.v }

// And is a locked and.
func (n *number[T]) And(m T) (old T) { change(unsafe.Pointer(n)); old, n.v = n.v, n.v&m; return old }

// Or is a locked or.
func (n *number[T]) Or(m T) (old T) { change(unsafe.Pointer(n)); old, n.v = n.v, n.v|m; return old }

// What stands for the types of sync/atomic.
type (
	Int32  struct{ number[int32] }
	Int64  struct{ number[int64] }
	Uint32 struct{ number[uint32] }
	Uint64 struct{ number[uint64] }
	Bool   struct {
		word[bool]
		_ [3]byte
	}
)

// Pointer stands for atomic.Pointer.
type Pointer[T any] struct{ v *T }

// Load is an atomic load of an address.
func (p *Pointer[T]) Load() *T { load(unsafe.Pointer(p), true); return p.v }

// Store is an atomic store.
func (p *Pointer[T]) Store(v *T) { store(unsafe.Pointer(p)); p.v = v }

// Swap is an exchange.
func (p *Pointer[T]) Swap(v *T) (old *T) { change(unsafe.Pointer(p)); old, p.v = p.v, v; return old }

// CompareAndSwap is a locked compare and exchange.
func (p *Pointer[T]) CompareAndSwap(old, v *T) bool {
	change(unsafe.Pointer(p))
	if p.v != old {
		return false
	}
	p.v = v
	return true
}

func cas[T comparable](p *T, old, v T) bool {
	change(unsafe.Pointer(p))
	if *p != old {
		return false
	}
	*p = v
	return true
}

func swap[T any](p *T, v T) (old T) {
	change(unsafe.Pointer(p))
	old, *p = *p, v
	return old
}

// LoadPointer is atomic.LoadPointer.
func LoadPointer(p *unsafe.Pointer) unsafe.Pointer { load(unsafe.Pointer(p), true); return *p }

// StorePointer is atomic.StorePointer.
func StorePointer(p *unsafe.Pointer, v unsafe.Pointer) { store(unsafe.Pointer(p)); *p = v }

// SwapPointer is atomic.SwapPointer.
func SwapPointer(p *unsafe.Pointer, v unsafe.Pointer) unsafe.Pointer { return swap(p, v) }

// CompareAndSwapPointer is atomic.CompareAndSwapPointer.
func CompareAndSwapPointer(p *unsafe.Pointer, old, v unsafe.Pointer) bool { return cas(p, old, v) }

// LoadUint64 is atomic.LoadUint64.
func LoadUint64(p *uint64) uint64 { load(unsafe.Pointer(p), false); return *p }

// StoreUint64 is atomic.StoreUint64.
func StoreUint64(p *uint64, v uint64) { store(unsafe.Pointer(p)); *p = v }

// SwapUint64 is atomic.SwapUint64.
func SwapUint64(p *uint64, v uint64) uint64 { return swap(p, v) }

// CompareAndSwapUint64 is atomic.CompareAndSwapUint64.
func CompareAndSwapUint64(p *uint64, old, v uint64) bool { return cas(p, old, v) }

// AddUint64 is atomic.AddUint64.
func AddUint64(p *uint64, d uint64) uint64 { add(unsafe.Pointer(p)); *p += d; return *p }

// LoadInt64 is atomic.LoadInt64.
func LoadInt64(p *int64) int64 { load(unsafe.Pointer(p), false); return *p }

// StoreInt64 is atomic.StoreInt64.
func StoreInt64(p *int64, v int64) { store(unsafe.Pointer(p)); *p = v }

// SwapInt64 is atomic.SwapInt64.
func SwapInt64(p *int64, v int64) int64 { return swap(p, v) }

// CompareAndSwapInt64 is atomic.CompareAndSwapInt64.
func CompareAndSwapInt64(p *int64, old, v int64) bool { return cas(p, old, v) }

// AddInt64 is atomic.AddInt64.
func AddInt64(p *int64, d int64) int64 { add(unsafe.Pointer(p)); *p += d; return *p }

// LoadUint32 is atomic.LoadUint32.
func LoadUint32(p *uint32) uint32 { load(unsafe.Pointer(p), false); return *p }

// StoreUint32 is atomic.StoreUint32.
func StoreUint32(p *uint32, v uint32) { store(unsafe.Pointer(p)); *p = v }

// SwapUint32 is atomic.SwapUint32.
func SwapUint32(p *uint32, v uint32) uint32 { return swap(p, v) }

// CompareAndSwapUint32 is atomic.CompareAndSwapUint32.
func CompareAndSwapUint32(p *uint32, old, v uint32) bool { return cas(p, old, v) }

// AddUint32 is atomic.AddUint32.
func AddUint32(p *uint32, d uint32) uint32 { add(unsafe.Pointer(p)); *p += d; return *p }

// LoadInt32 is atomic.LoadInt32.
func LoadInt32(p *int32) int32 { load(unsafe.Pointer(p), false); return *p }

// StoreInt32 is atomic.StoreInt32.
func StoreInt32(p *int32, v int32) { store(unsafe.Pointer(p)); *p = v }

// SwapInt32 is atomic.SwapInt32.
func SwapInt32(p *int32, v int32) int32 { return swap(p, v) }

// CompareAndSwapInt32 is atomic.CompareAndSwapInt32.
func CompareAndSwapInt32(p *int32, old, v int32) bool { return cas(p, old, v) }

// AddInt32 is atomic.AddInt32.
func AddInt32(p *int32, d int32) int32 { add(unsafe.Pointer(p)); *p += d; return *p }
