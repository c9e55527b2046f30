package memacct

import (
	"errors"
	"sync"
	"sync/atomic"

	"corelane/percpu"
)

// Batched is an account that knows its use only roughly: every lane gathers up to
// Batch before it tells. It is how Linux counted fragments from 2013 to 2018, kept
// faithfully, because the lab must be able to show what went wrong with it: the
// limit is compared with a number that is wrong by Batch times lanes (with 64 CPUs
// 8.3 MB, against a threshold of 4 MiB), in either direction. Use Stock.
//
// Make one with NewBatched. Guarantee M10 instead of M1, M3 and M7. Cost: a
// compare-and-swap per level on the lane's own line, and one load per level for
// TryCharge; 128 bytes per lane in use.
type Batched struct {
	used   *percpu.Batched // immutable
	bound  bounds
	parent *Batched // immutable; nil at the root
	marks  *marks   // immutable; nil without OnMark
	state  atomic.Int32
	tree   *sync.Mutex // guards bound, kids and changes of state of the tree's accounts
	kids   int
}

var _ Account = (*Batched)(nil)

// LinuxBatch is the batch of Linux's fragment accounting: a datagram and its
// overhead, twice over.
const LinuxBatch = 130_000

// NewBatched makes an account, a child of parent unless that is nil. Batch 0 means
// LinuxBatch; Lanes is ignored.
func NewBatched(parent *Batched, cfg Config) (*Batched, error) {
	if cfg.Batch == 0 {
		cfg.Batch = LinuxBatch
	}
	if cfg.Batch < 0 {
		return nil, errors.New("memacct: a negative batch")
	}
	b := &Batched{used: percpu.NewBatched(cfg.Batch), parent: parent, marks: makeMarks(cfg.OnMark), tree: new(sync.Mutex)}
	if parent != nil {
		b.tree = parent.tree
	}
	b.tree.Lock()
	defer b.tree.Unlock()
	if parent != nil && parent.state.Load() != batchedOpen {
		return nil, errParentShut
	}
	if err := cfg.Limits.check(parent.limitsLocked()); err != nil {
		return nil, err
	}
	b.bound.store(cfg.Limits)
	if parent != nil {
		parent.kids++
	}
	return b, nil
}

// The states of a Batched: they only grow.
const (
	batchedOpen = iota
	batchedShut
	batchedClosed
)

// Child is NewBatched with b as the parent.
func (b *Batched) Child(cfg Config) (Account, error) {
	c, err := NewBatched(b, cfg)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// TryCharge is TryChargeAt on the lane of the P.
func (b *Batched) TryCharge(n int64) bool { return b.TryChargeAt(percpu.ID(), n) }

// Charge is ChargeAt on the lane of the P.
func (b *Batched) Charge(n int64) { b.ChargeAt(percpu.ID(), n) }

// Uncharge is UnchargeAt on the lane of the P.
func (b *Batched) Uncharge(n int64) { b.UnchargeAt(percpu.ID(), n) }

// TryChargeAt implements Account as far as a rough count can: it compares Used
// with Cap, and then charges.
func (b *Batched) TryChargeAt(lane int, n int64) bool {
	checkAmount(n)
	for l := b; l != nil; l = l.parent {
		if l.state.Load() != batchedOpen || l.used.Approx() > l.bound.cap.Load()-n {
			return false
		}
	}
	b.ChargeAt(lane, n)
	return true
}

// ChargeAt implements Account.
func (b *Batched) ChargeAt(lane int, n int64) {
	checkAmount(n)
	if b.state.Load() == batchedClosed {
		panic("memacct: charge on a closed account")
	}
	for l := b; l != nil; l = l.parent {
		l.used.AddAt(lane, n)
		if l.marks != nil {
			l.marks.rose(l.Used(), l.bound.high.Load())
		}
	}
}

// UnchargeAt implements Account.
func (b *Batched) UnchargeAt(lane int, n int64) {
	checkAmount(n)
	if b.state.Load() == batchedClosed {
		return
	}
	for l := b; l != nil; l = l.parent {
		l.used.AddAt(lane, -n)
		if l.marks != nil {
			l.marks.fell(l.Used(), l.bound.low.Load())
		}
	}
}

// Used implements Account. It is wrong by up to Slack, in either direction, and
// may be negative.
func (b *Batched) Used() int64 { return b.used.Approx() }

// Slack returns how far Used may be from the truth.
func (b *Batched) Slack() int64 { return b.used.Slack() }

// Exact implements Account: the sum over all lanes.
func (b *Batched) Exact() (int64, error) {
	n := b.used.Exact()
	if n < 0 {
		return n, &OverReleaseError{Released: -n, Charged: 0}
	}
	return n, nil
}

// AboveHigh implements Account, roughly.
func (b *Batched) AboveHigh() bool { return b.Used() > b.bound.high.Load() }

// AboveLow implements Account, roughly.
func (b *Batched) AboveLow() bool { return b.Used() > b.bound.low.Load() }

// Limits implements Account.
func (b *Batched) Limits() Limits {
	b.tree.Lock()
	defer b.tree.Unlock()
	return b.limitsLocked()
}

// limitsLocked returns the limits in force; a nil account has none.
func (b *Batched) limitsLocked() Limits {
	l := noLimits
	for up := b; up != nil; up = up.parent {
		l = l.within(up.bound.load())
	}
	return l
}

// SetLimits implements Account.
func (b *Batched) SetLimits(l Limits) error {
	b.tree.Lock()
	defer b.tree.Unlock()
	if err := l.check(b.parent.limitsLocked()); err != nil {
		return err
	}
	b.bound.store(l)
	return nil
}

// Shut implements Account.
func (b *Batched) Shut() {
	b.tree.Lock()
	defer b.tree.Unlock()
	b.state.Store(max(b.state.Load(), batchedShut))
}

// Close implements Account. Unlike the other designs it needs the account to be
// quiet: a charge or release that runs meanwhile may be missed.
func (b *Batched) Close() error {
	b.tree.Lock()
	defer b.tree.Unlock()
	if b.kids != 0 {
		return errHasChildren
	}
	if b.state.Swap(batchedClosed) == batchedClosed {
		return nil
	}
	left, err := b.Exact()
	b.used.Add(-left)
	for l := b.parent; l != nil; l = l.parent {
		l.used.Add(-left)
	}
	if b.parent != nil {
		b.parent.kids--
	}
	if left > 0 {
		return &LeftoverError{left}
	}
	return err
}
