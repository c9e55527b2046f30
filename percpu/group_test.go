package percpu

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGroupCountersDoNotOverlap(t *testing.T) {
	for _, n := range []int{1, 2, 15, 16, 17, 40} {
		g := NewGroup(n)
		require.Equal(t, n, g.Len())
		for i := range n {
			for lane := range 9 {
				g.AddAt(lane, i, int64(i+1))
			}
		}
		seen := 0
		for i, sum := range g.All() {
			require.EqualValues(t, 9*(i+1), sum, "n=%d i=%d", n, i)
			require.EqualValues(t, sum, g.Load(i))
			seen++
		}
		require.Equal(t, n, seen)
	}
}

func TestGroupConcurrentAddsAreAllCounted(t *testing.T) {
	g := NewGroup(5)
	var wg sync.WaitGroup
	for w := range 10 {
		wg.Go(func() {
			for i := range 5000 {
				g.Add(i%5, int64(w))
			}
		})
	}
	wg.Wait()
	for i, sum := range g.All() {
		require.EqualValues(t, 45*1000, sum, "i=%d", i)
	}
}

func TestGroupCellIsStable(t *testing.T) {
	g := NewGroup(4)
	cell := g.Cell(1, 3)
	for lane := range 200 {
		g.AddAt(lane, 3, 1)
	}
	require.Same(t, cell, g.Cell(1, 3))
	require.EqualValues(t, 1, cell.Load())
	n := 0
	for range g.Cells(3) {
		n++
	}
	require.Equal(t, g.Lanes(), n)
}

func TestGroupMisusePanics(t *testing.T) {
	require.PanicsWithValue(t, "percpu: NewGroup of 0 counters on 0 lanes", func() { NewGroup(0) })
	g := NewGroup(2)
	require.PanicsWithValue(t, "percpu: counter 2 of a group of 2", func() { g.Add(2, 1) })
	require.PanicsWithValue(t, "percpu: counter -1 of a group of 2", func() { g.Load(-1) })
	require.PanicsWithValue(t, "percpu: counter 2 of a group of 2", func() { g.Cells(2) })
}
