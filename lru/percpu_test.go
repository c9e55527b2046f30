package lru

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNewPerCPURefusesNumbersOutOfRange(t *testing.T) {
	for _, lanes := range []int{0, -1, 1<<16 + 1} {
		_, err := NewPerCPU[item](Config{Lanes: lanes})
		require.ErrorContains(t, err, fmt.Sprintf("Config.Lanes is %d", lanes))
	}
	_, err := NewPerCPU[item](Config{Lanes: 1, Scan: -5})
	require.ErrorContains(t, err, "Config.Scan is -5")
}

// PC-47: insert counts as touch, on a lane as in a Global.
func TestPerCPUInsertCountsAsTouch(t *testing.T) {
	p := newPerCPU(t, Config{Lanes: 2})
	it := newItems(3)
	p.Insert(0, &it[0].node, 1)
	p.Insert(0, &it[1].node, 2)
	p.Touch(&it[0].node, 3)
	p.Insert(1, &it[2].node, 4)
	for _, want := range []int{1, 0, 2} {
		r, ok := p.PopOldest()
		require.True(t, ok)
		require.Equal(t, want, r.Owner.id)
	}
}

func TestPerCPUPoppedNodeIsOut(t *testing.T) {
	p := newPerCPU(t, Config{Lanes: 2})
	it := newItems(1)
	n := &it[0].node
	p.Insert(1, n, 1)
	r, ok := p.PopOldest()
	require.True(t, ok)
	p.Touch(n, 9)
	require.False(t, n.Linked())
	require.False(t, p.Remove(n))
	require.True(t, r.Current())
	require.Equal(t, int64(1), r.Tick)

	p.Insert(0, n, 2) // a new life on another lane, older than the stray touch
	require.False(t, r.Current())
	require.Equal(t, int64(2), n.Tick())
	require.True(t, p.Remove(n))
	require.False(t, p.Remove(n))
	checkPerCPU(t, p, true)
}

func TestPerCPUNodeOfAnotherListPanics(t *testing.T) {
	var g Global[item]
	a, b := newPerCPU(t, Config{Lanes: 3}), newPerCPU(t, Config{Lanes: 2})
	it := newItems(2)
	a.Insert(2, &it[0].node, 1)
	g.Insert(&it[1].node, 1)
	require.PanicsWithValue(t, "lru: node of another list", func() { b.Remove(&it[0].node) })
	require.PanicsWithValue(t, "lru: node of another list", func() { b.Remove(&it[1].node) })
	require.PanicsWithValue(t, "lru: Insert of a node that is in a list", func() { b.Insert(0, &it[0].node, 1) })
	// PC-42: the panic left no lock behind.
	b.Insert(0, &newItems(1)[0].node, 1)
	require.True(t, a.Remove(&it[0].node))
	require.True(t, g.Remove(&it[1].node))
}

// A P id may exceed the lanes at any time, since GOMAXPROCS may grow.
func TestPerCPULaneWrapsAround(t *testing.T) {
	p := newPerCPU(t, Config{Lanes: 3})
	it := newItems(2)
	p.Insert(4, &it[0].node, 1)
	require.Equal(t, 1, p.LaneLen(1))
	r, ok := p.PopOwn(7)
	require.True(t, ok)
	require.Equal(t, 0, r.Owner.id)
	_, ok = p.PopOwn(1)
	require.False(t, ok)
}

// The 2013 rule never looks at another lane, however old its nodes are.
func TestPopOwnStaysOnItsLane(t *testing.T) {
	p := newPerCPU(t, Config{Lanes: 2})
	it := newItems(3)
	p.Insert(0, &it[0].node, 1)
	p.Insert(1, &it[1].node, 100)
	p.Insert(1, &it[2].node, 200)
	p.Touch(&it[1].node, 300)
	r, ok := p.PopOwn(1)
	require.True(t, ok)
	require.Equal(t, 2, r.Owner.id)
	require.Equal(t, 1, p.LaneLen(0))
	require.Equal(t, uint64(1), p.LaneStats(1).Relinked)
}

