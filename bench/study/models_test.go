package study

import (
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"corelane/internal/race"
)

// models is what the models reach: by load, by design. refined are those of a
// load that know of something more, and stand behind the others. exact is what a
// design itself reaches without what it has and its plain model has not.
func models(t *testing.T) (plain, refined, exact map[string]map[string]float64) {
	t.Helper()
	b, err := os.ReadFile("testdata/models.txt")
	require.NoError(t, err)
	var designs []string
	plain, refined = make(map[string]map[string]float64), make(map[string]map[string]float64)
	exact = make(map[string]map[string]float64)
	into := plain
	for line := range strings.Lines(string(b)) {
		parts := strings.Split(strings.TrimSpace(line), " | ")
		switch {
		case strings.HasPrefix(line, "# load"):
			designs = strings.Fields(parts[2])
		case strings.HasPrefix(line, "# refined"):
			designs, into = strings.Fields(parts[2]), refined
		case strings.HasPrefix(line, "# exact"):
			designs, into = strings.Fields(parts[2]), exact
		case strings.HasPrefix(line, "#"):
		default:
			into[parts[0]] = row(t, designs, strings.Fields(parts[2]))
		}
	}
	return plain, refined, exact
}

func row(t *testing.T, designs, figures []string) map[string]float64 {
	t.Helper()
	require.Len(t, figures, len(designs))
	r := make(map[string]float64)
	for i, d := range designs {
		if figures[i] == "-" {
			continue // was not run
		}
		r[d] = -1
		if figures[i] != "never" {
			var err error
			r[d], err = strconv.ParseFloat(strings.TrimSuffix(figures[i], "ms"), 64)
			require.NoError(t, err)
		}
	}
	return r
}

// matrix is the committed matrix: by load, by design.
func matrix(t *testing.T) map[string]map[string]float64 {
	t.Helper()
	b, err := os.ReadFile("../results/study-matrix.txt")
	require.NoError(t, err)
	var designs []string
	got := make(map[string]map[string]float64)
	for line := range strings.Lines(string(b)) {
		line = strings.TrimRight(line, "\n")
		fields := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "load "):
			designs = fields[2:]
		case designs == nil || len(fields) < len(designs)+2: // header, set
		default:
			name := line
			for range len(designs) + 1 { // the figures, and the bound before them
				name = strings.TrimRight(name[:strings.LastIndexByte(name, ' ')], " ")
			}
			got[name] = row(t, designs, fields[len(fields)-len(designs):])
		}
	}
	return got
}

// TestDesignsAgreeWithTheirModels: within five points on every load of the study
// that is in the matrix, the one that `fraglab study` printed and
// TestMatrixIsWhatStudyPrints tries. Where a design does more than its model,
// and that matters, the refined model does it too:
//
//   - hash-clean counts memory in batches of 130000 bytes, as Linux did, and the
//     model by the byte: what it evicts shows late, so it evicts more, and refuses
//     newcomers meanwhile.
//   - walker takes 16 queues at a time from the table; those that the goal makes
//     superfluous are passed over for a lap, and all were read before the newest
//     came. The model takes one after the other. Its worker wakes 30 µs after it
//     was asked; the harness steps every 30 µs, so on average it wakes after 15.
//
// Where no refined model was run, hash-clean itself without the batches stands in.
func TestDesignsAgreeWithTheirModels(t *testing.T) {
	race.Skip(t)
	plain, refined, exact := models(t)
	real, all, said := matrix(t), 0, make(map[string]int)
	for load, got := range real {
		for design, want := range plain[load] {
			if design == "worth" {
				continue // has grown beyond its model; Check holds it against promises
			}
			if _, ok := got[design]; !ok {
				continue
			}
			all++
			agree := func(want float64) bool {
				if strings.HasPrefix(load, "S1r") {
					// Milliseconds. A design that never quite recovers falls short again and
					// again, so when it did last is luck: late is as good as never.
					late := func(ms float64) bool { return ms < 0 || ms > 300 }
					return late(got[design]) && late(want) || math.Abs(got[design]-want) <= 20
				}
				return math.Abs(got[design]-want) <= 5
			}
			if agree(want) {
				continue
			}
			alike := load
			if design == "hash-clean" && strings.HasPrefix(load, "S3 20G3F flood=lone-") {
				alike = "S3 20G3F flood=lone-first from=anywhere" // it looks at neither source nor offset
			}
			better, ok := refined[alike][design]
			without, tried := exact[load][design]
			switch {
			case ok && agree(better):
				said["by the refined model"]++
			case tried && math.Abs(without-want) <= 5: // with an exact account it does what the model says
				said["by the account"]++
			case design == "walker" && tooSmallToWalk(load):
				said["by the size of the table"]++
			case fewWorkers(load, design) && math.Abs(got[design]-want) <= 15:
				said["by few datagrams, or not"]++
			default:
				t.Errorf("%s, %s: %.1f, its model %.1f (refined: %.1f, %t)", load, design, got[design], want, better, ok)
			}
		}
	}
	require.Greater(t, all, 8*90, "of the matrix is left")
	t.Logf("of %d cells these do not agree with the plain model; they are explained: %v", all, said)
}

// tooSmallToWalk names the loads where not even the refined walker agrees. In
// S10 with 64 KB memory holds two or three queues, and the table one chain or
// two: a walk that reads 16 at a time has no position in it. It is up to 15 points
// off, either way. In the other the queues are small and many, so that how far it
// reads ahead depends on how many share a chain: 95.1 for 89.3.
func tooSmallToWalk(load string) bool {
	return strings.HasPrefix(load, "S10 10x64K") || load == "S8 streams=200 heavy-tail burst=8 loss=0%"
}

// fewWorkers names a load where the designs with a worker are off. Its slow sender
// sends 57 datagrams, so one is 1.8 points and the model itself says 19.3 and 12.3
// of the same thing, twice. The mean of three seeds is 75.4 for walker, which is
// near its model's 71.9, and 24.0 for work-queue, which is not: what the real one
// does better is not known.
func fewWorkers(load, design string) bool {
	return load == "S4 slow=3F cold memory=240MiB" && (design == "walker" || design == "work-queue")
}

// TestMatrixIsWhatStudyPrints runs what takes a second.
func TestMatrixIsWhatStudyPrints(t *testing.T) {
	race.Skip(t)
	committed := matrix(t)
	plan := Plan{
		Loads:   []*Load{find(t, "S10 200x3F memory=256KiB burst=1 loss=1%")},
		Designs: []string{"global-lru", "warm-lru", "percpu-lru", "hash-clean", "work-queue", "hard-limit", "walker", "adaptive"},
		Seeds:   1,
	}
	cells, err := plan.Run(t.Context())
	require.NoError(t, err)
	for _, c := range cells {
		require.InDelta(t, committed[c.Load][c.Design], c.OfBound, 0.5, "%s, %s", c.Load, c.Design)
	}
}
