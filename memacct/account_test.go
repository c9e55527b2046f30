package memacct

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// The catalogue of public bugs in memory accounting, and where it is answered:
//
//	PC-15 limited_add overshoots     percpu.TestLimitedAddOvershootsInLinuxNotHere
//	PC-16 int overflow               TestAmountsBeyondInt32
//	PC-17 negative totals            TestStockFlowsAcrossLanesWithoutDrift
//	PC-18 child and parent drift     the same, M2
//	PC-19 re-entry counted twice     TestMarkMayUseTheAccount
//	PC-20 leftover dumped at close   TestCloseReportsAndReturnsLeftoverOnce
//	PC-21 idle lanes drift           TestIdleLanesAreBoundedAndDrain
//	PC-22 counter stuck high         M4, TestStockAloneAnswersLikeALedger, stress
//	PC-23 over-release               TestStockOverReleaseIsFoundAndContained
//	PC-24 the check itself crashed   the same: Stock reports, it does not panic
//	PC-25 leftover bytes             TestCloseReportsAndReturnsLeftoverOnce
//	PC-26 races on limits            stress.TestStressMemacctAdministration
//	PC-27 lost by a renamed label    accounts have no labels: a child is a pointer
//	PC-28 trackers never detached    TestAccountsComeAndGoWithoutTrace
//	PC-29 reparenting counts twice   there is no reparenting: no caller needs it
//	PC-30 spent under another name   credit belongs to one account; shelves are not reused
//	PC-31 double close               TestCloseReportsAndReturnsLeftoverOnce
//	PC-32 retries consume            TestRefusalChangesNothing
//	PC-33 underflow set to 0         OverReleaseError keeps both numbers
//	PC-34 drain against close        TestAccountsComeAndGoWithoutTrace, stress

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// designs makes a root account of each design. Behaviour that the interface
// promises is tested on all.
var designs = []struct {
	name string
	make func(Config) (Account, error)
}{
	{"atomic", func(c Config) (Account, error) { return NewAtomic(nil, c) }},
	{"stock", func(c Config) (Account, error) { return NewStock(nil, c) }},
	// With a batch of 1 it is exact, and must behave as the others do.
	{"batched", func(c Config) (Account, error) { c.Batch = 1; return NewBatched(nil, c) }},
}

// forEachDesign runs fn once per design; the accounts it makes must balance.
func forEachDesign(t *testing.T, fn func(t *testing.T, root func(Config) Account)) {
	for _, d := range designs {
		t.Run("design="+d.name, func(t *testing.T) {
			fn(t, func(cfg Config) Account {
				a, err := d.make(cfg)
				require.NoError(t, err)
				return a
			})
		})
	}
}

func child(t *testing.T, of Account, cfg Config) Account {
	t.Helper()
	if _, batched := of.(*Batched); batched {
		cfg.Batch = 1
	}
	a, err := of.Child(cfg)
	require.NoError(t, err)
	return a
}

func exact(t *testing.T, a Account) int64 {
	t.Helper()
	n, err := a.Exact()
	require.NoError(t, err)
	return n
}

// capped are limits whose marks play no part.
func capped(n int64) Config { return Config{Limits: Limits{Cap: n, High: n, Low: n}, Lanes: 4} }

func TestChargesCountAtEveryLevel(t *testing.T) {
	forEachDesign(t, func(t *testing.T, root func(Config) Account) {
		host := root(capped(1000))
		a, b := child(t, host, capped(600)), child(t, host, capped(600))
		require.True(t, a.TryChargeAt(0, 500))
		require.False(t, a.TryChargeAt(1, 101), "past its own cap")
		require.True(t, b.TryChargeAt(1, 500))
		require.False(t, b.TryChargeAt(0, 1), "within its own cap, past the host's")
		require.EqualValues(t, 1000, exact(t, host))
		require.EqualValues(t, 500, exact(t, a))
		a.UnchargeAt(3, 500)
		require.True(t, b.TryChargeAt(0, 100))
		b.UnchargeAt(0, 600)
		for _, acct := range []Account{a, b, host} {
			require.Zero(t, exact(t, acct))
			require.NoError(t, acct.Close())
		}
	})
}

// PC-32: a failing charge in a loop must leave every level as it was.
func TestRefusalChangesNothing(t *testing.T) {
	forEachDesign(t, func(t *testing.T, root func(Config) Account) {
		host := root(capped(1000))
		ns := child(t, host, capped(1000))
		peer := child(t, ns, capped(1000))
		require.True(t, peer.TryChargeAt(0, 990))
		for range 1000 {
			require.False(t, peer.TryChargeAt(1, 11))
		}
		for _, a := range []Account{peer, ns, host} {
			require.EqualValues(t, 990, exact(t, a))
		}
		require.True(t, peer.TryChargeAt(1, 10))
	})
}

