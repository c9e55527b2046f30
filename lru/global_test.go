package lru

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func ids(refs func(func(Ref[item]) bool)) (out []int) {
	for r := range refs {
		out = append(out, r.Owner.id)
	}
	return out
}

// PC-47: in Mooncake#2976 new entries had never been used, and went first.
func TestGlobalInsertCountsAsTouch(t *testing.T) {
	var g Global[item]
	it := newItems(3)
	g.Insert(&it[0].node, 1)
	g.Insert(&it[1].node, 2)
	g.Touch(&it[0].node, 3)
	g.Insert(&it[2].node, 4)
	require.Equal(t, []int{1, 0, 2}, ids(g.Walk()))
}

func TestGlobalPoppedNodeIsOut(t *testing.T) {
	var g Global[item]
	it := newItems(2)
	g.Insert(&it[0].node, 1)
	g.Insert(&it[1].node, 2)
	r, ok := g.PopOldest()
	require.True(t, ok)
	require.Same(t, it[0], r.Owner)
	require.Equal(t, int64(1), r.Tick)

	g.Touch(&it[0].node, 9)
	require.False(t, it[0].node.Linked(), "a touch must not bring a popped node back")
	require.False(t, g.Remove(&it[0].node), "the pop took it")
	require.Equal(t, 1, g.Len())
	require.True(t, g.Remove(&it[1].node))
	require.False(t, g.Remove(&it[1].node))
	_, ok = g.PopOldest()
	require.False(t, ok)
	_, ok = g.Oldest()
	require.False(t, ok)
}

// The evictor holds a claim while the object is retired by somebody else and
// put to use again: the claim must not touch the new life.
func TestClaimLapsesWithReuse(t *testing.T) {
	var g Global[item]
	it := newItems(1)
	g.Insert(&it[0].node, 1)
	r, _ := g.PopOldest()
	require.True(t, r.Current())
	g.Insert(&it[0].node, 2)
	require.False(t, r.Current())
	again, _ := g.PopOldest()
	require.False(t, r.Current())
	require.True(t, again.Current())
	require.False(t, Ref[item]{}.Current())
}

func TestGlobalPopIdleSparesTheActive(t *testing.T) {
	var g Global[item]
	it := newItems(2)
	g.Insert(&it[0].node, 100)
	g.Insert(&it[1].node, 101)
	_, ok := g.PopIdle(100)
	require.False(t, ok)
	r, ok := g.PopIdle(101)
	require.True(t, ok)
	require.Equal(t, 0, r.Owner.id)
	g.Touch(&it[1].node, 200)
	_, ok = g.PopIdle(200)
	require.False(t, ok)
}

func TestMisuseOfNodePanics(t *testing.T) {
	var a, b Global[item]
	it := newItems(1)
	var orphan Node[item]
	require.PanicsWithValue(t, "lru: Insert of a node without an owner; call Init first",
		func() { a.Insert(&orphan, 0) })
	a.Insert(&it[0].node, 1)
	require.PanicsWithValue(t, "lru: Insert of a node that is in a list", func() { a.Insert(&it[0].node, 1) })
	require.PanicsWithValue(t, "lru: Insert of a node that is in a list", func() { b.Insert(&it[0].node, 1) })
	require.PanicsWithValue(t, "lru: node of another list", func() { b.Touch(&it[0].node, 1) })
	require.PanicsWithValue(t, "lru: node of another list", func() { b.Remove(&it[0].node) })
	// PC-42: no lock stays behind after a panic.
	require.True(t, a.Remove(&it[0].node))
	b.Insert(&it[0].node, 1)
	require.Equal(t, 1, b.Len())
}

func TestGlobalMatchesReference(t *testing.T) {
	for seed := range uint64(50) {
		var (
			rnd  = rand.New(rand.NewPCG(seed, 1))
			g    Global[item]
			ref  reference
			it   = newItems(1 + rnd.IntN(12))
			tick int64
		)
		for range 400 {
			tick += int64(rnd.IntN(3))
			i := rnd.IntN(len(it))
			switch rnd.IntN(5) {
			case 0, 1:
				if ref.find(i) < 0 {
					ref.insert(i, tick)
					g.Insert(&it[i].node, tick)
				}
			case 2:
				ref.touch(i, tick)
				g.Touch(&it[i].node, tick)
			case 3:
				require.Equal(t, ref.remove(i), g.Remove(&it[i].node))
			case 4:
				want := ref.inOrder()
				old, ok := g.Oldest()
				got, popped := g.PopOldest()
				require.Equal(t, len(want) > 0, popped)
				require.Equal(t, popped, ok)
				if popped {
					require.Equal(t, want[0], got.Owner.id)
					require.Equal(t, want[0], old.Owner.id)
					require.Equal(t, ref.used[ref.find(want[0])].tick, got.Tick)
					ref.remove(want[0])
				}
			}
			require.Equal(t, len(ref.used), g.Len())
		}
		if want := ref.inOrder(); len(want) > 0 {
			require.Equal(t, want, ids(g.Walk()), "seed=%d", seed)
		}
		s := g.Stats()
		require.Equal(t, s.Inserted, s.Removed+s.Popped+uint64(g.Len()))
	}
}

// PC-51 (matrixone#21838): evict against delete against use of one node; each
// life must end exactly once. The evictor obeys the protocol of Ref.
func TestConcurrentGlobalOneRemoverPerLife(t *testing.T) {
	type queue struct {
		mu    sync.Mutex
		alive bool // guarded by mu
		node  Node[queue]
	}
	const lives = 500
	var (
		g            Global[queue]
		q            queue
		born         int
		ended, stale atomic.Int64
		wg           sync.WaitGroup
		done         atomic.Bool
	)
	q.node.Init(&q)
	for range 2 {
		wg.Go(func() { // evictors: no lock of the queue while popping
			for !done.Load() {
				r, ok := g.PopOldest()
				if !ok {
					runtime.Gosched()
					continue
				}
				r.Owner.mu.Lock()
				if r.Current() && r.Owner.alive {
					r.Owner.alive = false
					ended.Add(1)
				} else {
					stale.Add(1)
				}
				r.Owner.mu.Unlock()
			}
		})
		wg.Go(func() { // completers: lock order queue, then list
			for !done.Load() {
				q.mu.Lock()
				g.Touch(&q.node, 1)
				if q.alive {
					q.alive = false
					ended.Add(1)
					g.Remove(&q.node)
				}
				q.mu.Unlock()
				runtime.Gosched()
			}
		})
	}
	for born < lives {
		q.mu.Lock()
		if !q.alive {
			born++
			q.alive = true
			g.Insert(&q.node, 0)
		}
		q.mu.Unlock()
		runtime.Gosched()
	}
	done.Store(true)
	wg.Wait()
	if q.alive {
		ended.Add(1)
		// Its claim may be with an evictor that saw it die in an earlier life.
		g.Remove(&q.node)
	}
	require.Equal(t, int64(lives), ended.Load())
	require.Zero(t, g.Len())
	t.Logf("%d claims had lapsed", stale.Load())
}
