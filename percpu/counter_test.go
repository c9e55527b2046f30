package percpu

import (
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCounterZeroValueCounts(t *testing.T) {
	var c Counter
	require.Zero(t, c.Value())
	c.Inc()
	c.Add(41)
	c.AddAt(7, -2)
	require.EqualValues(t, 40, c.Value())
	require.Nil(t, c.cells.Load(), "nobody competed, so nothing may have been sharded")
}

// The switch from one word to many must not lose what the word holds: it stays,
// and is read for ever (research, hard part 7: the kernel's version was said to
// lose it).
func TestCounterShardsOnContentionWithoutLoss(t *testing.T) {
	var c Counter
	c.Add(1000)
	shard(t, &c)
	require.EqualValues(t, 1000, c.Value())
	for lane := range 100 {
		c.AddAt(lane, 1)
	}
	c.Add(1)
	require.EqualValues(t, 1101, c.Value())
	require.EqualValues(t, 1000, c.base.Load())
}

func TestCounterStaysOneWordOnOneP(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var c Counter
	for range 10 * metLimit {
		c.crowded()
	}
	require.Nil(t, c.cells.Load())
}

// shard makes c behave as after contention.
func shard(t testing.TB, c *Counter) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	for range metLimit {
		c.crowded()
	}
	require.NotNil(t, c.cells.Load())
}

// PC-1, PC-6, PC-7: cells sized for the GOMAXPROCS of the moment of construction
// made later ids index out of range, in both directions.
func TestCounterSurvivesGOMAXPROCS(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	var before, after Counter
	runtime.GOMAXPROCS(16)
	shard(t, &before)
	add := func(c *Counter) {
		var wg sync.WaitGroup
		for range 32 {
			wg.Go(func() {
				for range 1000 {
					c.Inc()
				}
			})
		}
		wg.Wait()
	}
	add(&before)
	runtime.GOMAXPROCS(2)
	shard(t, &after)
	add(&before)
	add(&after)
	runtime.GOMAXPROCS(64)
	add(&before)
	add(&after)
	require.EqualValues(t, 96_000, before.Value())
	require.EqualValues(t, 64_000, after.Value())
}

// PC-2: a pooled token that remembered a cell of counter A sent adds on B to A.
func TestCountersAreIndependent(t *testing.T) {
	var a, b Counter
	shard(t, &a)
	shard(t, &b)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				a.Add(1)
				b.Add(-3)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 8_000, a.Value())
	require.EqualValues(t, -24_000, b.Value())
}

// PC-12: a sum that follows the number of live CPUs dips when one leaves.
func TestCounterValueNeverDipsWhilePsLeave(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	var c Counter
	shard(t, &c)
	for lane := range 64 {
		c.AddAt(lane, 100)
	}
	for procs := 64; procs >= 1; procs /= 2 {
		runtime.GOMAXPROCS(procs)
		require.EqualValues(t, 6400, c.Value(), "procs=%d", procs)
	}
}

func TestAnyIntIsALane(t *testing.T) {
	var c Counter
	shard(t, &c)
	g := NewGroup(3)
	b := NewBatched(10)
	for _, lane := range []int{-1, 0, 1, 1023, 1024, 1 << 20, -1 << 31} {
		c.AddAt(lane, 1)
		g.AddAt(lane, 2, 1)
		b.AddAt(lane, 1)
	}
	require.EqualValues(t, 7, c.Value())
	require.EqualValues(t, 7, g.Load(2))
	require.EqualValues(t, 7, b.Exact())
}
