package percpu

import (
	"cmp"
	"fmt"
	"sync"
	"sync/atomic"

	"corelane/internal/yield"
)

// Batched is a counter with a cheap approximate read: each lane gathers up to
// batch-1, and only what reaches batch moves to the shared total. It is Linux's
// percpu_counter, with the same error bound and without its races.
//
// Make one with NewBatched. A Batched must not be copied; all methods may be
// called at any time by anyone. A lane costs 128 bytes. C1 to C4, C6 and
// C8 apply.
type Batched struct {
	cells *cells // immutable
	batch int64  // immutable, >= 1

	// fold is held while an amount is between a cell and total, so that Exact
	// finds it in exactly one of the two. Without it Exact could miss Adds that
	// returned long ago (PC-10, PC-12).
	fold  sync.Mutex
	total atomic.Int64 // written under fold, and by TryAdd; read by anyone
}

// NewBatched makes a counter of value 0. A larger batch makes Add cheaper and
// Approx worse. It panics unless batch >= 1; with 1 there is no error at all.
func NewBatched(batch int64) *Batched {
	if batch < 1 {
		panic(fmt.Sprintf("percpu: NewBatched with a batch of %d", batch))
	}
	return &Batched{cells: makeCells(1, 0), batch: batch}
}

// Add adds n, which may be negative. An n of batch or more goes straight to the
// total. Cost: ID plus one compare-and-swap; a mutex once per batch.
func (b *Batched) Add(n int64) { b.AddAt(ID(), n) }

// AddAt is Add for callers that know their lane.
func (b *Batched) AddAt(lane int, n int64) {
	cell := b.cells.find(lane)
	if cell == nil {
		cell = b.cells.at(lane)
	}
	for {
		old := cell.Load()
		// -batch < old < batch always, so this cannot overflow unless n is
		// within batch of the ends of int64; then the sum is wrong modulo 2^64
		// in the direction of the fold, where it belongs.
		now := old + n
		if now <= -b.batch || now >= b.batch {
			b.foldIn(cell, n)
			return
		}
		if cell.CompareAndSwap(old, now) {
			return
		}
	}
}

// foldIn moves what a cell has gathered, and n, to the total.
func (b *Batched) foldIn(cell *atomic.Int64, n int64) {
	b.fold.Lock()
	defer b.fold.Unlock()
	// One swap, not a load and a store: an Add on the same cell in between would
	// be lost, which is how Linux lost socket memory on arm64 (PC-13).
	gathered := cell.Swap(0)
	yield.Point("percpu.batched.fold")
	b.total.Add(gathered + n)
}

// Approx returns the sum to within Slack, as C3 says. Cost: one load.
func (b *Batched) Approx() int64 { return b.total.Load() }

// Slack returns how wrong Approx can be when each lane has one Add at a time:
// lanes in use times batch-1. With more, one fold in progress may hide batch-1
// more (folds take turns).
func (b *Batched) Slack() int64 { return int64(b.cells.lanes()) * (b.batch - 1) }

// Exact returns the sum, as C2 says. Cost: a mutex and one load per lane in use.
func (b *Batched) Exact() int64 {
	b.fold.Lock()
	defer b.fold.Unlock()
	return b.total.Load() + b.cells.sum(0)
}

// Compare compares the sum with rhs: -1, 0 or +1. It is Approx's one load when
// that is further from rhs than it can be wrong, and Exact otherwise.
func (b *Batched) Compare(rhs int64) int {
	approx := b.Approx()
	if off := b.Slack() + b.batch - 1; approx < rhs-off || approx > rhs+off {
		return cmp.Compare(approx, rhs)
	}
	return cmp.Compare(b.Exact(), rhs)
}

// TryAdd adds n >= 0 unless that would take the sum past limit, and reports
// whether it did. If nothing but TryAdd raises the counter (Add lowers it), the
// sum never passes limit, and a refusal means that it stood above limit-n.
//
// Linux's percpu_counter_limited_add checks the total and then adds to a cell;
// between the two another CPU may fill the counter, and the limit is passed by up
// to 2*batch*(lanes-1) (PC-15). Here check and add are one swap of the total, so
// TryAdd costs what a shared atomic costs. memacct.Stock is the account that has
// a limit and scales.
func (b *Batched) TryAdd(n, limit int64) bool {
	if n < 0 {
		panic(fmt.Sprintf("percpu: TryAdd of %d", n))
	}
	for folded := false; ; {
		total := b.total.Load()
		yield.Point("percpu.batched.tryadd")
		if total > limit-n {
			if folded {
				return false
			}
			b.foldAll()
			folded = true
			continue
		}
		// Cells hold only negative amounts here, so the truth is at most total.
		if b.total.CompareAndSwap(total, total+n) {
			return true
		}
	}
}

// foldAll empties every cell into the total.
func (b *Batched) foldAll() {
	b.fold.Lock()
	defer b.fold.Unlock()
	for cell := range b.cells.rows() {
		if n := cell.Swap(0); n != 0 {
			b.total.Add(n)
		}
	}
}
