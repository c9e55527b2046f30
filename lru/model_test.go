package lru

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func newPerCPU(t require.TestingT, cfg Config) *PerCPU[item] {
	p, err := NewPerCPU[item](cfg)
	require.NoError(t, err)
	return p
}

// plan is one family of random histories.
type plan struct {
	lanes int
	scan  int
	back  int64        // ticks may lag behind the newest by so much
	jump  func() int64 // how far time moves between operations
}

// drive runs one history on a PerCPU and on the reference and demands L2: what
// is popped is as old as the oldest, to back ticks.
func drive(t *testing.T, rnd *rand.Rand, pl plan, ops int) (s Stats) {
	var (
		p   = newPerCPU(t, Config{Lanes: pl.lanes, Scan: pl.scan})
		ref reference
		it  = newItems(1 + rnd.IntN(60))
		now = rnd.Int64N(1 << 40)
	)
	if rnd.IntN(4) == 0 {
		now = -now // ticks may be negative
	}
	judge := func(r Ref[item]) {
		want, _ := ref.oldestTick()
		require.Equal(t, ref.used[ref.find(r.Owner.id)].tick, r.Tick, "the claim carries the last touch")
		require.LessOrEqual(t, r.Tick-want, pl.back, "age error in ticks")
	}
	for step := range ops {
		now += pl.jump()
		tick := now
		if pl.back > 0 {
			tick -= rnd.Int64N(pl.back + 1)
		}
		i := rnd.IntN(len(it))
		switch op := rnd.IntN(20); {
		case op < 6:
			if ref.find(i) < 0 {
				ref.insert(i, tick)
				p.Insert(rnd.IntN(pl.lanes), &it[i].node, tick)
			}
		case op < 14:
			ref.touch(i, tick)
			p.Touch(&it[i].node, tick)
		case op < 15:
			require.Equal(t, ref.remove(i), p.Remove(&it[i].node))
		case op < 17:
			r, ok := p.PopOldest()
			require.Equal(t, len(ref.used) > 0, ok)
			if ok {
				judge(r)
				ref.remove(r.Owner.id)
			}
		case op < 18:
			before := now - rnd.Int64N(20)
			old, any := ref.oldestTick()
			r, ok := p.PopIdle(before)
			if ok {
				judge(r)
				require.Less(t, r.Tick, before)
				ref.remove(r.Owner.id)
			} else if pl.back == 0 {
				require.False(t, any && old < before, "an idle node was there")
			}
		case op < 19:
			r, ok := p.Oldest()
			require.Equal(t, len(ref.used) > 0, ok)
			if ok {
				judge(r)
			}
		default:
			refs := make([]Ref[item], rnd.IntN(5))
			n := p.PopBatch(refs, Any)
			require.Equal(t, min(len(refs), len(ref.used)), n)
			for _, r := range refs[:n] {
				judge(r)
				ref.remove(r.Owner.id)
			}
		}
		if step%4 == 0 {
			checkPerCPU(t, p, pl.back == 0)
		}
		require.Equal(t, len(ref.used), p.Len())
	}
	require.ElementsMatch(t, ref.inOrder(), ids(p.Walk()))
	return p.Stats()
}

// L2, the bound on the age error: 0 ticks while ticks do not step back.
func TestPerCPUMatchesReference(t *testing.T) {
	for _, lanes := range []int{1, 2, 7} {
		for _, span := range []string{"dense", "sparse", "wild"} {
			t.Run(fmt.Sprintf("lanes=%d/ticks=%s", lanes, span), func(t *testing.T) {
				var all Stats
				for seed := range uint64(25) {
					rnd := rand.New(rand.NewPCG(seed, uint64(lanes)))
					jump := map[string]func() int64{
						"dense":  func() int64 { return int64(rnd.IntN(3) / 2) },
						"sparse": func() int64 { return rnd.Int64N(100) },
						"wild":   func() int64 { return 1 << rnd.IntN(36) },
					}[span]
					all.add(drive(t, rnd, plan{lanes: lanes, scan: 1 << 30, jump: jump}, 300))
				}
				require.NotZero(t, all.Relinked)
				require.Zero(t, all.Cut)
			})
		}
	}
}

// L2 for clocks that disagree: the error is at most what ticks step back by.
func TestPerCPUAgeErrorWithLaggingClocks(t *testing.T) {
	for _, back := range []int64{1, 16, 300} {
		t.Run(fmt.Sprintf("back=%d", back), func(t *testing.T) {
			for seed := range uint64(40) {
				rnd := rand.New(rand.NewPCG(seed, 99))
				drive(t, rnd, plan{lanes: 3, scan: 1 << 30, back: back,
					jump: func() int64 { return rnd.Int64N(4) }}, 300)
			}
		})
	}
}

// FuzzPerCPU decodes histories from bytes: op, node, lane or step.
func FuzzPerCPU(f *testing.F) {
	f.Add([]byte("0a0b0c1a1b2a3b4c5d"))
	f.Add([]byte{0, 1, 0, 0, 2, 1, 4, 255, 1, 1, 5, 0, 5, 0})
	f.Fuzz(func(t *testing.T, ops []byte) {
		var (
			p    = newPerCPU(t, Config{Lanes: 3, Scan: 1 << 30})
			ref  reference
			it   = newItems(8)
			tick int64
		)
		for len(ops) >= 2 {
			op, arg := ops[0]%6, int(ops[1])
			ops = ops[2:]
			i := arg % len(it)
			switch op {
			case 0:
				if ref.find(i) < 0 {
					ref.insert(i, tick)
					p.Insert(arg/8, &it[i].node, tick)
				}
			case 1:
				ref.touch(i, tick)
				p.Touch(&it[i].node, tick)
			case 2:
				require.Equal(t, ref.remove(i), p.Remove(&it[i].node))
			case 3:
				tick += int64(arg)
			case 4:
				tick += 1 << (arg % 40)
			case 5:
				want, some := ref.oldestTick()
				r, ok := p.PopOldest()
				require.Equal(t, some, ok)
				if ok {
					require.Equal(t, want, r.Tick)
					ref.remove(r.Owner.id)
				}
			}
			checkPerCPU(t, p, true)
		}
	})
}
