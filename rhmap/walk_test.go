package rhmap

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"corelane/internal/yield"

	"github.com/stretchr/testify/require"
)

// The acceptance run is
//
//	go test ./rhmap -run TestWalkIsExactWhileTheTableMoves -v -rhmap.walks=1000 -rhmap.keys=20000
//	go test ./rhmap -run TestWalkIsExactWhileTheTableMoves -v -rhmap.walks=20 -rhmap.keys=1000000
//
// and its output is in bench/results/rhmap-walkproof.txt.
var (
	walkRuns = flag.Int("rhmap.walks", 10, "seeded walks of TestWalkIsExactWhileTheTableMoves")
	walkKeys = flag.Int("rhmap.keys", 2000, "keys of each")
)

// walkTally counts what happened in walks, and what went wrong.
type walkTally struct {
	returned, removed, inserted      int
	grows, shrinks, reseeds          int // begun during walks
	missed, repeated, stale, foreign int
}

// walkCase is a walk over n keys, of which each tenth is removed on the way and
// others are inserted, while the table grows, shrinks and reseeds as the seed
// says. It is sequential, so every violation can be replayed.
func walkCase(kind string, n int, seed uint64, sum *walkTally) {
	d := newDict(kind, "good")
	rnd := rand.New(rand.NewPCG(seed, 1))
	present := make([]bool, 2*n)
	for k := range n {
		d.insert(uint64(k), uint64(k))
		present[k] = true
	}
	stays := make([]bool, 2*n) // present from Walk on
	copy(stays, present)
	returned := make([]bool, 2*n)
	w := d.walk()
	if t, ok := d.(*tableDict); ok && seed%2 == 1 {
		w = &tableBatchWalk{d: t, w: t.t.Walk(), room: 1 + rnd.IntN(200)}
	}
	before := d.core().stats()
	every := n/20 + 1
	for i := 0; ; i++ {
		if i%every == 0 {
			switch rnd.IntN(3) {
			case 0:
				d.core().forceResize(true)
			case 1:
				d.core().forceResize(false)
			case 2:
				d.core().forceReseed()
			}
		}
		if rnd.IntN(3) == 0 {
			d.core().advance(1 + n/500)
		}
		if rnd.IntN(9) == 0 {
			k := rnd.IntN(n)
			for !present[k] {
				k = (k + 1) % n
			}
			d.remove(uint64(k))
			present[k], stays[k], returned[k] = false, false, false
			sum.removed++
		}
		if rnd.IntN(10) == 0 {
			if k := rnd.IntN(2 * n); !present[k] {
				d.insert(uint64(k), uint64(k))
				present[k] = true
				sum.inserted++
			}
		}
		k, _, ok := w.next()
		if !ok {
			break
		}
		sum.returned++
		if k >= uint64(2*n) {
			sum.foreign++
			continue
		}
		if returned[k] {
			sum.repeated++
		}
		if !present[k] {
			sum.stale++
		}
		returned[k] = true
	}
	for k := range stays {
		if stays[k] && !returned[k] {
			sum.missed++
		}
	}
	after := d.core().stats()
	sum.grows += int(after.Grows - before.Grows)
	sum.shrinks += int(after.Shrinks - before.Shrinks)
	sum.reseeds += int(after.Reseeds - before.Reseeds)
}

// W1, W2 and W3 over seeded walks.
func TestWalkIsExactWhileTheTableMoves(t *testing.T) {
	for _, kind := range dicts {
		t.Run("impl="+kind, func(t *testing.T) {
			t.Parallel()
			var sum walkTally
			for seed := range uint64(*walkRuns) {
				walkCase(kind, *walkKeys, seed, &sum)
				require.Zero(t, sum.missed+sum.repeated+sum.stale+sum.foreign, "%+v; seed %d", sum, seed)
			}
			require.NotZero(t, sum.grows*sum.shrinks*sum.reseeds*sum.removed, "nothing happened: %+v", sum)
			t.Logf("%d walks over %d keys: %+v", *walkRuns, *walkKeys, sum)
		})
	}
}

