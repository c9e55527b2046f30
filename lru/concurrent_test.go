package lru

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"corelane/internal/yield"
)

// conn is an object with a lock of its own and lives, as in a fragment cache.
type conn struct {
	mu    sync.Mutex
	alive bool // guarded by mu
	lives int  // guarded by mu
	node  Node[conn]
}

// PC-51 (matrixone#21838: double postEvict; a reference resurrected after
// zero): evict against retire against touch, with reuse. Each life ends once.
func TestConcurrentPerCPUOneRemoverPerLife(t *testing.T) {
	const lanes, conns, rounds = 3, 8, 1500
	p, err := NewPerCPU[conn](Config{Lanes: lanes, Scan: 4})
	require.NoError(t, err)
	var (
		all         [conns]conn
		born, ended atomic.Int64
		tick        atomic.Int64
		wg          sync.WaitGroup
	)
	for i := range all {
		all[i].node.Init(&all[i])
	}
	for w := range lanes {
		wg.Go(func() { // births and touches: lock order conn, then lane
			for i := range rounds {
				c := &all[(i*7+w)%conns]
				c.mu.Lock()
				if !c.alive {
					c.alive = true
					c.lives++
					born.Add(1)
					p.Insert(w, &c.node, tick.Add(1))
				}
				c.mu.Unlock()
				p.Touch(&c.node, tick.Add(1)) // without the lock: it may hit a node just popped
			}
		})
		wg.Go(func() { // retirement
			for i := range rounds {
				c := &all[(i*5+w)%conns]
				c.mu.Lock()
				if c.alive {
					c.alive = false
					ended.Add(1)
					p.Remove(&c.node)
				}
				c.mu.Unlock()
			}
		})
		wg.Go(func() { // eviction: no lock of the conn held while popping
			for range rounds {
				r, ok := p.PopOldest()
				if !ok {
					runtime.Gosched()
					continue
				}
				r.Owner.mu.Lock()
				if r.Current() && r.Owner.alive {
					r.Owner.alive = false
					ended.Add(1)
				}
				r.Owner.mu.Unlock()
			}
		})
	}
	wg.Wait()
	for i := range all {
		if all[i].alive {
			ended.Add(1)
			require.True(t, p.Remove(&all[i].node), "alive, and popped by nobody who kept the claim")
		}
	}
	require.Equal(t, born.Load(), ended.Load())
	require.Zero(t, p.Len())
	checkPerCPU(t, p, false)
}

// PC-35, PC-36: four goroutines that reserve a place before they insert never
// hold more than the limit, and need no worker for it.
func TestConcurrentLimitHoldsAtEveryInstant(t *testing.T) {
	const limit, workers, rounds = 64, 4, 4000
	p := newPerCPU(t, Config{Lanes: workers})
	var (
		places atomic.Int64 // taken: linked, or about to be
		peak   atomic.Int64
		wg     sync.WaitGroup
	)
	for w := range workers {
		wg.Go(func() {
			for i, it := range newItems(rounds) {
				for places.Add(1) > limit {
					places.Add(-1)
					if _, ok := p.PopOldest(); ok {
						places.Add(-1)
					}
				}
				p.Insert(w, &it.node, int64(i))
				if i%16 == 0 {
					n := lenAtOneInstant(p)
					for old := peak.Load(); n > old && !peak.CompareAndSwap(old, n); {
						old = peak.Load()
					}
				}
			}
		})
	}
	wg.Wait()
	require.LessOrEqual(t, peak.Load(), int64(limit))
	require.Equal(t, int64(p.Len()), places.Load())
	require.Positive(t, p.Len())
}

// lenAtOneInstant holds all locks while it counts; Len may count a node that
// moves from one lane to another twice.
func lenAtOneInstant[T any](p *PerCPU[T]) (n int64) {
	for i := range p.lanes {
		p.lanes[i].mu.Lock()
	}
	for i := range p.lanes {
		n += p.lanes[i].size.Load()
	}
	for i := range p.lanes {
		p.lanes[i].mu.Unlock()
	}
	return n
}

