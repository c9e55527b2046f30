package lru

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// flood simulates the dispute of seed 002 (2013): arrivals, each a new object,
// land on lanes, a share of them (skew) all on lane 0, while slow flows, placed
// like the arrivals, are touched once in gap arrivals. A touch of a flow that
// was evicted is a loss; the flow then starts again.
type flood struct {
	lanes, limit int
	slow         int
	gap          int     // arrivals between two touches of a slow flow
	skew         float64 // share of arrivals that lane 0 gets beyond its turn
	coarse       int64   // arrivals per tick
}

// rule evicts after an insert on a lane until the limit holds again.
type rule func(p *PerCPU[item], lane int)

// run returns the share of touches that came too late, and the share of flows
// that are at home on lane 0.
func (f flood) run(t *testing.T, seed uint64, evict rule) (lost, onZero float64) {
	const warm, rounds = 3, 7
	var (
		p       = newPerCPU(t, Config{Lanes: f.lanes})
		rnd     = rand.New(rand.NewPCG(seed, 2013))
		free    []*item // at rest, ready for another life
		touches int
		late    int
		place   = func() int {
			if rnd.Float64() < f.skew {
				return 0
			}
			return rnd.IntN(f.lanes)
		}
		flows = newItems(f.slow)
		home  = make([]int, f.slow)
	)
	for i := range home {
		home[i] = place()
		if home[i] == 0 {
			onZero += 1 / float64(f.slow)
		}
	}
	insert := func(lane int, it *item, tick int64) {
		p.Insert(lane, &it.node, tick)
		evict(p, lane)
	}
	step := max(f.gap/f.slow, 1)
	for now := range max(f.gap*rounds, 3*f.limit) {
		tick := int64(now) / f.coarse
		if now%step == 0 {
			i := now / step % f.slow
			counted := now > max(f.gap*warm, 2*f.limit)
			if counted {
				touches++
			}
			if p.Touch(&flows[i].node, tick); !flows[i].node.Linked() {
				if counted {
					late++
				}
				insert(home[i], flows[i], tick)
			}
			continue // this arrival was the flow's
		}
		var it *item
		if n := len(free); n > 0 && !free[n-1].node.Linked() {
			it, free = free[n-1], free[:n-1]
		} else {
			it = newItems(1)[0]
		}
		insert(place(), it, tick)
	}
	require.Positive(t, touches)
	return float64(late) / float64(touches), onZero
}

// ownList is the 2013 patch: each lane has its share of the limit, and evicts
// its own oldest when it is past that.
func (f flood) ownList(p *PerCPU[item], lane int) {
	for p.LaneLen(lane) > f.limit/f.lanes {
		p.PopOwn(lane)
	}
}

// oldestTail is one limit for all, and the oldest of all lanes goes.
func (f flood) oldestTail(p *PerCPU[item], _ int) {
	for p.Len() > f.limit {
		p.PopOldest()
	}
}

// The answer to seed 002: per-CPU limits lose the slow flows of a busy CPU, as
// Dumazet objected; per-CPU lists under one limit lose none, at any skew. The
// study's figures are of one placement of 100 flows, which moves the share on
// the busy lane by 5 points in one standard deviation; so the mean of four
// must be within 8, and in each run the flows of the busy lane are the loss.
func TestSkewedFloodSlowFlows(t *testing.T) {
	const seeds = 4
	for _, c := range []struct {
		skew, gap float64 // gap in shares of the limit
		study     float64 // what lane limits lost there
	}{
		{0.0, 0.93, 0.054},
		{0.5, 0.49, 0.529},
		{0.9, 0.24, 0.851},
	} {
		f := flood{lanes: 8, limit: 4096, slow: 100, skew: c.skew}
		f.gap = int(c.gap * float64(f.limit))
		t.Run(fmt.Sprintf("skew=%v", c.skew), func(t *testing.T) {
			var mean float64
			for seed := range uint64(seeds) {
				f.coarse = 1
				own, onZero := f.run(t, seed, f.ownList)
				mean += own / seeds
				if c.skew > 0 {
					require.InDelta(t, onZero, own, 0.01, "exactly the flows of the busy lane")
				}
				for _, f.coarse = range []int64{1, 64} {
					lost, _ := f.run(t, seed, f.oldestTail)
					require.Zero(t, lost, "rule=oldest-tail seed=%d arrivals per tick=%d", seed, f.coarse)
				}
			}
			t.Logf("rule=own-list lost=%.1f%% (study: %.1f%%); rule=oldest-tail lost=0", 100*mean, 100*c.study)
			require.InDelta(t, c.study, mean, 0.08)
		})
	}
}

// Brouer's requirement (seed 002): a 512 kbit/s sender, one fragment in 23.43
// ms, beside a flood of a million a second. With memory for that gap and a tick
// of 1 ms it survives, whichever lanes the flood takes.
func TestSlowLinkBesideMillionPerSecond(t *testing.T) {
	for _, skew := range []float64{0, 0.9, 1} {
		f := flood{lanes: 4, limit: 25_000, slow: 20, gap: 23_430, skew: skew, coarse: 1000}
		lost, _ := f.run(t, 1, f.oldestTail)
		require.Zero(t, lost, "skew=%v", skew)
	}
}
