package study

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"corelane/internal/race"
)

// The study's claims, one test each, on runs cut short.

// brief runs the first part of a load with some designs.
func brief(t *testing.T, name string, counted, end int64, designs ...string) map[string]*Cell {
	t.Helper()
	l := *find(t, name)
	l.counted = counted
	tr := l.trace(1).until(end)
	a := tr.achievable(l.counted)
	bound := tr.ceiling(l.link.charge, l.budget, l.counted).At(l.budget)
	cells := make(map[string]*Cell)
	for _, d := range designs {
		o := Options{Design: d, Seed: 1}
		if d == "percpu-lru" {
			o.Lanes = LanesOfPerCPU
		}
		out, err := simulate(t.Context(), tr, &l, o)
		require.NoError(t, err)
		r := &result{outcome: out, achievable: a, bound: bound, jain: out.jain(a)}
		if l.stop > 0 {
			r.recovery = out.recovery(a, l.stop)
		}
		cells[d] = newCell(&l, d, []*result{r})
		t.Logf("%s, %s: %.1f %%", name, d, cells[d].OfBound)
	}
	return cells
}

func TestWhereMemoryIsShortWorthCompletesHalfOfTheBoundAndOthersNothing(t *testing.T) {
	race.Skip(t)
	for _, name := range []string{"S1 streams=200x64K burst=8 loss=0%", "S1 streams=200x64K burst=1 loss=1%"} {
		for d, c := range brief(t, name, 100*ms, 250*ms, Designs()...) {
			if d == "worth" {
				require.GreaterOrEqual(t, c.OfBound, 55.0)
			} else {
				require.LessOrEqual(t, c.OfBound, 15.0, d)
			}
		}
	}
}

func TestLossStopsWhoeverOnlyRefuses(t *testing.T) {
	race.Skip(t)
	cells := brief(t, "S1 streams=10x64K burst=8 loss=1%", 100*ms, 250*ms, "hard-limit", "adaptive", "global-lru", "worth")
	require.LessOrEqual(t, cells["hard-limit"].OfBound, 1.0)
	require.LessOrEqual(t, cells["adaptive"].OfBound, 1.0)
	require.GreaterOrEqual(t, cells["global-lru"].OfBound, 99.0)
	require.GreaterOrEqual(t, cells["worth"].OfBound, 99.0)
}

func TestFloodsDoNothingToAgeAndWorth(t *testing.T) {
	race.Skip(t)
	for _, kind := range []string{"lone-first from=good", "43-of-44 from=anywhere", "half-whole from=4096"} {
		cells := brief(t, "S3 20G64K flood="+kind, 80*ms, 130*ms, "global-lru", "percpu-lru", "worth", "warm-lru", "hard-limit")
		for _, d := range []string{"global-lru", "percpu-lru", "worth"} {
			require.GreaterOrEqual(t, cells[d].OfBound, 99.0, "%s, %s", kind, d)
		}
		require.LessOrEqual(t, cells["warm-lru"].OfBound, 10.0, kind)
		require.LessOrEqual(t, cells["hard-limit"].OfBound, 5.0, kind)
	}
}

func TestFloodOnOverloadLeavesWorthWhatItHad(t *testing.T) {
	race.Skip(t)
	for _, kind := range []string{"lone-first from=good", "2-of-3 from=anywhere"} {
		cells := brief(t, "S3x 200x64K burst=8 flood="+kind, 100*ms, 250*ms, "global-lru", "worth")
		require.LessOrEqual(t, cells["global-lru"].OfBound, 5.0)
		require.GreaterOrEqual(t, cells["worth"].OfBound, 50.0, kind)
	}
}

// TestKnownSlowSenderLives: 4 MiB hold 1.6 ms of the flood, and its fragments are
// 23 ms apart.
func TestKnownSlowSenderLives(t *testing.T) {
	race.Skip(t)
	cells := brief(t, "S4 slow=3F known memory=4MiB", 2*second, 2400*ms, "global-lru", "worth")
	require.LessOrEqual(t, cells["global-lru"].OfBound, 15.0, "only what was there when the flood began")
	require.GreaterOrEqual(t, cells["worth"].OfBound, 99.0)
}

func TestRecoveryTakesAgeOrWorth(t *testing.T) {
	race.Skip(t)
	cells := brief(t, "S1r burst=8 loss=1%", second, 1300*ms, "global-lru", "worth", "hash-clean", "hard-limit")
	for _, d := range []string{"global-lru", "worth"} {
		require.GreaterOrEqual(t, cells[d].RecoveryMs, 0.0, d)
		require.LessOrEqual(t, cells[d].RecoveryMs, float64(recoverWithin), d)
	}
	require.EqualValues(t, -1, cells["hash-clean"].RecoveryMs)
	require.EqualValues(t, -1, cells["hard-limit"].RecoveryMs)
}

func TestHogDoesNotStarveTheAveragePeer(t *testing.T) {
	race.Skip(t)
	cells := brief(t, "S5 hog=200x64K burst=1 loss=0% beside=1", 100*ms, 300*ms, "global-lru", "worth")
	require.GreaterOrEqual(t, cells["worth"].Groups[2], 97.0)
	require.GreaterOrEqual(t, cells["worth"].Groups[0], 25.0, "and the hog lives")
	require.LessOrEqual(t, cells["global-lru"].Groups[0], 5.0)
}

// TestNoRateIsBuiltIn: the same load at 1 and at 100 Gbit/s.
func TestNoRateIsBuiltIn(t *testing.T) {
	race.Skip(t)
	var got []float64
	for _, rate := range []struct {
		name   string
		packet int64
	}{{"1G", 12_000}, {"100G", 120}} {
		name := fmt.Sprintf("HV rate=%s 200x64K burst=8 loss=1%%", rate.name)
		got = append(got, brief(t, name, 60_000*rate.packet, 200_000*rate.packet, "worth")["worth"].OfBound)
	}
	require.InDelta(t, got[0], got[1], 6)
}

// TestWhoLooksLikeAnotherCannotBeToldApart: where every design loses.
func TestWhoLooksLikeAnotherCannotBeToldApart(t *testing.T) {
	race.Skip(t)
	cells := brief(t, "S4x slow=3F known memory=4MiB flood-from=its-address,its-size", 2*second, 2400*ms, "global-lru", "percpu-lru", "work-queue", "worth")
	for d, c := range cells {
		require.LessOrEqual(t, c.OfBound, 25.0, d)
	}
}
