package study

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"corelane/reasm"
)

// Plan is a set of runs: each load with each design, for seeds 1 to Seeds.
type Plan struct {
	Loads   []*Load
	Designs []string
	Seeds   int
	// Lanes is how many virtual CPUs the cache has; 0 is 1, but percpu-lru gets
	// LanesOfPerCPU then.
	Lanes int
	Steer Steering
	// Progress, if not nil, is told after each load and seed how many are done.
	// Calls do not overlap.
	Progress func(done, all int, l *Load)
	// Done, if not nil, is given each load's cells when they and all before them
	// are known. Calls do not overlap.
	Done func(cells []*Cell)
}

// LanesOfPerCPU is how many lanes percpu-lru gets where the others get one: with
// a single lane it is global-lru.
const LanesOfPerCPU = 4

// Designs returns the names of all designs, oldest idea first.
func Designs() []string {
	var names []string
	for _, d := range reasm.Designs() {
		names = append(names, d.Name)
	}
	return names
}

// Cell is what one design made of one load, a mean over seeds. Shares are in
// percent.
type Cell struct {
	Load   string `json:"load"`
	Set    string `json:"set"`
	Design string `json:"design"`
	Seeds  int    `json:"seeds"`
	// OfBound is the value completed, as a share of what any cache could have
	// completed within the limit.
	OfBound float64 `json:"of_bound"`
	// Deviation is the standard deviation of that from seed to seed.
	Deviation float64 `json:"deviation"`
	// Bound is the bound as a share of what could be completed; 100 is memory no
	// obstacle.
	Bound float64 `json:"bound"`
	// Groups are the groups' shares of what each could complete, -1 where there
	// is no such group; nil if there is one group.
	Groups []float64 `json:"groups,omitempty"`
	Jain   float64   `json:"jain"` // over sources
	// Peak is the most memory charged, as a share of the limit.
	Peak float64 `json:"peak"`
	// RecoveryMs is the time until goodput is back, in the worst seed; -1 is never,
	// and 0 where nothing is asked.
	RecoveryMs float64 `json:"recovery_ms"`
	Evicted    float64 `json:"evicted"`
	Refused    float64 `json:"refused"`
	Spliced    float64 `json:"spliced"`

	over int64 // most bytes by which a run was above the limit
	load *Load
}

// Run makes the runs on as many goroutines as there are Ps and returns their
// cells, loads in order, designs in theirs.
func (p *Plan) Run(ctx context.Context) ([]*Cell, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	jobs := len(p.Loads) * p.Seeds
	results := make([][]*result, jobs) // of each design
	errs := make([]error, jobs)
	var (
		wg    sync.WaitGroup
		next  atomic.Int64
		mu    sync.Mutex
		done  int     // guarded by mu
		cells []*Cell // of the first loads; guarded by mu
	)
	for range min(runtime.GOMAXPROCS(0), jobs) {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= jobs || ctx.Err() != nil {
					return
				}
				l := p.Loads[i/p.Seeds]
				rs, err := p.job(ctx, l, uint64(i%p.Seeds)+1)
				if errs[i] = err; err != nil {
					cancel()
					return
				}
				mu.Lock()
				results[i] = rs
				cells = p.finish(cells, results)
				if done++; p.Progress != nil {
					p.Progress(done, jobs, l)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return cells, ctx.Err()
}

// finish makes the cells of the loads that are complete and follow those of
// cells.
func (p *Plan) finish(cells []*Cell, results [][]*result) []*Cell {
	for i := len(cells) / len(p.Designs); i < len(p.Loads); i++ {
		seeds := results[i*p.Seeds : (i+1)*p.Seeds]
		if slices.ContainsFunc(seeds, func(rs []*result) bool { return rs == nil }) {
			break
		}
		for d, name := range p.Designs {
			var rs []*result
			for _, s := range seeds {
				rs = append(rs, s[d])
			}
			cells = append(cells, newCell(p.Loads[i], name, rs))
		}
		if p.Done != nil {
			p.Done(cells[len(cells)-len(p.Designs):])
		}
	}
	return cells
}

// result is one run, reduced to what is kept of it.
type result struct {
	outcome    *Outcome
	achievable *achievable
	bound      float64
	jain       float64
	recovery   float64
}

// job runs every design on one load and seed.
func (p *Plan) job(ctx context.Context, l *Load, seed uint64) ([]*result, error) {
	t := l.trace(seed)
	a := t.achievable(l.counted)
	bound := t.ceiling(l.link.charge, l.budget, l.counted).At(l.budget)
	var rs []*result
	for _, d := range p.Designs {
		o := Options{Design: d, Lanes: p.Lanes, Steer: p.Steer, Seed: seed}
		if d == "percpu-lru" && p.Lanes == 0 {
			o.Lanes = LanesOfPerCPU
		}
		out, err := simulate(ctx, t, l, o)
		if err != nil {
			return nil, fmt.Errorf("%s, %s, seed %d: %w", l.Name, d, seed, err)
		}
		r := &result{outcome: out, achievable: a, bound: bound, jain: out.jain(a)}
		if l.stop > 0 {
			r.recovery = out.recovery(a, l.stop)
		}
		out.sources, out.line = nil, nil
		rs = append(rs, r)
	}
	a.sources, a.line = nil, nil
	return rs, nil
}

func newCell(l *Load, design string, rs []*result) *Cell {
	c := &Cell{Load: l.Name, Set: l.Set.String(), Design: design, Seeds: len(rs), load: l}
	n := float64(len(rs))
	var got, could, bound, squares float64
	groups, inGroup := make([]float64, uncounted), make([]float64, uncounted)
	for _, r := range rs {
		o := r.outcome
		got += float64(o.Completed)
		could += float64(r.achievable.all)
		bound += r.bound
		for g := range groups {
			groups[g] += float64(o.Groups[g])
			inGroup[g] += float64(r.achievable.groups[g])
		}
		c.Jain += r.jain / n
		c.Peak = max(c.Peak, 100*float64(o.Peak)/float64(l.budget))
		c.over = max(c.over, o.Peak-l.budget)
		c.Evicted += float64(o.Stats.Evicted) / n
		c.Refused += float64(o.Stats.Verdicts[reasm.Refused]) / n
		c.Spliced += float64(o.Spliced) / n
		switch {
		case r.recovery < 0 || c.RecoveryMs < 0:
			c.RecoveryMs = -1
		default:
			c.RecoveryMs = max(c.RecoveryMs, r.recovery)
		}
	}
	c.OfBound, c.Bound = share(got, bound), share(bound, could)
	for _, r := range rs {
		x := share(float64(r.outcome.Completed), r.bound) - c.OfBound
		squares += x * x
	}
	if n > 1 {
		c.Deviation = math.Sqrt(squares / (n - 1))
	}
	last := 0
	for g := range groups {
		if inGroup[g] > 0 {
			last = g
			groups[g] = share(groups[g], inGroup[g])
		} else {
			groups[g] = -1
		}
	}
	if last > 0 {
		c.Groups = groups[:last+1]
	}
	return c
}

func share(part, all float64) float64 {
	if all == 0 {
		return 0
	}
	return 100 * part / all
}
