package scenario

import (
	"context"
	"encoding/json"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// someVariants is a cheap scenario with everything in it that could make a run
// depend on chance.
var someVariants = Scenario{Name: "some", Variants: func(Scale) []Variant {
	var vs []Variant
	for _, loss := range []Loss{Bernoulli(0.01), nil} {
		vs = append(vs, Variant{
			Name: "some", Limits: limits(1 * mib), Lanes: 4, Groups: []string{"good", "late"},
			Traffic: func(m *Mix) {
				Streams{
					N: 50, From: FromEach(Host(1)), Size: HeavyTail, Interleave: 3, Rate: 1e9, End: 60 * ms,
					Path: Path{Loss: loss, Jitter: ms, Duplicate: 0.01}, Steer: Steer{By: ByID, Lanes: 3},
				}.Add(m)
				Paced{Group: 1, From: Host(100), Fragments: 3, Gap: 5 * ms, End: 60 * ms}.Add(m)
				flood := TwoOfThree
				flood.From, flood.Rate, flood.End, flood.Steer = FromAnywhere, 1e5, 60*ms, Steer{First: 3}
				flood.Add(m)
			},
		})
	}
	return vs
}}

func TestSameSeedSameRows(t *testing.T) {
	rows := func(procs int, seed uint64) string {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		plan := Plan{Scenarios: []*Scenario{&someVariants}, Designs: allDesigns(t), Seed: seed}
		rows, err := plan.Run(t.Context())
		require.NoError(t, err)
		out, err := json.Marshal(rows)
		require.NoError(t, err)
		return string(out)
	}
	once := rows(1, 7)
	require.Equal(t, once, rows(1, 7), "again")
	require.Equal(t, once, rows(2, 7), "GOMAXPROCS=2")
	require.NotEqual(t, once, rows(2, 8), "another seed")
}

func TestPlanTellsProgressAndKeepsOrder(t *testing.T) {
	designs := allDesigns(t)
	last := 0
	plan := Plan{Scenarios: []*Scenario{&someVariants}, Designs: designs, Seed: 1, Progress: func(done, all int, r *Row) {
		last++
		require.Equal(t, last, done)
		require.Equal(t, 2*len(designs), all)
		require.NotEmpty(t, r.Design)
	}}
	rows, err := plan.Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, len(rows), last)
	for i, r := range rows {
		require.Equal(t, designs[i%len(designs)], r.Design)
	}
}

func TestPlanStops(t *testing.T) {
	t.Run("context=done", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		plan := Plan{Scenarios: Scenarios(), Designs: allDesigns(t), Seed: 1, Progress: func(int, int, *Row) { cancel() }}
		_, err := plan.Run(ctx)
		require.ErrorIs(t, err, context.Canceled)
	})
	t.Run("design=unknown", func(t *testing.T) {
		plan := Plan{Scenarios: []*Scenario{&someVariants}, Designs: []string{"no-such"}, Seed: 1}
		_, err := plan.Run(t.Context())
		require.ErrorContains(t, err, "no-such")
		require.NotErrorIs(t, err, context.Canceled)
	})
}

func TestFindKeepsOrderAndNamesWhatIsUnknown(t *testing.T) {
	got, err := Find([]string{"recovery", "overload"})
	require.NoError(t, err)
	require.Equal(t, []*Scenario{&overload, &recovery}, got)
	_, err = Find([]string{"overload", "recover"})
	require.ErrorContains(t, err, `"recover"`)
	require.ErrorContains(t, err, "overload, recovery")
	_, err = FindDesigns([]string{"nobody"})
	require.ErrorContains(t, err, `"nobody"`)
}

// TestScenariosSayWhatTheyAre keeps the texts and names that results are read
// by.
func TestScenariosSayWhatTheyAre(t *testing.T) {
	for _, s := range Scenarios() {
		t.Run("scenario="+s.Name, func(t *testing.T) {
			for _, text := range []string{s.From, s.Ask, s.Load, s.Measure, s.Expect} {
				require.NotEmpty(t, text)
			}
			for _, scale := range []Scale{Quick, Normal, Full} {
				names := make(map[string]bool)
				for _, v := range s.Variants(scale) {
					require.Regexp(t, `^[a-z_]+=[^,=]+(,[a-z_]+=[^,=]+)*$`, v.Name)
					require.False(t, names[v.Name], "twice: %s", v.Name)
					names[v.Name] = true
				}
			}
		})
	}
}