// stableWalks walks on while others write, and checks that keys below stable,
// which nobody touches, come exactly once in each walk, and no other key twice
// without reason. Keys that others churn carry the number of their stay as value.
func stableWalks(d dict, stable uint64, rounds int) error {
	for range rounds {
		seen := map[uint64]bool{}
		stays := map[[2]uint64]bool{}
		for w := d.walk(); ; {
			k, v, ok := w.next()
			if !ok {
				break
			}
			if stays[[2]uint64{k, v}] {
				return fmt.Errorf("W2: key %d came twice in stay %d", k, v)
			}
			stays[[2]uint64{k, v}] = true
			seen[k] = true
		}
		for k := range stable {
			if !seen[k] {
				return fmt.Errorf("W1: key %d did not come", k)
			}
		}
	}
	return nil
}

func TestConcurrentWalkWhileMoving(t *testing.T) {
	defer yield.Chaos(3, 11)()
	for _, kind := range dicts {
		for _, hash := range []string{"good", "top4", "low8"} {
			t.Run("impl="+kind+"/hash="+hash, func(t *testing.T) {
				d := newDict(kind, hash)
				const stable, churn = 100, 60
				for k := range uint64(stable) {
					d.insert(k, 0)
				}
				var stop atomic.Bool
				var wg sync.WaitGroup
				wg.Go(func() { restless(d, &stop) })
				for id := range uint64(2) {
					wg.Go(func() {
						rnd := newRand(id)
						for stay := uint64(1); !stop.Load(); stay++ {
							k := stable + id*churn + rnd.Uint64N(churn)
							if _, inserted := d.insert(k, stay); !inserted {
								d.remove(k)
							}
						}
					})
				}
				err := stableWalks(d, stable, 60)
				stop.Store(true)
				wg.Wait()
				require.NoError(t, err)
				require.NoError(t, d.core().check())
			})
		}
	}
}

// A walk left open for a million operations holds nothing up, keeps no memory but
// one array, and goes on where it was.
func TestWalkLeftOpen(t *testing.T) {
	for _, kind := range dicts {
		t.Run("impl="+kind, func(t *testing.T) {
			t.Parallel()
			d := newDict(kind, "good")
			for k := range uint64(1000) {
				d.insert(k, k)
			}
			w := d.walk()
			seen := map[uint64]int{}
			for range 100 {
				k, _, _ := w.next()
				seen[k]++
			}
			churn := func(k, i uint64) {
				if _, inserted := d.insert(k, i); !inserted {
					d.remove(k)
				}
			}
			n := uint64(100_000)
			if t, ok := d.(*tableDict); ok {
				// Without the locks of the dict a million take a second.
				n = 1_000_000
				items, refs := make([]item, 20_000), make([]Ref[item], 20_000)
				churn = func(k, _ uint64) {
					if i := k - 1000; !t.t.Remove(refs[i]) {
						items[i].key = k
						refs[i], _, _ = t.t.InsertUnique(&word1{k}, &items[i])
					}
				}
			}
			for i := range n {
				churn(1000+i%20_000, i)
				if i%50_000 == 0 {
					d.core().forceReseed()
				}
			}
			for {
				k, _, ok := w.next()
				if !ok {
					break
				}
				seen[k]++
			}
			for k := range uint64(1000) {
				require.Equal(t, 1, seen[k], "key %d", k)
			}
		})
	}
}

func TestWalkSkipsSegmentsNeverWritten(t *testing.T) {
	m := NewMap[uint64, int](Config[uint64]{Capacity: 200_000, Hasher: CustomHash(hashes["good"], counter())})
	for k := range uint64(50) {
		m.Store(k, int(k))
	}
	s := m.Stats()
	require.Greater(t, s.Buckets, 32*segBuckets)
	require.Less(t, s.Made, s.Buckets, "the test wants segments that do not exist")
	for range 2 {
		sum := 0
		for _, v := range m.All() {
			sum += v
		}
		require.Equal(t, 50*49/2, sum)
		require.True(t, m.forceReseed())
	}
}