func TestChargePassesTheCap(t *testing.T) {
	forEachDesign(t, func(t *testing.T, root func(Config) Account) {
		host := root(capped(100))
		ns := child(t, host, capped(100))
		ns.ChargeAt(0, 250)
		require.EqualValues(t, 250, exact(t, ns))
		require.EqualValues(t, 250, exact(t, host))
		require.False(t, ns.TryChargeAt(0, 1))
		ns.UnchargeAt(0, 200)
		require.True(t, ns.TryChargeAt(0, 50))
		ns.UnchargeAt(0, 100)
		require.Zero(t, exact(t, host))
	})
}

// PC-16: releases beyond int32, whole and in pieces.
func TestAmountsBeyondInt32(t *testing.T) {
	forEachDesign(t, func(t *testing.T, root func(Config) Account) {
		a := root(capped(Unlimited))
		const huge = 5 << 30
		require.True(t, a.TryChargeAt(0, huge))
		a.UnchargeAt(1, huge)
		require.True(t, a.TryChargeAt(0, huge))
		for range 5 << 10 {
			a.UnchargeAt(2, 1<<20)
		}
		require.Zero(t, exact(t, a))
		require.Panics(t, func() { a.TryChargeAt(0, -1) })
		require.Panics(t, func() { a.ChargeAt(0, math.MinInt64) })
		require.Panics(t, func() { a.UnchargeAt(0, Unlimited+1) })
	})
}

func TestLimitsStayInOrderAndBelowTheParent(t *testing.T) {
	forEachDesign(t, func(t *testing.T, root func(Config) Account) {
		host := root(Config{Limits: Limits{Cap: 100, High: 80, Low: 60}, Lanes: 2})
		for _, bad := range []Limits{{100, 80, 81}, {79, 80, 60}, {100, 80, -1}, {Unlimited + 1, 0, 0}} {
			var le *LimitsError
			require.ErrorAs(t, host.SetLimits(bad), &le)
			require.Equal(t, bad, le.Asked)
		}
		require.Equal(t, Limits{100, 80, 60}, host.Limits())
		_, err := host.Child(Config{Limits: Limits{Cap: 101, High: 80, Low: 60}})
		require.ErrorContains(t, err, "Cap 101 under High 80, Cap 100")
		_, err = host.Child(Config{Limits: Limits{Cap: 100, High: 81, Low: 60}})
		require.Error(t, err)

		ns := child(t, host, Config{Limits: Limits{Cap: 90, High: 80, Low: 70}})
		require.NoError(t, host.SetLimits(Limits{Cap: 50, High: 40, Low: 1}))
		require.Equal(t, Limits{50, 40, 1}, ns.Limits(), "the parent's, where lower")
		require.NoError(t, host.SetLimits(Limits{Cap: 100, High: 80, Low: 60}))
		require.Equal(t, Limits{90, 80, 60}, ns.Limits())
	})
}

// Nothing may be charged to an account whose new cap is below what it holds, by
// any lane, until enough came back.
func TestLoweredCapHoldsAtOnce(t *testing.T) {
	forEachDesign(t, func(t *testing.T, root func(Config) Account) {
		host := root(capped(1 << 20))
		ns := child(t, host, capped(1<<20))
		for lane := range 4 {
			require.True(t, ns.TryChargeAt(lane, 1000))
			ns.UnchargeAt(lane, 500)
		}
		require.NoError(t, host.SetLimits(capped(1000).Limits))
		for lane := range 4 {
			require.False(t, ns.TryChargeAt(lane, 1), "lane=%d", lane)
		}
		ns.UnchargeAt(0, 1500)
		require.True(t, ns.TryChargeAt(1, 500))
		require.False(t, ns.TryChargeAt(2, 1))
		require.EqualValues(t, 1000, exact(t, host))
	})
}

