package main

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"corelane/bench/scenario"
	"corelane/internal/race"
)

// reportOf runs some scenarios with all designs and returns the report.
func reportOf(t *testing.T, procs int, args ...string) string {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
	path := filepath.Join(t.TempDir(), "report.html")
	_, _, err := simulate(t, append(args, "-o", path)...)
	require.NoError(t, err)
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(page)
}

func TestReportSameSeedSameBytes(t *testing.T) {
	race.Skip(t)
	args := []string{"--scenario", "collision", "--design", "hard-limit,walker", "--seed", "2"}
	once := reportOf(t, 1, args...)
	require.Equal(t, once, reportOf(t, 2, args...), "GOMAXPROCS=2")
	args[len(args)-1] = "3"
	require.NotEqual(t, once, reportOf(t, 2, args...), "another seed")
}

// someRows are runs whose figures are of every kind, for the tests below.
var someRows = sync.OnceValues(func() (*scenario.Plan, []*scenario.Row) {
	plan := &scenario.Plan{Designs: []string{"global-lru", "hard-limit"}, Scale: scenario.Quick, Seed: 1}
	var err error
	if plan.Scenarios, err = scenario.Find([]string{"recovery", "twenty-gig", "lossy-nic", "collision"}); err != nil {
		panic(err)
	}
	rows, err := plan.Run(context.Background())
	if err != nil {
		panic(err)
	}
	return plan, rows
})

// TestReportStandsAlone: it names nothing that a browser would have to fetch, and
// each chart in it is well-formed.
func TestReportStandsAlone(t *testing.T) {
	race.Skip(t)
	var page, again strings.Builder
	require.NoError(t, newReport(someRows()).render(&page))
	require.NoError(t, newReport(someRows()).render(&again))
	require.Equal(t, page.String(), again.String())

	require.NotRegexp(t, `(?i)(src|href)\s*=\s*["']?(https?:|//|[a-z]+\.(js|css))|<script|<link|@import|url\(`, page.String())
	for _, s := range []string{"recovery", "twenty-gig", "lossy-nic", "collision"} {
		require.Contains(t, page.String(), `<h2 id="`+s+`">`)
	}
	charts := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(page.String(), -1)
	require.Greater(t, len(charts), 15)
	for _, c := range charts {
		d := xml.NewDecoder(strings.NewReader(c))
		for {
			_, err := d.Token()
			if err == io.EOF {
				break
			}
			require.NoError(t, err)
		}
		require.NotRegexp(t, `#[0-9A-Fa-f]{6}`, c, "colours are the style sheet's")
		require.NotContains(t, c, "NaN")
	}
	for _, use := range regexp.MustCompile(`var\((--[a-z0-9]+)\)`).FindAllStringSubmatch(page.String(), -1) {
		require.Contains(t, page.String(), use[1]+":", "a colour that is not defined")
	}
}

// TestReportShowsEveryRun has a cell for each, with the colour of its share.
func TestReportShowsEveryRun(t *testing.T) {
	race.Skip(t)
	plan, rows := someRows()
	rep := newReport(plan, rows)
	cells := 0
	for i, sec := range rep.Sections {
		require.Equal(t, plan.Scenarios[i].Name, sec.Name)
		require.NotEmpty(t, sec.Figures)
		for _, l := range sec.Lines {
			for _, c := range l.Cells {
				if sec.Name == "recovery" {
					require.Equal(t, rows[cells].RecoveryMs == nil, c.Text == "never")
					require.InDelta(t, quickness(rows[cells].RecoveryMs), c.Share, 1e-9)
				} else {
					require.InDelta(t, *rows[cells].GoodputOfBound, c.Share, 1e-9)
				}
				require.NotContains(t, c.Text, "ns", "real time is not in the report")
				cells++
			}
		}
	}
	require.Equal(t, len(rows), cells)
	require.Len(t, rep.Overview, 4)
}

// TestRoundTicksAreFewAndRound over ranges of every size.
func TestRoundTicksAreFewAndRound(t *testing.T) {
	for _, to := range []float64{0.03, 0.9, 1, 4.2, 5, 9, 20, 63, 100, 999, 14_000} {
		ticks := roundTicks{}.Ticks(0, to)
		require.GreaterOrEqual(t, len(ticks), 3, to)
		require.LessOrEqual(t, len(ticks), 6, to)
		require.Equal(t, "0", ticks[0].Label)
		require.LessOrEqual(t, ticks[len(ticks)-1].Value, to*(1+1e-9))
	}
}

// TestThroughputMeasuresAndIsShown makes the shortest measurement, as JSON, and
// puts it into a report.
func TestThroughputMeasuresAndIsShown(t *testing.T) {
	var out strings.Builder
	cmd := newThroughputCommand()
	cmd.SetOut(&out)
	cmd.SetErr(io.Discard)
	cmd.SetArgs([]string{"--json", "--design", "global-lru,hard-limit", "--for", "50ms", "--rounds", "3"})
	require.NoError(t, cmd.ExecuteContext(t.Context()))
	path := filepath.Join(t.TempDir(), "throughput.json")
	require.NoError(t, os.WriteFile(path, []byte(out.String()), 0o600))
	var got throughput
	require.NoError(t, json.Unmarshal([]byte(out.String()), &got))
	require.Len(t, got.Rates, 3*2*2)
	for _, r := range got.Rates {
		require.Positive(t, r.Median)
		require.LessOrEqual(t, r.Min, r.Median)
		require.LessOrEqual(t, r.Median, r.Max)
	}
	require.Len(t, got.Collision, 2)
	for _, c := range got.Collision {
		require.Len(t, c.Ns, len(phases))
	}
	page := reportOf(t, 2, "--scenario", "collision", "--design", "global-lru,hard-limit", "--throughput", path)
	require.Contains(t, page, got.Machine)

	_, _, err := simulate(t, "--scenario", "collision", "--design", "global-lru", "-o", path+".html", "--throughput", path+".none")
	require.Error(t, err)
}
