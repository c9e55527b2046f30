package rhmap

import (
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"

	"corelane/internal/cacheline"
)

// lots is how many stripes share what is needed off the fast path.
const lots = 16

// lot is a stripe of a table: writers waiting for a chain park here, empty
// overflow buckets wait here to be used again, and elements are counted here.
// The stripe of a key is the top bits of its hash, so within one hash key the
// same element is always added to and taken from the same count.
type lot struct {
	count atomic.Int64 // elements; changed under the lock of a chain of this stripe, read by anyone

	mu     sync.Mutex
	cond   sync.Cond // on mu; made ready by the first to park
	spare  *bucket   // guarded by mu; linked by next
	spares int       // guarded by mu; length of spare

	_ [cacheline.Apart]byte // counts of neighbours must not share a line
}

// spareLimit bounds the memory a stripe holds back for the next overflow.
const spareLimit = 1 << 12

// park waits until it can lock b, or finds b retired.
//
// CROSSED park/unlock: we set parked, holding mu, and then sleep, which gives
// up mu; unlock swaps meta, and when it sees parked takes mu before it wakes.
// So either the swap came first and our CAS fails, or it sees our mark and
// its wake comes after we are on the list.
func (l *lot) park(b *bucket) (m uint64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cond.L = &l.mu
	for {
		m = b.meta.Load()
		switch {
		case m&gone != 0:
			return m, false
		case m&locked == 0:
			if b.meta.CompareAndSwap(m, m|locked) {
				return m &^ parked, true
			}
		case m&parked != 0 || b.meta.CompareAndSwap(m, m|parked):
			l.cond.Wait()
		}
	}
}

// wake lets everybody parked on the stripe look again.
func (l *lot) wake() {
	l.mu.Lock()
	l.cond.Broadcast()
	l.mu.Unlock()
}

// take returns an empty overflow bucket: a used one if there is any.
func (l *lot) take() *bucket {
	l.mu.Lock()
	b := l.spare
	if b != nil {
		l.spare = b.next.Load()
		l.spares--
	}
	l.mu.Unlock()
	if b == nil {
		return new(bucket)
	}
	b.next.Store(nil)
	return b
}

// keep takes back an overflow bucket that has been unlinked from the end of a
// chain. Readers may still be in it: see the bound in version.longest.
func (l *lot) keep(b *bucket) {
	l.mu.Lock()
	if l.spares < spareLimit {
		b.next.Store(l.spare)
		l.spare = b
		l.spares++
	}
	l.mu.Unlock()
}

// runUser calls user code while a chain is locked. It is a frame of its own so
// that refuseReentry can recognise it on the stack.
//
//go:noinline
func runUser(f func()) { f() }

var runUserEntry = reflect.ValueOf(runUser).Pointer()

// refuseReentry panics when this goroutine is inside user code that a Map runs
// under a lock, and is about to wait for another such lock: its own, as a rule,
// and then for ever. It is called by waiters only, so it may be slow.
func refuseReentry() {
	var pcs [64]uintptr
	for skip := 1; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs[:])
		for _, pc := range pcs[:n] {
			if f := runtime.FuncForPC(pc - 1); f != nil && f.Entry() == runUserEntry {
				panic("rhmap: a function run by Compute or LoadOrCompute wrote to a Map")
			}
		}
		if n < len(pcs) {
			return
		}
	}
}
