package lru

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"corelane/internal/cacheline"
	"corelane/internal/invariant"
)

// The sizes the documentation names.
func TestSizes(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) == 8 {
		require.EqualValues(t, 56, unsafe.Sizeof(Node[item]{}))
	} else {
		require.EqualValues(t, 40, unsafe.Sizeof(Node[item]{}))
	}
	require.LessOrEqual(t, unsafe.Sizeof(lane[item]{}), uintptr(6000))
}

// Evictors of all lanes read bound; the lane's own work must not slow them.
func TestBoundStandsAlone(t *testing.T) {
	var l lane[item]
	at := unsafe.Offsetof(l.bound)
	require.GreaterOrEqual(t, at-(unsafe.Offsetof(l.aged)+unsafe.Sizeof(l.aged)), uintptr(cacheline.Size))
	require.GreaterOrEqual(t, unsafe.Sizeof(l)-at-unsafe.Sizeof(l.bound), uintptr(cacheline.Size))
}

func TestNoCallAllocates(t *testing.T) {
	if invariant.Enabled {
		t.Skip("the checks' messages allocate")
	}
	var g Global[item]
	p := newPerCPU(t, Config{Lanes: 4})
	it := newItems(64)
	refs := make([]Ref[item], 8)
	tick := int64(0)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		for i := range it {
			tick++
			p.Insert(i, &it[i].node, tick)
			p.Touch(&it[i/2].node, tick)
		}
		p.Oldest()
		p.PopIdle(5)
		p.PopOldest()
		p.PopOwn(1)
		p.PopBatch(refs, Any)
		for i := range it {
			p.Remove(&it[i].node)
			g.Insert(&it[i].node, tick)
			g.Touch(&it[i/2].node, tick)
		}
		g.Oldest()
		g.PopIdle(5)
		for range it {
			g.PopOldest()
		}
	}))
}

// Touch takes no lock: it goes through while every lock of the list is held.
func TestTouchTakesNoLock(t *testing.T) {
	p := newPerCPU(t, Config{Lanes: 2})
	it := newItems(1)
	p.Insert(0, &it[0].node, 1)
	for i := range p.lanes {
		p.lanes[i].mu.Lock()
	}
	p.Touch(&it[0].node, 2) // a deadlock if it locked
	require.Equal(t, int64(2), it[0].node.Tick())
	require.Equal(t, 1, p.Len())
	for i := range p.lanes {
		p.lanes[i].mu.Unlock()
	}
}