func TestMarksFireOncePerCrossing(t *testing.T) {
	forEachDesign(t, func(t *testing.T, root func(Config) Account) {
		var log []bool
		// So many lanes that none has a batch: a stock sees every byte at once.
		cfg := Config{Limits: Limits{Cap: 1000, High: 800, Low: 400}, Lanes: 1000}
		cfg.OnMark = func(above bool) { log = append(log, above) }
		host := root(cfg)
		ns := child(t, host, capped(800))
		host.ChargeAt(0, 10)
		ns.ChargeAt(0, 790)
		require.Empty(t, log)
		require.False(t, host.AboveHigh())
		ns.ChargeAt(0, 1)
		require.True(t, host.AboveHigh())
		ns.ChargeAt(0, 50)
		ns.UnchargeAt(0, 100)
		require.Equal(t, []bool{true}, log, "between the marks nothing happens")
		require.True(t, host.AboveLow())
		ns.UnchargeAt(0, 351)
		require.Equal(t, []bool{true, false}, log)
		require.False(t, host.AboveLow())
		require.True(t, ns.TryChargeAt(0, 401))
		require.Equal(t, []bool{true, false, true}, log)
	})
}

// PC-19 (ClickHouse#83607): accounting that re-enters itself counted twice.
func TestMarkMayUseTheAccount(t *testing.T) {
	forEachDesign(t, func(t *testing.T, root func(Config) Account) {
		var a Account
		calls := 0
		cfg := Config{Limits: Limits{Cap: 10_000, High: 100, Low: 50}, Lanes: 1000}
		cfg.OnMark = func(above bool) {
			calls++
			if above {
				require.True(t, a.TryChargeAt(0, 500))
				a.UnchargeAt(0, 500)
				require.NoError(t, a.SetLimits(cfg.Limits))
			}
		}
		a = root(cfg)
		require.True(t, a.TryChargeAt(0, 101))
		require.Equal(t, 1, calls)
		require.EqualValues(t, 101, exact(t, a))
		a.UnchargeAt(0, 101)
		require.Equal(t, 2, calls)
		require.Zero(t, exact(t, a))
	})
}

func TestShutRefusesNewcomersAndTakesBackTheRest(t *testing.T) {
	forEachDesign(t, func(t *testing.T, root func(Config) Account) {
		host := root(capped(1000))
		ns := child(t, host, capped(1000))
		require.True(t, ns.TryChargeAt(0, 300))
		ns.UnchargeAt(0, 100)
		ns.Shut()
		require.False(t, ns.TryChargeAt(0, 1))
		_, err := ns.Child(capped(1))
		require.ErrorIs(t, err, errParentShut)
		require.EqualValues(t, 200, exact(t, ns))
		require.EqualValues(t, 200, exact(t, host))
		ns.UnchargeAt(1, 200)
		require.Zero(t, exact(t, host))
		require.ErrorIs(t, host.Close(), errHasChildren)
		require.NoError(t, ns.Close())
		require.True(t, host.TryChargeAt(0, 1000), "a shut child is no burden to the host")
	})
}

// PC-20, PC-25, PC-31: what is left at Close is reported, and goes back to the
// parent exactly once: not never, not again by a second Close, not again by the
// holder who comes late.
func TestCloseReportsAndReturnsLeftoverOnce(t *testing.T) {
	forEachDesign(t, func(t *testing.T, root func(Config) Account) {
		host := root(capped(1000))
		ns, other := child(t, host, capped(1000)), child(t, host, capped(1000))
		require.True(t, other.TryChargeAt(0, 100))
		require.True(t, ns.TryChargeAt(0, 300))
		ns.UnchargeAt(0, 50)
		var left *LeftoverError
		require.ErrorAs(t, ns.Close(), &left)
		require.EqualValues(t, 250, left.Bytes)
		require.EqualValues(t, 100, exact(t, host))
		require.NoError(t, ns.Close())
		ns.UnchargeAt(0, 250)
		ns.UnchargeAt(63, 250) // a lane never used before
		require.False(t, ns.TryChargeAt(63, 1))
		require.False(t, ns.TryChargeAt(0, 1))
		require.EqualValues(t, 100, exact(t, host))
		require.Zero(t, exact(t, ns))
		require.Panics(t, func() { ns.ChargeAt(0, 1) })
		require.EqualValues(t, 100, exact(t, host))
		require.EqualValues(t, 100, exact(t, other))
	})
}

func TestChargesAllocateNothing(t *testing.T) {
	forEachDesign(t, func(t *testing.T, root func(Config) Account) {
		host := root(capped(1 << 20))
		ns := child(t, host, capped(1<<20))
		ns.ChargeAt(0, 1)
		ns.UnchargeAt(0, 1)
		require.Zero(t, testing.AllocsPerRun(1000, func() {
			ns.TryChargeAt(0, 1500)
			ns.ChargeAt(0, 1500)
			ns.TryChargeAt(0, 2<<20)
			ns.UnchargeAt(0, 3000)
			_ = ns.Used()
		}))
	})
}
