package memacct

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// Account is what the three designs have in common. All methods may be called at
// any time by anyone, with any lane (see package percpu); none allocates except
// Child, SetLimits when it fails, and the first use of a lane.
//
// n is in bytes, 0 <= n <= Unlimited; a negative n panics.
type Account interface {
	// TryChargeAt charges n to the account and its ancestors, unless that would
	// take one of them past its Cap; then it changes nothing and returns false.
	TryChargeAt(lane int, n int64) bool
	// ChargeAt charges n past every limit, for what is already allocated. It
	// panics on an account that was closed.
	ChargeAt(lane int, n int64)
	// UnchargeAt gives n back, on any lane. Giving back more than was charged is
	// a programmer's mistake: Atomic panics, the others find it in Exact.
	// On a closed account it does nothing: Close gave everything back.
	UnchargeAt(lane int, n int64)

	// Used returns the bytes in use. It costs one load; how far it may be from
	// the truth, and in which direction, is the design's chief property.
	Used() int64
	// Exact returns the bytes in use as they are, for monitors and tests: it may
	// touch every lane of every account below. The error is an
	// *OverReleaseError.
	Exact() (int64, error)
	// AboveHigh and AboveLow compare Used with the marks of this account alone.
	AboveHigh() bool
	AboveLow() bool

	// Limits returns the limits in force: what was set, or an ancestor's where
	// that is lower, so a child's limit never exceeds its parent's (mail 001,
	// patch 9).
	Limits() Limits
	// SetLimits changes the limits, under load. It may lower Cap below what is
	// in use: nothing is charged then until enough has been given back. It
	// refuses, with a *LimitsError, limits out of order or above the parent's.
	SetLimits(Limits) error

	// Child makes an account of the same design whose charges count here too:
	// a host and its namespaces, a namespace and its peers.
	Child(Config) (Account, error)
	// Shut refuses all that is new: TryChargeAt returns false from now on. What
	// is in use stays charged, here and above, until it is given back.
	Shut()
	// Close is Shut, and gives back to the ancestors at once whatever is still in
	// use, exactly once; the error, a *LeftoverError, says how much it was.
	// It refuses while children are open. Closing again does nothing.
	Close() error
}

// Unlimited is the largest Cap, mark and amount: an exbibyte.
const Unlimited = 1 << 60

// Limits are in bytes: 0 <= Low <= High <= Cap <= Unlimited. The zero value
// refuses every charge above 0.
type Limits struct {
	Cap  int64 // TryChargeAt never takes the account past it
	High int64 // reclaim when Used is above
	Low  int64 // reclaim until Used is not above
}

// Config describes an account.
type Config struct {
	Limits Limits
	// Batch is how much a lane may gather by itself. The designs say what they
	// make of it; 0 is their default, and Atomic has no use for it.
	Batch int64
	// Lanes is how many lanes the caller will use; 0 means GOMAXPROCS. A tree of
	// accounts uses its root's. More may be used: only Slack grows.
	Lanes int
	// OnMark, if set, is told when Used rises above High (true) and when it has
	// fallen to Low again (false), once for each: between the marks nothing
	// happens. It runs on the goroutine whose charge crossed the mark, after the
	// charge is complete, under no lock; it may use the account. Two crossings in
	// short order may run it twice at once.
	OnMark func(above bool)
}

// LimitsError says why limits were refused.
type LimitsError struct {
	Asked  Limits
	Parent Limits // the parent's, or {Unlimited, Unlimited, Unlimited}
}

func (e *LimitsError) Error() string {
	return fmt.Sprintf("memacct: limits need 0 <= Low <= High <= Cap and Cap, High within the parent's: got Low %d, High %d, Cap %d under High %d, Cap %d",
		e.Asked.Low, e.Asked.High, e.Asked.Cap, e.Parent.High, e.Parent.Cap)
}

// LeftoverError is Close's report of what was still charged.
type LeftoverError struct{ Bytes int64 }

func (e *LeftoverError) Error() string {
	return fmt.Sprintf("memacct: %d bytes still charged at Close", e.Bytes)
}

// OverReleaseError says that more was given back than had been charged.
type OverReleaseError struct {
	Released int64 // what came back when the account could no longer cover it
	Charged  int64 // what was charged then
}

func (e *OverReleaseError) Error() string {
	return fmt.Sprintf("memacct: released %d bytes of %d charged", e.Released, e.Charged)
}

var (
	errParentShut  = errors.New("memacct: child of an account that is shut")
	errHasChildren = errors.New("memacct: Close of an account with open children")
)

// checkAmount panics unless n is an amount.
func checkAmount(n int64) {
	if uint64(n) > Unlimited {
		badAmount(n)
	}
}

func badAmount(n int64) { panic(fmt.Sprintf("memacct: amount of %d bytes", n)) }

func (l Limits) check(parent Limits) error {
	if 0 <= l.Low && l.Low <= l.High && l.High <= l.Cap && l.Cap <= parent.Cap && l.High <= parent.High {
		return nil
	}
	return &LimitsError{Asked: l, Parent: parent}
}

// within returns l with each part lowered to parent's.
func (l Limits) within(parent Limits) Limits {
	return Limits{Cap: min(l.Cap, parent.Cap), High: min(l.High, parent.High), Low: min(l.Low, parent.Low)}
}

var noLimits = Limits{Cap: Unlimited, High: Unlimited, Low: Unlimited}

// A used word counts the bytes in use and says in the same word whether the
// account takes more, so that a charge and a Close can never both win:
//
//	word                    state    TryCharge   Charge   Uncharge
//	n                       open     yes         yes      yes
//	shut + n                shut     no          yes      yes
//	closed + n              closed   no          panics   ignored
//
// with |n| < half. States only go down the table.
const (
	half   = 1 << 60
	shut   = -1 << 62
	closed = shut - 1<<61
)

// base returns the state of a used word; word - base(word) is what is in use.
func base(word int64) int64 {
	switch {
	case word > -half:
		return 0
	case word > shut-half:
		return shut
	default:
		return closed
	}
}

func held(word int64) int64 { return word - base(word) }

// bounds are the limits of one account as the hot paths read them. They are
// written under the lock of the tree; each is read alone by anyone.
type bounds struct {
	cap, high, low atomic.Int64
}

func (b *bounds) store(l Limits) {
	b.cap.Store(l.Cap)
	b.high.Store(l.High)
	b.low.Store(l.Low)
}

func (b *bounds) load() Limits {
	return Limits{Cap: b.cap.Load(), High: b.high.Load(), Low: b.low.Load()}
}
