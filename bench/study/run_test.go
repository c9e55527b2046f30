package study

import (
	"context"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"corelane/internal/race"
)

// little is a load that takes milliseconds, and in which every design gives
// something up.
func little() *Load {
	return &Load{Name: "little", link: ipv4, budget: 256 * kib, counted: 5 * ms, make: func(m *Traffic) {
		s := overloaded(30, 20, 2, 0.01)
		s.end = 30 * ms
		s.add(m)
		loneFirst.at(anywhere, 0, 30*ms).add(m)
	}}
}

func TestPlanSameCellsOnAnyNumberOfCores(t *testing.T) {
	plan := Plan{Loads: []*Load{little(), find(t, "S10 10x64K memory=256KiB burst=8 loss=1%")}, Designs: Designs(), Seeds: 2}
	plan.Loads[1].make = little().make
	if race.Enabled {
		plan.Designs, plan.Seeds = []string{"percpu-lru", "worth"}, 1
	}
	var before []*Cell
	for _, cores := range []int{1, 2, 8} {
		was := runtime.GOMAXPROCS(cores)
		cells, err := plan.Run(t.Context())
		runtime.GOMAXPROCS(was)
		require.NoError(t, err)
		require.Len(t, cells, 2*len(plan.Designs))
		if before != nil {
			require.Equal(t, before, cells)
		}
		before = cells
	}
}

func TestPlanTellsHowFarItIsAndStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var seen []int
	plan := Plan{Loads: []*Load{little()}, Designs: []string{"hard-limit"}, Seeds: 5, Progress: func(done, all int, l *Load) {
		seen = append(seen, done)
		require.Equal(t, 5, all)
		require.Equal(t, "little", l.Name)
	}}
	_, err := plan.Run(ctx)
	require.NoError(t, err)
	require.Equal(t, []int{1, 2, 3, 4, 5}, seen)
	cancel()
	_, err = plan.Run(ctx)
	require.ErrorIs(t, err, context.Canceled)
	plan.Designs = []string{"nobody's"}
	_, err = plan.Run(t.Context())
	require.ErrorContains(t, err, "nobody's")
}

// TestPerCPULimitIsThatOfTheOthers: all lanes together get High.
func TestPerCPULimitIsThatOfTheOthers(t *testing.T) {
	l := little()
	l.make = func(m *Traffic) { loneFirst.at(anywhere, 0, 30*ms).add(m) }
	tr := l.trace(1)
	for _, lanes := range []int{1, 4, 16} {
		o, err := simulate(t.Context(), tr, l, Options{Design: "percpu-lru", Lanes: lanes})
		require.NoError(t, err)
		require.InDelta(t, l.budget, o.Peak, float64(lanes)*3000)
	}
}

func TestSteeringSpreadsWhatItSays(t *testing.T) {
	var m Traffic
	same, other := m.open(1, 2, 0), m.open(1, 2, 0)
	lanes := func(s Steering, dgram uint32) map[int]bool {
		got := make(map[int]bool)
		for i := range 100 {
			got[s.lane(&m.dgrams[dgram], i, 4)] = true
		}
		return got
	}
	require.Len(t, lanes(BySource, same), 1)
	require.Equal(t, lanes(BySource, same), lanes(BySource, other))
	require.Len(t, lanes(ByKey, same), 1)
	require.Len(t, lanes(ByPacket, same), 4)
	s, err := FindSteering("key")
	require.NoError(t, err)
	require.Equal(t, ByKey, s)
	_, err = FindSteering("luck")
	require.Error(t, err)
}

func TestJainIsOneIfAllGetTheSameShare(t *testing.T) {
	a := &achievable{sources: map[uint32]int64{1: 100, 2: 50, 3: 10, 4: 10}}
	o := &Outcome{sources: map[uint32]int64{1: 50, 2: 25, 3: 5, 4: 5}}
	require.InDelta(t, 1, o.jain(a), 1e-9)
	o.sources = map[uint32]int64{1: 70}
	require.InDelta(t, 0.25, o.jain(a), 1e-9)
	o.sources = nil
	require.Zero(t, o.jain(a))
}

func TestRecoveryIsTheEndOfTheLastBadWindow(t *testing.T) {
	a := &achievable{line: make([]int64, 200)}
	for i := range a.line {
		a.line[i] = 10
	}
	o := &Outcome{line: append([]int64(nil), a.line...)}
	require.Zero(t, o.recovery(a, 100*ms))
	o.line[130] = 0 // half a millisecond in twenty is missing: not enough to matter
	o.line[131] = 0
	require.EqualValues(t, 32-1, o.recovery(a, 100*ms), "windows that hold both fall short")
	for i := range o.line {
		o.line[i] = 0
	}
	require.EqualValues(t, -1, o.recovery(a, 100*ms))
}

func TestCheckFindsWhatIsBelowItsPromise(t *testing.T) {
	l := little()
	l.ofBound, l.groups = 50, []float64{0, 90}
	cells := []*Cell{
		{Load: "little", Design: "worth", OfBound: 60, Groups: []float64{10, 95}, load: l, over: 2560},
		{Load: "little", Design: "global-lru", OfBound: 62, load: l},
		{Load: "little", Design: "walker", OfBound: 5, load: l},
	}
	require.Len(t, Check(cells, "worth"), 4)
	require.Empty(t, Missed(Check(cells, "worth")))
	cells[1].OfBound = 64
	missed := Missed(Check(cells, "worth"))
	require.Len(t, missed, 1)
	require.Contains(t, missed[0].What, "global-lru")
	cells[1].OfBound, cells[0].Groups[1], cells[0].over = 1, 89, 2561
	require.Len(t, Missed(Check(cells, "worth")), 2)
}
