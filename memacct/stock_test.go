package memacct

import (
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"

	"corelane/internal/invariant"
	"corelane/internal/yield"

	"github.com/stretchr/testify/require"
)

func newStock(t testing.TB, parent *Stock, cfg Config) *Stock {
	t.Helper()
	s, err := NewStock(parent, cfg)
	require.NoError(t, err)
	return s
}

// ledger is a tree of accounts without lanes, for one goroutine.
type ledger struct {
	used   int64
	cap    int64
	parent *ledger
}

func (l *ledger) tryCharge(n int64) bool {
	for up := l; up != nil; up = up.parent {
		if up.used+n > up.cap {
			return false
		}
	}
	for up := l; up != nil; up = up.parent {
		up.used += n
	}
	return true
}

func (l *ledger) uncharge(n int64) {
	for up := l; up != nil; up = up.parent {
		up.used -= n
	}
}

// With no other call running a stock answers exactly as the ledger does, however
// the credit lies: refusals below the cap, overshoot and drift are 0. Ops, sizes,
// lanes and limits are random; the caps are small, so that every state occurs.
func TestStockAloneAnswersLikeALedger(t *testing.T) {
	for seed := range uint64(12) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		cfg := capped(1 << (14 + seed%6))
		cfg.Lanes, cfg.Batch = 1+int(seed%5), int64(1+rnd.IntN(8000))
		host, hostL := newStock(t, nil, cfg), &ledger{cap: cfg.Limits.Cap}
		var accts []*Stock
		var ledgers []*ledger
		var held [][]int64
		for i := range 6 {
			parent, parentL := host, hostL
			if i >= 3 {
				parent, parentL = accts[i-3], ledgers[i-3]
			}
			limit := parentL.cap * int64(3+rnd.IntN(6)) / 8
			accts = append(accts, newStock(t, parent, capped(limit)))
			ledgers = append(ledgers, &ledger{cap: limit, parent: parentL})
			held = append(held, nil)
		}
		refused := 0
		for op := range 10_000 {
			i, lane := rnd.IntN(len(accts)), rnd.IntN(8)
			a, l := accts[i], ledgers[i]
			switch k := rnd.IntN(100); {
			case k < 55:
				n := int64(rnd.IntN(3000))
				want := l.tryCharge(n)
				got := false
				if k%2 == 0 {
					got = a.TryChargeAt(lane, n)
				} else {
					got = a.TryCharge(n)
				}
				require.Equal(t, want, got, "seed=%d op=%d: charge of %d", seed, op, n)
				if got {
					held[i] = append(held[i], n)
				} else {
					refused++
				}
			case k < 97 && len(held[i]) > 0:
				at := rnd.IntN(len(held[i]))
				n := held[i][at]
				held[i][at] = held[i][len(held[i])-1]
				held[i] = held[i][:len(held[i])-1]
				l.uncharge(n)
				if k%2 == 0 {
					a.UnchargeAt(lane, n)
				} else {
					a.Uncharge(n)
				}
			case k == 97:
				require.Equal(t, l.used, exact(t, a))
			case k == 98:
				l.cap = l.parent.cap * int64(2+rnd.IntN(7)) / 8
				require.NoError(t, a.SetLimits(capped(l.cap).Limits))
			}
			require.GreaterOrEqual(t, a.Used(), l.used, "M3")
			require.LessOrEqual(t, a.Used()-l.used, a.Slack(), "M3")
			require.LessOrEqual(t, host.Used(), hostL.cap, "M1")
		}
		require.Positive(t, refused)
		for i := len(accts) - 1; i >= 0; i-- {
			for _, n := range held[i] {
				accts[i].Uncharge(n)
			}
			require.NoError(t, accts[i].Close())
		}
		require.Zero(t, exact(t, host))
		require.Zero(t, host.Idle())
	}
}

// PC-17, PC-18: charged on one lane, released on another, under a hierarchy.
func TestStockFlowsAcrossLanesWithoutDrift(t *testing.T) {
	host := newStock(t, nil, Config{Limits: Limits{Cap: 16 << 20, High: 16 << 20, Low: 0}, Lanes: 8})
	ns := newStock(t, host, capped(16<<20))
	for i := range 50_000 {
		require.True(t, ns.TryChargeAt(i%7, 1500))
		ns.UnchargeAt((i+3)%7, 1500)
		require.GreaterOrEqual(t, ns.Used(), int64(0))
	}
	require.LessOrEqual(t, ns.Idle(), ns.Slack())
	require.Zero(t, exact(t, ns))
	require.Zero(t, exact(t, host))
	require.Zero(t, ns.Idle())
}

