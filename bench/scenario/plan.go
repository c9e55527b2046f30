package scenario

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// Plan is a set of runs: every variant of the scenarios, with every design.
type Plan struct {
	Scenarios []*Scenario
	Designs   []string
	Scale     Scale
	Seed      uint64
	// Progress, if not nil, is told after each run how many are done. Calls do
	// not overlap.
	Progress func(done, all int, row *Row)
}

// Run makes the runs, on as many goroutines as there are Ps, and returns their
// rows: scenarios and variants in their order, designs in theirs. It returns the
// first error of that order, and that of ctx if it is done before the end.
func (p *Plan) Run(ctx context.Context) ([]*Row, error) {
	jobs := p.jobs()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		wg   sync.WaitGroup
		next atomic.Int64
		mu   sync.Mutex
		done int // guarded by mu
	)
	for range min(runtime.GOMAXPROCS(0), len(jobs)) {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(jobs) {
					return
				}
				j := jobs[i]
				if j.run(ctx, p.Seed); j.err != nil {
					cancel() // the others need not finish
					return
				}
				if p.Progress != nil {
					mu.Lock()
					done++
					p.Progress(done, len(jobs), j.row)
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	rows := make([]*Row, len(jobs))
	var failed error
	for i, j := range jobs {
		// A run that was cancelled because of another is not the reason.
		if j.err != nil && (failed == nil || failed == context.Canceled) {
			failed = j.err
		}
		rows[i] = j.row
	}
	if failed != nil {
		return nil, failed
	}
	return rows, nil
}

// load is a variant with what its runs share, made by the first of them and
// dropped by the last.
type load struct {
	scenario *Scenario
	variant  Variant

	once sync.Once
	// Written under once, read by every run after it.
	trace  *trace
	bounds *bounds
	runs   atomic.Int32 // that are still to end
}

type job struct {
	*load
	design string
	row    *Row
	err    error
}

func (p *Plan) jobs() []*job {
	var jobs []*job
	for _, s := range p.Scenarios {
		for _, v := range s.Variants(p.Scale) {
			l := &load{scenario: s, variant: v}
			l.runs.Store(int32(len(p.Designs)))
			for _, d := range p.Designs {
				jobs = append(jobs, &job{load: l, design: d})
			}
		}
	}
	return jobs
}

func (j *job) run(ctx context.Context, seed uint64) {
	if j.err = ctx.Err(); j.err != nil {
		return
	}
	j.once.Do(func() {
		j.trace = j.variant.build(seed)
		j.bounds = newBounds(j.trace, &j.variant)
	})
	row, err := simulate(ctx, j.trace, j.bounds, &j.variant, j.design, seed)
	if err != nil {
		if ctx.Err() == nil {
			err = fmt.Errorf("%s %s %s: %w", j.scenario.Name, j.variant.Name, j.design, err)
		}
		j.err = err
		return
	}
	row.Scenario, row.Variant, row.Design, row.Seed = j.scenario.Name, j.variant.Name, j.design, seed
	j.row = row
	if j.runs.Add(-1) == 0 {
		j.trace, j.bounds = nil, nil
	}
}