// PC-39, PC-50 (golang-fifo#21: a touch under a read lock was a data race):
// every method at once, for the race detector.
func TestConcurrentEverything(t *testing.T) {
	p := newPerCPU(t, Config{Lanes: 2, Scan: 2})
	it := newItems(32)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			refs := make([]Ref[item], 3)
			own := it[w*8 : w*8+8]
			for i := range 800 {
				n := &own[i%8].node
				if !n.Linked() {
					p.Insert(w, n, int64(i))
				}
				p.Touch(&it[(i*13)%32].node, int64(i))
				switch i % 8 {
				case 0:
					p.PopBatch(refs, int64(i-10))
				case 1:
					p.Oldest()
				case 2:
					p.PopOwn(w)
				case 3:
					p.Remove(&it[(i*5)%32].node)
				case 4:
					for r := range p.Walk() {
						_ = r.Owner.node.Tick()
					}
				case 5:
					p.Stats()
				}
			}
		})
	}
	wg.Wait()
	checkPerCPU(t, p, false)
}

// The forced version of PC-51 and PC-53: Remove has read where the node is, and
// before it has the lock the node is popped, and lives again on another lane.
// It must neither touch the old lane nor miss the new one.
func TestRemoveFollowsMovedNode(t *testing.T) {
	if !yield.Enabled {
		t.Skip("windows are compiled out; run with -tags invariants")
	}
	for _, again := range []bool{false, true} {
		p := newPerCPU(t, Config{Lanes: 2})
		it := newItems(1)
		n := &it[0].node
		p.Insert(0, n, 1)
		visits := 0
		restore := yield.On("lru.remove", func() {
			if visits++; visits > 1 {
				return
			}
			_, ok := p.PopOldest()
			require.True(t, ok)
			if again {
				p.Insert(1, n, 2)
			}
		})
		require.Equal(t, again, p.Remove(n), "again=%v", again)
		restore()
		require.Zero(t, p.Len())
		checkPerCPU(t, p, true)
	}
}

// A pop has chosen a lane, and before it has the lock that lane is emptied by
// someone else: it must look again, and not report an empty list.
func TestPopLooksAgainWhenLaneWasEmptied(t *testing.T) {
	if !yield.Enabled {
		t.Skip("windows are compiled out; run with -tags invariants")
	}
	p := newPerCPU(t, Config{Lanes: 2})
	it := newItems(2)
	p.Insert(0, &it[0].node, 1)
	p.Insert(1, &it[1].node, 2)
	visits := 0
	restore := yield.On("lru.pop", func() {
		if visits++; visits == 1 {
			require.True(t, p.Remove(&it[0].node))
		}
	})
	defer restore()
	r, ok := p.PopOldest()
	require.True(t, ok)
	require.Equal(t, 1, r.Owner.id)
	require.Equal(t, 2, visits)
}

// Found by BenchmarkLRUEvictParallel on a busy machine: a search reads lane 0
// empty and is held up; meanwhile another goroutine moves every node to lane 0.
// The list was never empty, so the search must not say so.
func TestPopNeverMistakesMovedForEmpty(t *testing.T) {
	if !yield.Enabled {
		t.Skip("windows are compiled out; run with -tags invariants")
	}
	for _, method := range []string{"pop", "oldest", "idle"} {
		p := newPerCPU(t, Config{Lanes: 2})
		it := newItems(2)
		p.Insert(1, &it[0].node, 1)
		visits := 0
		restore := yield.On("lru.compare", func() {
			if visits++; visits > 4 {
				return
			}
			// At odd visits lane 0 was read and lane 1 was not; at even ones both
			// were. The node goes to the lane that was read, and back.
			to, from := (visits+1)%2, visits%2
			p.Insert(to, &it[visits%2].node, 1)
			_, popped := p.PopOwn(from)
			require.True(t, popped)
			_, popped = p.PopOwn(from) // finds nothing, and so says Any
			require.False(t, popped)
		})
		var ok bool
		switch method {
		case "pop":
			_, ok = p.PopOldest()
		case "oldest":
			_, ok = p.Oldest()
		case "idle":
			_, ok = p.PopIdle(2)
		}
		restore()
		require.True(t, ok, "method=%s", method)
	}
}

// From the moment a node is out of its list it may begin another life; the
// claim is on the life that ended.
func TestClaimIsOnTheLifeThatEnded(t *testing.T) {
	if !yield.Enabled {
		t.Skip("windows are compiled out; run with -tags invariants")
	}
	p := newPerCPU(t, Config{Lanes: 2})
	it := newItems(1)
	p.Insert(0, &it[0].node, 1)
	once := false
	restore := yield.On("lru.dropped", func() {
		if !once {
			once = true
			p.Insert(1, &it[0].node, 2)
		}
	})
	defer restore()
	r, ok := p.PopOldest()
	require.True(t, ok)
	require.True(t, once)
	require.False(t, r.Current())
	require.Equal(t, int64(1), r.Tick)
}
