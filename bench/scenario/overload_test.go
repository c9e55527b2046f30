package scenario

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"corelane/internal/race"
)

// runScenario runs a scenario at the brief scale with some designs and returns
// the rows whose variant contains all of the given key=value pairs. It checks
// what holds for every run.
func runScenario(t *testing.T, s *Scenario, designs []string, only ...string) []*Row {
	t.Helper()
	return runScale(t, s, brief, designs, only...)
}

func runScale(t *testing.T, s *Scenario, scale Scale, designs []string, only ...string) []*Row {
	t.Helper()
	pruned := *s
	pruned.Variants = func(scale Scale) []Variant {
		var vs []Variant
		for _, v := range s.Variants(scale) {
			if matches(v.Name, only) {
				vs = append(vs, v)
			}
		}
		return vs
	}
	plan := Plan{Scenarios: []*Scenario{&pruned}, Designs: designs, Scale: scale, Seed: 1}
	rows, err := plan.Run(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, rows)
	for _, r := range rows {
		require.LessOrEqual(t, r.Completed, r.Bound, "%s %s", r.Variant, r.Design)
		require.LessOrEqual(t, r.Bound, r.Completable, "%s %s", r.Variant, r.Design)
		require.LessOrEqual(t, r.BoundNominal, r.Bound, "%s %s", r.Variant, r.Design)
		require.LessOrEqual(t, r.EvictedLive, r.Evicted, "%s %s", r.Variant, r.Design)
		require.Positive(t, r.Completable, "%s %s", r.Variant, r.Design)
	}
	return rows
}

func matches(variant string, only []string) bool {
	for _, kv := range only {
		if !strings.Contains(","+variant+",", ","+kv+",") {
			return false
		}
	}
	return true
}

func allDesigns(t *testing.T) []string {
	t.Helper()
	all, err := FindDesigns(nil)
	require.NoError(t, err)
	return all
}

// TestBoundHoldsForEveryDesign runs the load that is hardest to bound with all
// designs there are: runScenario compares with the bound.
func TestBoundHoldsForEveryDesign(t *testing.T) {
	race.Skip(t)
	runScenario(t, &overload, allDesigns(t), "streams=200", "loss=0.01")
}

func TestOverloadHardLimitCollapsesWithLoss(t *testing.T) {
	race.Skip(t)
	for _, r := range runScenario(t, &overload, []string{"hard-limit"}, "loss=0.01") {
		require.LessOrEqual(t, *r.GoodputOfBound, 0.05, r.Variant)
		require.Greater(t, r.Refused, r.Fragments*9/10, r.Variant)
		require.Zero(t, r.Evicted, r.Variant)
	}
	for _, r := range runScenario(t, &overload, []string{"hard-limit"}, "streams=10", "loss=0") {
		require.Equal(t, 1.0, *r.GoodputOfBound, "without loss nothing is refused: %s", r.Variant)
	}
}

func TestOverloadGlobalLRUDeliversWhatFits(t *testing.T) {
	race.Skip(t)
	for _, only := range []string{"streams=10", "interleave=44"} {
		for _, r := range runScenario(t, &overload, []string{"global-lru"}, only) {
			require.Equal(t, r.Completable, r.BoundNominal, "memory suffices: %s", r.Variant)
			require.GreaterOrEqual(t, *r.GoodputOfBound, 0.95, r.Variant)
			require.Zero(t, r.Refused, r.Variant)
		}
	}
}

func TestOverloadGlobalLRUThrashes(t *testing.T) {
	for _, r := range runScenario(t, &overload, []string{"global-lru"}, "streams=200", "interleave=8") {
		require.LessOrEqual(t, *r.GoodputOfBound, 0.12, r.Variant)
		require.Positive(t, *r.GoodputOfBound, r.Variant)
		require.Positive(t, r.EvictedLive, r.Variant)
	}
}

// TestOverloadBoundsAreThoseOfTheStudy compares the bounds with those of an
// independent program, in percent of what is completable.
func TestOverloadBoundsAreThoseOfTheStudy(t *testing.T) {
	race.Skip(t)
	for variant, want := range map[string]float64{
		"interleave=8,loss=0": 63, "interleave=8,loss=0.005": 72, "interleave=8,loss=0.01": 82, "interleave=8,loss=0.05": 100,
		"interleave=1,loss=0": 49, "interleave=1,loss=0.005": 59, "interleave=1,loss=0.01": 71, "interleave=1,loss=0.05": 100,
	} {
		r := runScale(t, &overload, Quick, []string{"hard-limit"}, append(strings.Split(variant, ","), "streams=200")...)[0]
		require.InDelta(t, want, 100*float64(r.BoundNominal)/float64(r.Completable), 2, r.Variant)
	}
}