// The extreme ticks are legal, and Any, which is not a tick, counts as the one
// below it instead of hanging the search.
func TestPerCPUExtremeTicks(t *testing.T) {
	p := newPerCPU(t, Config{Lanes: 1})
	it := newItems(4)
	ticks := []int64{math.MinInt64, 0, Any - 1, Any}
	for i, tick := range ticks {
		p.Insert(0, &it[i].node, tick)
	}
	p.Touch(&it[1].node, Any)
	checkPerCPU(t, p, true)
	var got []int
	for r, ok := p.PopOldest(); ok; r, ok = p.PopOldest() {
		got = append(got, r.Owner.id)
		checkPerCPU(t, p, true)
	}
	require.Len(t, got, 4)
	require.Equal(t, 0, got[0])
}

// A search that meets only touched nodes gives up after Scan of them, with the
// oldest of those it saw, whether they stand on one lane or alternate over many.
func TestPopCutAfterScan(t *testing.T) {
	const n, scan = 100, 8
	for _, lanes := range []int{1, 2, 5} {
		p := newPerCPU(t, Config{Lanes: lanes, Scan: scan})
		it := newItems(n)
		for i := range it {
			p.Insert(i, &it[i].node, int64(i))
		}
		for i := range it {
			p.Touch(&it[i].node, int64(2000-i)) // the later filed, the older
		}
		r, ok := p.Oldest()
		require.True(t, ok)
		require.Equal(t, scan-1, r.Owner.id, "the oldest of the first 8")
		require.Equal(t, Stats{Inserted: n, Relinked: scan, Cut: 1}, p.Stats(), "lanes=%d", lanes)
		r, ok = p.PopOldest()
		require.True(t, ok)
		require.Equal(t, 2*scan-1, r.Owner.id, "the oldest of the next 8")
		require.Equal(t, Stats{Inserted: n, Popped: 1, Relinked: 2 * scan, Cut: 2}, p.Stats())

		_, ok = p.PopIdle(1000)
		require.False(t, ok, "none is idle, and the search must not run over all of them to say so")
		require.Equal(t, uint64(3*scan), p.Stats().Relinked)
		checkPerCPU(t, p, true)

		// The work done is not lost: the next batch has budget for all the rest,
		// and they come in exact order.
		refs := make([]Ref[item], n)
		got := p.PopBatch(refs, Any)
		require.Equal(t, n-1, got)
		for i := 1; i < got; i++ {
			require.LessOrEqual(t, refs[i-1].Tick, refs[i].Tick)
		}
	}
	p := newPerCPU(t, Config{Lanes: 2, Scan: scan})
	for i, it := range newItems(n) {
		p.Insert(1, &it.node, int64(i))
		p.Touch(&it.node, int64(2000-i))
	}
	r, ok := p.PopOwn(1)
	require.True(t, ok)
	require.Equal(t, scan-1, r.Owner.id)
}

// However small the budget, a pop from a list that holds something pops.
func TestPopWithTinyScanNeverComesBackEmpty(t *testing.T) {
	p := newPerCPU(t, Config{Lanes: 3, Scan: 1})
	it := newItems(60)
	for i := range it {
		p.Insert(i, &it[i].node, int64(i))
	}
	for left := len(it); left > 0; {
		for i := range it {
			p.Touch(&it[i].node, int64(1000-10*left+i)) // a storm between any two pops
		}
		refs := make([]Ref[item], 1+left%3)
		n := p.PopBatch(refs, Any)
		require.Positive(t, n)
		left -= n
		require.Equal(t, left, p.Len())
		checkPerCPU(t, p, true)
	}
}

// PC-41: golang-lru and go-freelru call back under their lock, and deadlock
// when the callback uses the list. Here nothing runs under one.
func TestWalkBodyMayCallEverything(t *testing.T) {
	p := newPerCPU(t, Config{Lanes: 2})
	it := newItems(10)
	for i := range it[:8] {
		p.Insert(i, &it[i].node, int64(i))
	}
	seen := 0
	for r := range p.Walk() {
		seen++
		p.Touch(&r.Owner.node, 50)
		p.Remove(&r.Owner.node)
		p.Insert(0, &it[8].node, 60)
		p.Oldest()
		p.PopIdle(1)
		p.Remove(&it[8].node)
		p.Stats()
		for range p.Walk() {
			break
		}
	}
	require.LessOrEqual(t, seen, 8)
	require.Zero(t, p.Len())
}

