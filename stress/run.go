package stress

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	budgetFlag = flag.Duration("stress.for", 0, "time budget of each plan (default 1.5s, 150ms with -short)")
	seedFlag   = flag.Uint64("stress.seed", 0, "seed of the actors' random choices (default: drawn, and logged)")
)

// stuckAfter is how long past its budget a plan may run before it counts as
// stuck. It is generous: CI machines have two cores, and -race is slow.
const stuckAfter = 60 * time.Second

// Plan is one stress suite.
type Plan struct {
	Actors []Actor
	Procs  []int          // GOMAXPROCS values to cycle through while it runs; nil leaves it alone
	Check  func() error   // the claims, judged after every actor has returned; may be nil
	Scale  float64        // multiplies the budget; 0 means 1
	Min    map[string]int // actors that must do at least this many operations; default 1 each
	// Until, if set, must hold for the plan to end. On a busy machine an actor may
	// not have had its turn when the budget is spent: then the plan goes on, for
	// patience at most, until all have done their Min and Until holds.
	Until func() bool
}

// patience is how long a plan waits past its budget for its slowest actor.
const patience = 30 * time.Second

// Actor is a role played by Workers goroutines.
type Actor struct {
	Name    string
	Workers int // 0 means 1
	// Run does the role's work until w.Next returns false. It reports a broken
	// claim by returning an error, which ends the whole plan.
	Run func(w *Worker) error
}

// Worker is one goroutine of an actor. It must stay on that goroutine.
type Worker struct {
	Actor string
	ID    int // 0 .. Workers-1 within the actor
	Rand  *rand.Rand

	ops  int
	done *atomic.Int64 // operations of the whole actor; added to by each worker as it goes
	stop *atomic.Bool  // set once, by the clock or by the first error
}

// Next reports whether the worker should do another operation, and counts it.
func (w *Worker) Next() bool {
	if w.stop.Load() {
		return false
	}
	w.ops++
	w.done.Add(1)
	return true
}

// Seed returns the seed of this run: the flag's, or a drawn one that is logged.
func Seed(t testing.TB) uint64 {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64() | 1
	}
	t.Logf("replay with -run '^%s$' -stress.seed=%d", t.Name(), seed)
	return seed
}

// Budget is how long a plan of scale 1 runs.
func Budget() time.Duration {
	switch {
	case *budgetFlag > 0:
		return *budgetFlag
	case testing.Short():
		return 150 * time.Millisecond
	default:
		return 1500 * time.Millisecond
	}
}

// Run executes the plan and fails t when a claim is broken, an actor starves,
// or the plan is stuck.
func Run(t *testing.T, p Plan) {
	t.Helper()
	seed := Seed(t)
	budget := Budget()
	if p.Scale > 0 {
		budget = time.Duration(float64(budget) * p.Scale)
	}
	if len(p.Procs) > 0 {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	}

	var (
		stop  atomic.Bool
		start = make(chan struct{})
		errs  = make(chan error, 1) // the first broken claim
		wg    sync.WaitGroup
		done  = make([]atomic.Int64, len(p.Actors))
	)
	fail := func(err error) {
		stop.Store(true)
		select {
		case errs <- err:
		default:
		}
	}
	for i, a := range p.Actors {
		for id := range max(a.Workers, 1) {
			w := &Worker{Actor: a.Name, ID: id, done: &done[i], stop: &stop,
				Rand: rand.New(rand.NewPCG(seed, uint64(i)<<32|uint64(id)))}
			wg.Go(func() {
				<-start
				if err := a.Run(w); err != nil {
					fail(fmt.Errorf("%s %d after %d operations: %w", w.Actor, w.ID, w.ops, err))
				}
			})
		}
	}
	over := make(chan struct{})
	go func() { wg.Wait(); close(over) }()

	close(start)
	cycle(&stop, over, budget, p.Procs)
	for late := time.Now().Add(patience); time.Now().Before(late) && !stop.Load() && !p.served(done); {
		cycle(&stop, over, 10*time.Millisecond, p.Procs)
	}
	stop.Store(true)
	select {
	case <-over:
	case <-time.After(stuckAfter):
		var stacks bytes.Buffer
		_ = pprof.Lookup("goroutine").WriteTo(&stacks, 2)
		t.Fatalf("stuck %v after the budget of %v\n%s\n%s", stuckAfter, budget, progress(p, done), &stacks)
	}
	select {
	case err := <-errs:
		t.Fatal(err)
	default:
	}
	for i, a := range p.Actors {
		if got, need := done[i].Load(), p.min(a.Name); got < need {
			t.Errorf("actor %s starved: %d operations, want at least %d", a.Name, got, need)
		}
	}
	t.Log(progress(p, done))
	if p.Check != nil {
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
	}
}

// min is how many operations an actor must do.
func (p *Plan) min(actor string) int64 {
	if n, ok := p.Min[actor]; ok {
		return int64(n)
	}
	return 1
}

// served reports whether every actor did its minimum, and Until holds.
func (p *Plan) served(done []atomic.Int64) bool {
	for i, a := range p.Actors {
		if done[i].Load() < p.min(a.Name) {
			return false
		}
	}
	return p.Until == nil || p.Until()
}

// cycle lets the plan run for the budget, moving GOMAXPROCS along procs in
// slices of a tenth of a second at most; it returns early once over closes or
// stop is set.
func cycle(stop *atomic.Bool, over <-chan struct{}, budget time.Duration, procs []int) {
	const slices = 20
	slice := min(max(budget/slices, time.Millisecond), 100*time.Millisecond)
	deadline := time.Now().Add(budget)
	tick := time.NewTicker(slice)
	defer tick.Stop()
	for n := 0; time.Now().Before(deadline) && !stop.Load(); n++ {
		if len(procs) > 0 {
			runtime.GOMAXPROCS(procs[n%len(procs)])
		}
		select {
		case <-over:
			return
		case <-tick.C:
		}
	}
}

func progress(p Plan, done []atomic.Int64) string {
	var b bytes.Buffer
	for i, a := range p.Actors {
		fmt.Fprintf(&b, "%s=%d ", a.Name, done[i].Load())
	}
	return b.String()
}
