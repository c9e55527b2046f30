package scenario

import (
	"testing"

	"github.com/stretchr/testify/require"

	"corelane/internal/race"
)

func TestRecoveryGlobalLRUIsBackAtOnce(t *testing.T) {
	for _, r := range runScenario(t, &recovery, []string{"global-lru"}) {
		require.NotNil(t, r.RecoveryMs, r.Variant)
		require.LessOrEqual(t, *r.RecoveryMs, 20.0, r.Variant)
	}
}

func TestRecoveryHardLimitNeverWithinTheRun(t *testing.T) {
	race.Skip(t)
	for _, r := range runScenario(t, &recovery, []string{"hard-limit"}) {
		require.Nil(t, r.RecoveryMs, r.Variant)
		require.Zero(t, r.Expired, r.Variant)
	}
}

// TestRecoveryHardLimitWaitsForItsTimeout looks longer: the dead queues of the
// overload leave after 30 s. With loss that is no recovery, for new dead queues
// take their place.
func TestRecoveryHardLimitWaitsForItsTimeout(t *testing.T) {
	race.Skip(t)
	s := Scenario{Name: "recovery", Variants: func(Scale) []Variant {
		return []Variant{longRecovery(0), longRecovery(0.01)}
	}}
	rows := runScenario(t, &s, []string{"hard-limit"})
	require.NotNil(t, rows[0].RecoveryMs)
	require.InDelta(t, 29_000, *rows[0].RecoveryMs, 1000, "they were made up to a second before the stop")
	require.Positive(t, rows[0].Expired)
	require.Nil(t, rows[1].RecoveryMs)
}

// TestRecoveryIsTheEndOfTheLastShortfall checks the definition on timelines made
// by hand.
func TestRecoveryIsTheEndOfTheLastShortfall(t *testing.T) {
	const stop, length = 100, 400
	for _, c := range []struct {
		name  string
		short func(i int) bool // bins without delivery
		want  *float64
	}{
		{"none", func(i int) bool { return false }, ref(0)},
		{"before the stop only", func(i int) bool { return i < stop }, ref(0)},
		// A window may miss 5 % of 20 bins: one.
		{"one bin", func(i int) bool { return i == 150 }, ref(0)},
		{"ten bins", func(i int) bool { return i >= stop && i < stop+10 }, ref(9)},
		{"twice", func(i int) bool { return i >= stop && i < stop+10 || i >= 200 && i < 210 }, ref(109)},
		{"always", func(i int) bool { return i >= stop }, nil},
		{"at the end", func(i int) bool { return i >= length-2 }, nil},
	} {
		t.Run("short="+c.name, func(t *testing.T) {
			m := &meter{variant: &Variant{Stop: stop * timelineStep}, timeline: make([]Point, length)}
			for i := range m.timeline {
				m.timeline[i].Achievable = 1000
				if !c.short(i) {
					m.timeline[i].Delivered = 1000
				}
			}
			require.Equal(t, c.want, m.recovery())
		})
	}
}