// PC-43: go-freelru's PurgeExpired stops at the first live tail, and keeps the
// expired behind it. A tail that was touched must not shield idle nodes.
func TestPopIdleLooksBehindTouchedTail(t *testing.T) {
	p := newPerCPU(t, Config{Lanes: 2})
	it := newItems(6)
	for i := range it {
		p.Insert(i%2, &it[i].node, int64(i))
	}
	for _, i := range []int{0, 1, 4} {
		p.Touch(&it[i].node, 100) // immortal, as it were
	}
	var got []int
	for r, ok := p.PopIdle(50); ok; r, ok = p.PopIdle(50) {
		got = append(got, r.Owner.id)
	}
	require.Equal(t, []int{2, 3, 5}, got)
	require.Equal(t, 3, p.Len())
}

// PC-44: go-freelru#53 purged half, because the length shrank under the loop;
// and its RemoveOldest always chose one shard.
func TestPopUntilEmptyReachesEveryLane(t *testing.T) {
	p := newPerCPU(t, Config{Lanes: 16})
	it := newItems(1000)
	for i := range it {
		p.Insert(i, &it[i].node, int64(i))
	}
	refs := make([]Ref[item], 64)
	total := 0
	for n := p.PopBatch(refs, Any); n > 0; n = p.PopBatch(refs, Any) {
		for j, r := range refs[:n] {
			require.Equal(t, total+j, r.Owner.id)
		}
		total += n
	}
	require.Equal(t, len(it), total)
	require.Zero(t, p.Len())
}

// PC-35 (otter#171: 522 entries for a size of 10), PC-36 (caffeine#319: over
// the limit until maintenance runs), PC-45 (sharded caches evict at 69 % of the
// capacity, or hold more than it), PC-48 (BPF LRU: many CPUs, small map, recent
// entries recycled while it is nearly empty), PC-49 (an update at the limit
// evicts another entry). A caller that pops one for each it inserts past the
// limit holds exactly the limit, whatever the lanes.
func TestTinyLimitManyLanes(t *testing.T) {
	const limit, lanes = 10, 79
	p := newPerCPU(t, Config{Lanes: lanes})
	it := newItems(2000)
	for i := range it {
		if p.Len() == limit {
			r, ok := p.PopOldest()
			require.True(t, ok)
			require.Equal(t, i-limit, r.Owner.id, "evicted out of order")
		}
		p.Insert(i*31, &it[i].node, int64(i))
		require.Equal(t, min(i+1, limit), p.Len(), "evicted too early or too late")
	}
	for range 1000 {
		p.Touch(&it[len(it)-1].node, 9999)
		require.Equal(t, limit, p.Len())
	}
}

// PC-46 (spiceai#14206): every scan began at shard 0, which bore all evictions.
func TestVictimsSpreadOverLanes(t *testing.T) {
	const lanes, rounds = 8, 4000
	p := newPerCPU(t, Config{Lanes: lanes})
	it := newItems(lanes * 100)
	for i := range it {
		p.Insert(i, &it[i].node, int64(i))
	}
	for i := range rounds {
		r, ok := p.PopOldest()
		require.True(t, ok)
		p.Insert(i, &r.Owner.node, int64(len(it)+i))
	}
	for i := range lanes {
		require.EqualValues(t, rounds/lanes, p.LaneStats(i).Popped, "lane %d", i)
	}
}

// PC-40 (otter#139: a size that went negative made a slice of it): clear while
// others insert; PC-53: an element moved between lists is counted once.
func TestMoveBetweenLanesKeepsCounts(t *testing.T) {
	p := newPerCPU(t, Config{Lanes: 4})
	it := newItems(40)
	for i := range it {
		p.Insert(0, &it[i].node, int64(i))
	}
	for round := range 100 {
		for i := range it {
			require.True(t, p.Remove(&it[i].node))
			p.Insert(i+round, &it[i].node, int64(100+round))
		}
		require.Equal(t, len(it), p.Len())
	}
	sum := 0
	for i := range p.Lanes() {
		require.Equal(t, 10, p.LaneLen(i))
		sum += p.LaneLen(i)
	}
	require.Equal(t, p.Len(), sum)
	checkPerCPU(t, p, true)
}