// PC-21: many lanes that have gone quiet: their credit is bounded, and comes back.
func TestIdleLanesAreBoundedAndDrain(t *testing.T) {
	const lanes = 1000
	s := newStock(t, nil, Config{Limits: Limits{Cap: 1 << 30, High: 1 << 30, Low: 0}, Lanes: lanes})
	for lane := range lanes {
		require.True(t, s.TryChargeAt(lane, 1500))
		s.UnchargeAt(lane, 1500)
	}
	require.LessOrEqual(t, s.Used(), int64(1<<30/8))
	require.Equal(t, s.Used(), s.Idle())
	require.NoError(t, s.Drain())
	require.Zero(t, s.Used())
}

// PC-23: more is released than was charged; the siblings' share of the parent is
// not touched, and both numbers are reported.
func TestStockOverReleaseIsFoundAndContained(t *testing.T) {
	host := newStock(t, nil, capped(1<<20))
	a, b := newStock(t, host, capped(1<<20)), newStock(t, host, capped(1<<20))
	require.True(t, b.TryChargeAt(0, 5000))
	require.True(t, a.TryChargeAt(0, 1096))
	if invariant.Enabled {
		require.PanicsWithValue(t, "memacct: released 1125 bytes of 1096 charged", func() { a.UnchargeAt(0, 1125) })
		return
	}
	a.UnchargeAt(0, 1125)
	_, err := a.Exact()
	var over *OverReleaseError
	require.ErrorAs(t, err, &over)
	require.EqualValues(t, 29, over.Released-over.Charged)
	require.EqualValues(t, 5000, host.Used()-host.Idle())
	_, err = host.Exact()
	require.ErrorAs(t, err, &over, "reported from above, too")
	require.ErrorAs(t, a.Close(), &over)
	require.EqualValues(t, 5000, exact(t, host))
	require.EqualValues(t, 5000, exact(t, b))
}

// PC-28, PC-34: trees must not grow with accounts that came and went, while
// refusals sweep them.
func TestAccountsComeAndGoWithoutTrace(t *testing.T) {
	host := newStock(t, nil, capped(1<<20))
	live := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var before uint64
	for i := range 50_000 {
		ns := newStock(t, host, capped(1<<20))
		require.True(t, ns.TryChargeAt(i%4, 1000))
		require.False(t, ns.TryChargeAt(i%4, 1<<20))
		ns.UnchargeAt(0, 1000)
		require.NoError(t, ns.Close())
		if i == 1000 {
			before = live()
		}
	}
	require.Less(t, live(), before+1<<20)
	require.LessOrEqual(t, len(*host.shelf.tree.shelves.Load()), 2)
	require.Zero(t, exact(t, host))
}

// A namespace at its own cap must not slow the others down: they stay calm. A host
// at its cap strains all.
func TestStrainReachesExactlyTheAccountsBelow(t *testing.T) {
	host := newStock(t, nil, capped(1<<20))
	a, b := newStock(t, host, capped(100_000)), newStock(t, host, capped(1<<20))
	peer := newStock(t, a, capped(100_000))
	isCalm := func(s *Stock) bool { return s.strain.Load()&calmMask == 0 }
	require.True(t, a.TryChargeAt(0, 100_000))
	require.False(t, a.TryChargeAt(0, 1))
	require.False(t, isCalm(a))
	require.False(t, isCalm(peer))
	require.True(t, isCalm(b))
	require.True(t, isCalm(host))
	late := newStock(t, a, capped(1))
	require.False(t, isCalm(late), "a newcomer inherits the strain")
	a.UnchargeAt(0, 20_000)
	for _, s := range []*Stock{a, peer, late, b, host} {
		require.True(t, isCalm(s))
	}
	a.UnchargeAt(0, 80_000)
	require.True(t, b.TryChargeAt(0, 1<<20))
	require.False(t, a.TryChargeAt(0, 1))
	for _, s := range []*Stock{a, peer, late, b, host} {
		require.False(t, isCalm(s))
	}
	b.UnchargeAt(0, 1<<20)
	for _, s := range []*Stock{a, peer, late, b, host} {
		require.True(t, isCalm(s))
	}
}

