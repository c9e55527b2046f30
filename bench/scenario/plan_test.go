package scenario

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"corelane/internal/race"
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
					N: 50, From: FromEach(Host(1)), Size: HeavyTail, Interleave: 3, Rate: 1e9, End: 40 * ms,
					Path: Path{Loss: loss, Jitter: ms, Duplicate: 0.01}, Steer: Steer{By: ByID, Lanes: 3},
				}.Add(m)
				Paced{Group: 1, From: Host(100), Fragments: 3, Gap: 5 * ms, End: 40 * ms}.Add(m)
				flood := TwoOfThree
				flood.From, flood.Rate, flood.End, flood.Steer = FromAnywhere, 1e5, 40*ms, Steer{First: 3}
				flood.Add(m)
			},
		})
	}
	return vs
}}

func TestSameSeedSameRows(t *testing.T) {
	designs := allDesigns(t)
	if race.Enabled {
		designs = []string{"global-lru", "percpu-lru", "worth"}
	}
	rows := func(procs int, seed uint64) string {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		plan := Plan{Scenarios: []*Scenario{&someVariants}, Designs: designs, Seed: seed}
		rows, err := plan.Run(t.Context())
		require.NoError(t, err)
		var out strings.Builder
		require.NoError(t, json.NewEncoder(&out).Encode(rows))
		require.NoError(t, WriteCSV(&out, rows))
		return out.String()
	}
	once := rows(1, 7)
	require.Equal(t, once, rows(2, 7), "GOMAXPROCS=2")
	require.NotEqual(t, once, rows(2, 8), "another seed")
}

func TestCSVSaysWhatJSONSays(t *testing.T) {
	plan := Plan{Scenarios: []*Scenario{&someVariants, &recovery}, Designs: []string{"global-lru"}, Scale: brief, Seed: 7}
	rows, err := plan.Run(t.Context())
	require.NoError(t, err)
	var text strings.Builder
	require.NoError(t, WriteCSV(&text, rows))
	records, err := csv.NewReader(strings.NewReader(text.String())).ReadAll()
	require.NoError(t, err)
	require.Len(t, records, 1+len(rows))
	for i, r := range rows {
		raw, err := json.Marshal(r)
		require.NoError(t, err)
		var object map[string]any
		require.NoError(t, json.Unmarshal(raw, &object))
		for c, name := range records[0] {
			got := records[i+1][c]
			switch want := object[name].(type) {
			case nil:
				require.Empty(t, got, name) // null, or groups that are left out
			case float64:
				require.Equal(t, strconv.FormatFloat(want, 'f', -1, 64), got, name)
			case string:
				require.Equal(t, want, got, name)
			case []any:
				g := r.Groups
				require.Equal(t, fmt.Sprintf("good=%d/%d late=%d/%d", g[0].Completed, g[0].Completable, g[1].Completed,
					g[1].Completable), got)
			default:
				t.Fatalf("%s is a %T", name, want)
			}
			delete(object, name)
		}
		require.Empty(t, object, "not in the CSV")
	}
}

func TestTimelineIsThinnedWithoutLoss(t *testing.T) {
	for _, n := range []int{1, 999, 1000, 1001, 60_001} {
		points := make([]Point, n)
		for i := range points {
			points[i] = Point{Delivered: int64(i), Achievable: 2 * int64(i), Charged: int64(n - i)}
		}
		got, step := thin(points)
		require.LessOrEqual(t, len(got), timelinePoints)
		require.GreaterOrEqual(t, int64(len(got))*step, int64(n)*timelineStep)
		var sum Point
		for _, p := range got {
			sum.Delivered += p.Delivered
			sum.Achievable += p.Achievable
			sum.Charged = max(sum.Charged, p.Charged)
		}
		require.Equal(t, Point{int64(n * (n - 1) / 2), int64(n * (n - 1)), int64(n)}, sum)
	}
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
	names, err := FindDesigns([]string{"worth without hole+doom", "walker"})
	require.NoError(t, err)
	require.Equal(t, []string{"walker", "worth without hole+doom"}, names)
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
