package scale

import (
	"context"
	"math"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"corelane/bench/scale/cell"
)

// built is the rig of all tests, once one has asked for it.
var built *Rig

var rigged = sync.OnceValue(func() (err error) {
	built, err = NewRig(context.Background())
	return err
})

func TestMain(m *testing.M) {
	code := m.Run()
	if built != nil {
		built.Close()
	}
	os.Exit(code)
}

func rig(t *testing.T) (*Rig, *Constants) {
	t.Helper()
	if testing.Short() {
		t.Skip("compiles the marked library")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go command")
	}
	require.NoError(t, rigged())
	k, err := Committed()
	require.NoError(t, err)
	return built, k
}

func run(t *testing.T, design string, cpus int, l Load) *cell.Outcome {
	t.Helper()
	r, k := rig(t)
	p, _ := k.Machines("clusters")
	o, err := r.Run(t.Context(), l.cell(design, cpus, k.under(design, p), 1))
	require.NoError(t, err)
	return o
}

// Two processes with heaps of their own say the same, to the last bit.
func TestSameSeedGivesTheSameOutcome(t *testing.T) {
	for _, design := range []string{"global-lru", "percpu-lru", "worth"} {
		for _, l := range []Load{Loads()[0], Loads()[5]} {
			a, b := run(t, design, 4, l), run(t, design, 4, l)
			require.Equal(t, a, b, "%s %s", design, l.Name)
		}
	}
}

// What percpu-lru shares hardly matters on few CPUs, and a lock that everybody takes
// for every fragment is a wall.
func TestOnePerCPUListScalesAndOneListDoesNot(t *testing.T) {
	l := Loads()[0]
	require.InEpsilon(t, 4*run(t, "percpu-lru", 1, l).Rate, run(t, "percpu-lru", 4, l).Rate, 0.05)
	require.Less(t, run(t, "global-lru", 16, l).Rate, 2*run(t, "global-lru", 1, l).Rate)
}

// No design beats CPUs over what a fragment costs on one.
func TestNobodyScalesBeyondHisCPUs(t *testing.T) {
	p, err := CommittedPrediction()
	require.NoError(t, err)
	one := make(map[string]float64)
	for _, x := range p.Points {
		if x.Load != "64K" && x.Load != "3F" {
			continue // beside an attack on one CPU another CPU is free of it
		}
		if x.CPUs == 1 {
			one[x.Design+x.Load] = x.Rate
			require.Positive(t, x.Rate)
		}
		require.LessOrEqual(t, x.Rate, float64(x.CPUs)*one[x.Design+x.Load]*1.03, "%s %s %d", x.Design, x.Load, x.CPUs)
	}
}

// Mail 002: a list per CPU is ahead of one for all, more under an attack, and most
// when the attack is on all receive queues.
//
// That order is the mail's; its ratios (1.09 and 1.19, 2.7 and 2.0, 8.7 and 5.1) are
// not reached to within a quarter, but exceeded, for reasons that doc.go has: our
// global-lru has one lock for the table too, which the kernel of the mail had not,
// and our percpu-lru lacks the shared word that was the kernel's next limit.
func TestPerCPUListIsAheadAsInMail002(t *testing.T) {
	r, k := rig(t)
	table, err := Mail(t.Context(), r, k, []string{"global-lru", "percpu-lru"}, 1, nil)
	require.NoError(t, err)
	ours, mail := Gains(table)
	require.Len(t, ours, len(mailColumns))
	for i := range ours {
		// At least the mail's ratio, less a quarter.
		require.GreaterOrEqual(t, ours[i], 0.75*mail[i], mailColumns[i].load.Name)
	}
	for i := range 2 { // 64K, 3F
		base, dos, mq := ours[i], ours[i+2], ours[i+4]
		require.Less(t, base, dos)
		require.Less(t, dos, mq)
	}
	// net-next falls from column to column, as in the mail.
	for i := range 2 {
		require.Greater(t, table[i].Mbps, table[i+2].Mbps)
		require.Greater(t, table[i+2].Mbps, table[i+4].Mbps)
	}
}

// The committed table is what this library does, more or less: whoever changes a
// design makes it anew (see doc.go).
func TestCommittedPredictionIsOfThisLibrary(t *testing.T) {
	p, err := CommittedPrediction()
	require.NoError(t, err)
	r, k := rig(t)
	params, ok := k.Machines(p.Machine)
	require.True(t, ok)
	require.Equal(t, params, p.Params, "made with other constants")
	for _, d := range AllDesigns() {
		want := 0.0
		for _, x := range p.Points {
			if x.Design == d && x.Load == "64K" && x.CPUs == 4 {
				want = x.Rate
			}
		}
		o, err := r.Run(t.Context(), Loads()[0].cell(d, 4, k.under(d, params), p.Seed))
		require.NoError(t, err)
		require.InEpsilon(t, want, o.Rate, 0.25, d)
	}
}

func TestCurvesHaveAllDesignsAndLoads(t *testing.T) {
	cs, err := Curves()
	require.NoError(t, err)
	require.Len(t, cs, len(AllDesigns())*len(Loads()))
	for _, c := range cs {
		require.Equal(t, CPUCounts(), c.CPUs)
		require.Len(t, c.Rate, len(c.CPUs))
		for _, r := range c.Rate {
			require.False(t, math.IsNaN(r) || r < 0)
		}
	}
}

// The micro-benchmarks come out on the virtual machine as they did on the real one.
func TestSimulatedMicroBenchmarksComeOutAsTimed(t *testing.T) {
	k, err := Committed()
	require.NoError(t, err)
	private := make(map[int]float64)
	for _, m := range k.Micro {
		if m.Kind == "work" {
			private[m.Work] = m.Near.Median
		}
	}
	for _, r := range k.Micro {
		if r.Near.N < enough {
			continue
		}
		m := &micro{kind: r.Kind, work: r.Work, threads: r.Threads}
		got := m.simulate(k.Machine, private[r.Work])
		require.InEpsilon(t, r.Near.Median, got, 0.25, "%s after %d loads on %d", r.Kind, r.Work, r.Threads)
	}
}