// park runs call on a goroutine of its own until it reaches the window, and
// returns what resumes it and waits for its end.
func park(t *testing.T, window string, call func()) (resume func()) {
	t.Helper()
	if !yield.Enabled {
		t.Skip("needs -tags invariants to park a call in a window")
	}
	var once atomic.Bool
	reached, gate, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	restore := yield.On(window, func() {
		if once.CompareAndSwap(false, true) {
			close(reached)
			<-gate
		}
	})
	go func() { defer close(done); call() }()
	<-reached
	return func() { close(gate); <-done; restore() }
}

// A release that has put its credit down, and not looked yet, while a refusal
// strains the account and sweeps: the credit is either found by the sweep or taken
// out again. Afterwards nothing is stranded.
func TestParkedReleaseStrandsNothing(t *testing.T) {
	for _, window := range []string{"memacct.stock.put", "memacct.stock.trim"} {
		t.Run("window="+window, func(t *testing.T) {
			cfg := capped(1 << 20)
			if window == "memacct.stock.trim" {
				cfg.Batch = 1
			}
			s := newStock(t, nil, cfg)
			require.True(t, s.TryChargeAt(0, 1<<20))
			resume := park(t, window, func() { s.UnchargeAt(1, 5000) })
			granted := s.TryChargeAt(0, 5000)
			require.False(t, s.TryChargeAt(2, 5001))
			resume()
			if !granted {
				require.True(t, s.TryChargeAt(0, 5000), "at rest there is room")
			}
			require.False(t, s.TryChargeAt(3, 1))
			require.Zero(t, s.Idle())
			require.EqualValues(t, 1<<20, exact(t, s))
		})
	}
}

// A charge that has counted a batch for its lane, and not put it down yet: others
// may be refused meanwhile (M7 allows for what is in hands), never let in too far,
// and find the credit afterwards.
func TestParkedRefillOvershootsNothing(t *testing.T) {
	s := newStock(t, nil, Config{Limits: capped(1 << 20).Limits, Lanes: 1})
	resume := park(t, "memacct.stock.reserved", func() { s.TryChargeAt(0, 1000) })
	rest := int64(0)
	for _, n := range []int64{1 << 19, 1 << 18, 1 << 17, 1 << 16, 1 << 15, 1 << 14, 1 << 13, 1 << 10, 1 << 5, 1} {
		for s.TryChargeAt(1, n) {
			rest += n
		}
	}
	require.LessOrEqual(t, s.Used(), int64(1<<20))
	require.Less(t, rest, int64(1<<20-1000), "the credit in hand was nobody's to give")
	resume()
	require.True(t, s.TryChargeAt(2, 1<<20-1000-rest))
	require.False(t, s.TryChargeAt(3, 1))
	require.EqualValues(t, 1<<20, exact(t, s))
}

// A charge refused by its own account, having already charged the parent, is
// parked before it undoes that: the parent must never count less than it holds.
func TestParkedUndoKeepsContainment(t *testing.T) {
	host := newStock(t, nil, Config{Limits: capped(1 << 20).Limits, Lanes: 1000})
	ns := newStock(t, host, capped(10_000))
	var inner atomic.Bool
	restore := func() {}
	if yield.Enabled {
		// Between the first look and the charge of the parent, somebody else fills ns.
		restore = yield.On("memacct.stock.looked", func() {
			if inner.CompareAndSwap(false, true) {
				ns.TryChargeAt(1, 10_000)
			}
		})
	}
	defer restore()
	resume := park(t, "memacct.stock.undo", func() { require.False(t, ns.TryChargeAt(0, 500)) })
	require.GreaterOrEqual(t, host.Used(), ns.Used())
	require.EqualValues(t, 10_500, host.Used()-host.Idle())
	resume()
	require.EqualValues(t, 10_000, host.Used()-host.Idle())
	require.EqualValues(t, 10_000, exact(t, ns))
}
