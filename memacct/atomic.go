package memacct

import (
	"fmt"
	"sync"
	"sync/atomic"

	"corelane/internal/cacheline"
	"corelane/internal/yield"
)

// Atomic is an account that is one shared word per level: what Linux counts
// fragments with since 2018, and with a Cap what its page_counter is. Exact
// always, and a cache line that every processor fights for.
//
// Make one with NewAtomic. Guarantees M1 to M6. Cost: one atomic operation per
// level and call; 320 bytes.
type Atomic struct {
	_     cacheline.Pad
	used  atomic.Int64 // a used word: see account.go; written by everybody
	_     cacheline.Pad
	bound bounds

	parent  *Atomic // immutable; nil at the root
	marks   *marks  // immutable; nil without OnMark
	watched bool    // immutable: this account or an ancestor has OnMark

	tree *sync.Mutex // guards bound and kids of every account of the tree
	kids int         // children not closed
}

var _ Account = (*Atomic)(nil)

// NewAtomic makes an account, a child of parent unless that is nil. Batch and
// Lanes are ignored.
func NewAtomic(parent *Atomic, cfg Config) (*Atomic, error) {
	a := &Atomic{parent: parent, marks: makeMarks(cfg.OnMark), watched: cfg.OnMark != nil, tree: new(sync.Mutex)}
	if parent != nil {
		a.tree, a.watched = parent.tree, a.watched || parent.watched
	}
	a.tree.Lock()
	defer a.tree.Unlock()
	if parent != nil && base(parent.used.Load()) != 0 {
		return nil, errParentShut
	}
	if err := cfg.Limits.check(parent.limitsLocked()); err != nil {
		return nil, err
	}
	a.bound.store(cfg.Limits)
	if parent != nil {
		parent.kids++
	}
	return a, nil
}

// Child is NewAtomic with a as the parent.
func (a *Atomic) Child(cfg Config) (Account, error) {
	c, err := NewAtomic(a, cfg)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// TryCharge is TryChargeAt: there are no lanes.
func (a *Atomic) TryCharge(n int64) bool { return a.TryChargeAt(0, n) }

// TryChargeAt implements Account.
func (a *Atomic) TryChargeAt(_ int, n int64) bool {
	checkAmount(n)
	if !a.reserve(n) {
		return false
	}
	if a.watched {
		a.rose()
	}
	return true
}

// reserve adds n to the ancestors and then to this account, unless one of them
// is shut or would pass its Cap. From the top down, so that at every instant an
// account counts at least what its children count (M2). The first look keeps a
// child that is full from disturbing everybody through the host.
func (a *Atomic) reserve(n int64) bool {
	if a.parent != nil && (!a.room(a.used.Load(), n) || !a.parent.reserve(n)) {
		return false
	}
	for {
		word := a.used.Load()
		if !a.room(word, n) {
			yield.Point("memacct.atomic.undo")
			for l := a.parent; l != nil; l = l.parent {
				l.used.Add(-n)
			}
			return false
		}
		if a.used.CompareAndSwap(word, word+n) {
			// CROSSED memacct.cap: SetLimits stores the cap and then returns. If
			// we used the one before, we undo: who charges after SetLimits
			// returned must find the new one kept.
			if word+n > a.bound.cap.Load() {
				for l := a; l != nil; l = l.parent {
					l.used.Add(-n)
				}
				return false
			}
			return true
		}
	}
}

func (a *Atomic) room(word, n int64) bool { return word >= 0 && word <= a.bound.cap.Load()-n }

// Charge is ChargeAt: there are no lanes.
func (a *Atomic) Charge(n int64) { a.ChargeAt(0, n) }

// ChargeAt implements Account.
func (a *Atomic) ChargeAt(_ int, n int64) {
	checkAmount(n)
	for l := a.parent; l != nil; l = l.parent {
		l.used.Add(n)
	}
	if base(a.used.Add(n)) == closed {
		for l := a; l != nil; l = l.parent {
			l.used.Add(-n)
		}
		panic(fmt.Sprintf("memacct: charge of %d bytes on a closed account", n))
	}
	if a.watched {
		a.rose()
	}
}

// Uncharge is UnchargeAt: there are no lanes.
func (a *Atomic) Uncharge(n int64) { a.UnchargeAt(0, n) }

// UnchargeAt implements Account. It panics when the account did not hold n; its
// ancestors are then left as they were.
func (a *Atomic) UnchargeAt(_ int, n int64) {
	checkAmount(n)
	word := a.used.Add(-n)
	if in := held(word); in < 0 {
		a.used.Add(n)
		if base(word) == closed {
			return
		}
		panic((&OverReleaseError{Released: n, Charged: in + n}).Error())
	}
	for l := a.parent; l != nil; l = l.parent {
		l.used.Add(-n)
	}
	if a.watched {
		a.fell()
	}
}

// Used implements Account: it is exact but for charges in progress.
func (a *Atomic) Used() int64 { return held(a.used.Load()) }

// Exact is Used.
func (a *Atomic) Exact() (int64, error) { return a.Used(), nil }

// AboveHigh implements Account.
func (a *Atomic) AboveHigh() bool { return a.Used() > a.bound.high.Load() }

// AboveLow implements Account.
func (a *Atomic) AboveLow() bool { return a.Used() > a.bound.low.Load() }

// Limits implements Account.
func (a *Atomic) Limits() Limits {
	a.tree.Lock()
	defer a.tree.Unlock()
	return a.limitsLocked()
}

// limitsLocked returns the limits in force; a nil account has none.
func (a *Atomic) limitsLocked() Limits {
	l := noLimits
	for up := a; up != nil; up = up.parent {
		l = l.within(up.bound.load())
	}
	return l
}

// SetLimits implements Account.
func (a *Atomic) SetLimits(l Limits) error {
	a.tree.Lock()
	defer a.tree.Unlock()
	if err := l.check(a.parent.limitsLocked()); err != nil {
		return err
	}
	a.bound.store(l) // CROSSED memacct.cap
	return nil
}

// Shut implements Account.
func (a *Atomic) Shut() { lower(&a.used, shut) }

// Close implements Account.
func (a *Atomic) Close() error {
	a.tree.Lock()
	defer a.tree.Unlock()
	if a.kids != 0 {
		return errHasChildren
	}
	word, ok := lower(&a.used, closed)
	if !ok {
		return nil
	}
	if a.parent != nil {
		a.parent.kids--
	}
	// One swap empties the word, so of this and an Uncharge that runs now each
	// byte is given back by exactly one.
	left := held(word)
	for l := a.parent; l != nil; l = l.parent {
		l.used.Add(-left)
	}
	if left != 0 {
		return &LeftoverError{left}
	}
	return nil
}

// lower moves a used word to a lower state, shut or closed, and returns the word
// it replaced; ok is false when the state was that low already. Closing leaves 0
// in use.
func lower(used *atomic.Int64, state int64) (word int64, ok bool) {
	for {
		word = used.Load()
		if base(word) <= state {
			return word, false
		}
		next := int64(closed)
		if state == shut {
			next = shut + held(word)
		}
		if used.CompareAndSwap(word, next) {
			return word, true
		}
	}
}

func (a *Atomic) rose() {
	for l := a; l != nil; l = l.parent {
		if l.marks != nil {
			l.marks.rose(l.Used(), l.bound.high.Load())
		}
	}
}

func (a *Atomic) fell() {
	for l := a; l != nil; l = l.parent {
		if l.marks != nil {
			l.marks.fell(l.Used(), l.bound.low.Load())
		}
	}
}
