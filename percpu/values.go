package percpu

import (
	"fmt"
	"iter"
	"math/bits"
	"sync"
	"sync/atomic"

	"corelane/internal/cacheline"
)

// Values is a T per lane, for everything that is not a number: a free list, a
// buffer, a histogram. Either the T synchronises itself and is reached through
// Get, At and All, or it does not and is used only inside With and Each.
//
// Make one with NewValues. A Values must not be copied; all methods may be called
// at any time by anyone. Ts are made when their lane is first used, and live as
// long as the Values; their addresses never change. C6 and C7 apply.
type Values[T any] struct {
	make   func() T // immutable
	blocks [11]atomic.Pointer[[]slot[T]]
	// blocks is laid out as cells.blocks: nil -> the slots of the block, once.
}

type slot[T any] struct {
	mu    sync.Mutex // held while With or Each runs user code on value
	value T
	_     [cacheline.Apart]byte
}

// NewValues makes values that newT initialises. newT may be called more often than
// there are lanes, by two goroutines at once; what it returns is then dropped.
// Nil means the zero value.
func NewValues[T any](newT func() T) *Values[T] {
	if newT == nil {
		newT = func() (zero T) { return zero }
	}
	return &Values[T]{make: newT}
}

// Get returns the T of the P's lane: shared, and to be shared properly.
func (v *Values[T]) Get() *T { return v.At(ID()) }

// At returns the T of a lane.
func (v *Values[T]) At(lane int) *T { return &v.slot(lane).value }

// All yields the T of every lane in use.
func (v *Values[T]) All() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for s := range v.slots() {
			if !yield(&s.value) {
				return
			}
		}
	}
}

// With runs fn with a T that no other With or Each uses until fn returns: that of
// the P's lane, or if it is taken, another. So With inside With works, on another
// T. fn runs under a lock, not pinned: it may block, allocate and panic.
//
// With takes the next free lane rather than wait, and makes a new T when all lanes
// in use are taken. It panics when 1024 are: that is With calling itself without
// end.
func (v *Values[T]) With(fn func(*T)) { v.WithAt(ID(), fn) }

// WithAt is With for callers that know their lane.
func (v *Values[T]) WithAt(lane int, fn func(*T)) {
	for try := range maxLanes {
		if s := v.slot(lane + try); s.mu.TryLock() {
			defer s.mu.Unlock()
			fn(&s.value)
			return
		}
	}
	panic(fmt.Sprintf("percpu: Values.With inside itself %d times", maxLanes))
}

// Each runs fn with the T of every lane in use, one after the other, each at a
// time when no With uses it. It must not be called inside With or Each: it would
// wait for the T its caller holds.
func (v *Values[T]) Each(fn func(*T)) {
	for s := range v.slots() {
		s.each(fn)
	}
}

func (s *slot[T]) each(fn func(*T)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn(&s.value)
}

func (v *Values[T]) slot(lane int) *slot[T] {
	l := uint(lane) % maxLanes
	k := bits.Len(l)
	// ACQUIRE percpu.values
	b := v.blocks[k].Load()
	if b == nil {
		b = v.grow(k)
	}
	return &(*b)[l&^(1<<k>>1)]
}

func (v *Values[T]) grow(k int) *[]slot[T] {
	slots := make([]slot[T], max(1<<k>>1, 1))
	for i := range slots {
		slots[i].value = v.make()
	}
	// PUBLISH percpu.values: every T is made before anyone can reach it.
	v.blocks[k].CompareAndSwap(nil, &slots)
	return v.blocks[k].Load()
}

func (v *Values[T]) slots() iter.Seq[*slot[T]] {
	return func(yield func(*slot[T]) bool) {
		for k := range v.blocks {
			b := v.blocks[k].Load()
			if b == nil {
				continue
			}
			for i := range *b {
				if !yield(&(*b)[i]) {
					return
				}
			}
		}
	}
}