func TestRangeStopsEarlyAndMayChangeTheMap(t *testing.T) {
	m := NewMap[int, int](Config[int]{})
	for k := range 1000 {
		m.Store(k, k)
	}
	n := 0
	m.Range(func(k, v int) bool {
		n++
		m.Delete(k)
		m.Store(k, v+1) // HM-W12: does not come again
		return n < 500
	})
	require.Equal(t, 500, n)
	n = 0
	for k := range m.All() {
		m.Delete(k) // HM-W14: no deadlock
		n++
	}
	require.Equal(t, 1000, n)
	require.Zero(t, m.Len())
	for range new(Map[int, int]).All() {
		t.Fatal("the zero map is empty")
	}
}

func TestWalkerBatchAndRestart(t *testing.T) {
	d := newDict("table", "good").(*tableDict)
	for k := range uint64(500) {
		d.insert(k, k)
	}
	w := d.t.Walk()
	var out [64]Ref[item]
	for round := range 3 {
		seen, calls := map[uint64]bool{}, 0
		for more := true; more; calls++ {
			var n int
			n, more = w.NextBatch(out[:], 8)
			for _, r := range out[:n] {
				require.False(t, seen[r.Node.key])
				seen[r.Node.key] = true
			}
		}
		require.Len(t, seen, 500, "round %d", round)
		require.GreaterOrEqual(t, calls, d.t.Stats().Buckets/8)
		w.Restart()
	}
	w.Stop()
	_, ok := w.Next()
	require.False(t, ok)
}

// What lies behind the length of out is the caller's, whatever its capacity; so is out itself after the call.
func TestNextBatchKeepsWithinOut(t *testing.T) {
	d := newDict("table", "good").(*tableDict)
	for k := range uint64(5000) {
		d.insert(k, k)
	}
	for _, room := range []int{1, 7, 64, 100, 1000} {
		w, all, seen := d.t.Walk(), make([]Ref[item], 2000), map[uint64]bool{}
		for more := true; more; {
			var n int
			n, more = w.NextBatch(all[:room], 1<<20)
			for _, r := range all[:n] {
				require.False(t, seen[r.Node.key])
				seen[r.Node.key] = true
			}
			clear(all[:room])
			for _, r := range all {
				require.Zero(t, r, "room %d", room)
			}
		}
		require.Len(t, seen, 5000, "room %d", room)
	}
}

func TestProbeFindsNeighbours(t *testing.T) {
	d := newDict("table", "good").(*tableDict)
	var out [16]Ref[item]
	require.Zero(t, d.t.Probe(5, out[:]))
	for k := range uint64(2000) {
		d.insert(k, k)
	}
	rnd := newRand(1)
	hits := map[uint64]int{}
	for range 4000 {
		n := d.t.Probe(rnd.Uint64(), out[:])
		require.Equal(t, len(out), n)
		for _, r := range out[:n] {
			require.True(t, d.t.Live(r))
			hits[r.Node.key]++
		}
	}
	require.Len(t, hits, 2000, "every element can be drawn")
	require.Equal(t, len(out), d.t.Probe(^uint64(0), out[:]), "the last place goes on at the first")
}

// R12: with an injected hash, order depends on hashes and operations only.
func TestWalkOrderIsRepeatable(t *testing.T) {
	order := func(kind string) (keys []uint64) {
		d := newDict(kind, "good")
		rnd := newRand(5)
		for range 20_000 {
			k := rnd.Uint64N(5000)
			if _, inserted := d.insert(k, 0); !inserted {
				d.remove(k)
			}
		}
		d.core().forceReseed()
		for w := d.walk(); ; {
			k, _, ok := w.next()
			if !ok {
				return keys
			}
			keys = append(keys, k)
		}
	}
	for _, kind := range dicts {
		require.Equal(t, order(kind), order(kind))
	}
}
