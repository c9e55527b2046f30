// Package measure times one or two goroutines on a machine that others use too. It
// works in short windows, and keeps those in which the goroutines had their
// processors to themselves.
//
// On a virtual machine two CPUs are neighbours at one moment and far apart at the
// next, and everything that shares a line costs four times as much. So each window
// of two begins with a few hundred rounds of ping-pong on one word, and says what a
// transfer cost just then. Medians over windows of both kinds mean nothing.
package measure

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/cpu"
)

// Case is something to be timed.
type Case struct {
	Name    string
	Threads int  // 1 or 2
	Parks   bool // the goroutines may wait, so processor time says nothing
	// Body does some hundred operations and returns how many; id is 0 or 1.
	Body func(id int) int

	Windows []Window
	Tried   int
}

// Window is one that was kept.
type Window struct {
	PerOp    float64 // ns per operation and goroutine
	Transfer float64 // ns, one way; 0 for one goroutine
	Speed    float64 // ns for a round of arithmetic, just before and after
}

// Quartiles of the windows that count.
type Quartiles struct {
	Low    float64 `json:"low"`
	Median float64 `json:"median"`
	High   float64 `json:"high"`
	N      int     `json:"n"`
}

// Where a transfer says the two CPUs are.
const (
	NearBelow = 60
	FarFrom   = 90
)

// Near and Far are the windows of either kind; a case of one goroutine is near.
func (c *Case) Near() Quartiles { return c.between(0, NearBelow) }

// Far are the windows in which a transfer took FarFrom or longer.
func (c *Case) Far() Quartiles { return c.between(FarFrom, 1000) }

func (c *Case) between(from, to float64) Quartiles {
	var v []float64
	for _, w := range c.Windows {
		if w.Transfer >= from && w.Transfer < to && w.Speed <= slowest*fastest {
			v = append(v, w.PerOp)
		}
	}
	return Of(v)
}

// fastest is the best Speed of all windows so far. A processor whose other half is
// used by a stranger is slower, and nothing else shows it.
var fastest = 1e9

// slowest is how much slower a window may be.
const slowest = 1.1

// Of returns the quartiles of values.
func Of(v []float64) Quartiles {
	if len(v) == 0 {
		return Quartiles{}
	}
	slices.Sort(v)
	at := func(q float64) float64 { return v[int(q*float64(len(v)-1)+0.5)] }
	return Quartiles{at(0.25), at(0.5), at(0.75), len(v)}
}

// Transfers are the probes of all windows.
func Transfers(cases []*Case, far bool) Quartiles {
	var v []float64
	for _, c := range cases {
		for _, w := range c.Windows {
			if w.Transfer > 0 && (far && w.Transfer >= FarFrom || !far && w.Transfer < NearBelow) {
				v = append(v, w.Transfer)
			}
		}
	}
	return Of(v)
}

// undisturbed is how many windows count.
func (c *Case) undisturbed() (n int) {
	for _, w := range c.Windows {
		if w.Speed <= slowest*fastest {
			n++
		}
	}
	return n
}

const (
	window     = 2 * time.Millisecond
	parkWindow = 5 * time.Millisecond // a hand-over in order takes a millisecond to begin
	probes     = 300
	busyEnough = 0.97
)

// Run times the cases in turn until each has want windows, or the time is up. It
// turns the garbage collector off.
func Run(ctx context.Context, cases []*Case, want int, limit time.Duration) error {
	if runtime.NumCPU() < 2 || runtime.GOMAXPROCS(0) < 2 {
		return errors.New("measure: two processors are needed")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	for end := time.Now().Add(limit); time.Now().Before(end); {
		more := false
		for _, c := range cases {
			if c.undisturbed() >= want {
				continue
			}
			more = true
			if err := ctx.Err(); err != nil {
				return err
			}
			c.Tried++
			if w, ok := c.window(); ok && (c.Tried > 2) { // the first ones warm up
				c.Windows = append(c.Windows, w)
				fastest = min(fastest, w.Speed)
			}
		}
		if !more {
			break
		}
	}
	return nil
}

// pair is what two goroutines of a window share.
type pair struct {
	_    cpu.CacheLinePad
	met  [2]atomic.Int32
	_    cpu.CacheLinePad
	ball atomic.Int64
	_    cpu.CacheLinePad
}

// part is what one goroutine brings home.
type part struct {
	ops      int
	took     time.Duration
	transfer float64
	speed    float64
	ok       bool
}

func (c *Case) window() (w Window, ok bool) {
	var p pair
	parts := make(chan part, c.Threads)
	length := window
	if c.Parks {
		length = parkWindow
	}
	for id := range c.Threads {
		go func() { parts <- c.run(&p, id, length) }()
	}
	var ops int
	var took time.Duration
	ok = true
	for range c.Threads {
		r := <-parts
		ops += r.ops
		took += r.took
		w.Transfer = max(w.Transfer, r.transfer)
		w.Speed = max(w.Speed, r.speed)
		ok = ok && r.ok
	}
	w.PerOp = float64(took) / float64(max(ops, 1))
	return w, ok
}

func (c *Case) run(p *pair, id int, length time.Duration) (r part) {
	if !p.meet(0, c.Threads) {
		return r
	}
	if c.Threads == 2 {
		if r.transfer = p.probe(id); r.transfer == 0 {
			return r
		}
	}
	r.speed = speed()
	if !p.meet(1, c.Threads) {
		return r
	}
	before, start := usage(), time.Now()
	longest, turns := time.Duration(0), 0
	for now := start; ; turns++ {
		r.ops += c.Body(id)
		was := now
		now = time.Now()
		longest = max(longest, now.Sub(was))
		if now.Sub(start) >= length {
			break
		}
	}
	r.took = time.Since(start)
	after := usage()
	r.speed = max(r.speed, speed())
	if !c.Parks && longest > 4*r.took/time.Duration(turns+1)+15*time.Microsecond {
		return r // somebody else had the processor, though no clock of ours shows it
	}
	r.ok = after.preempted == before.preempted &&
		(c.Parks || float64(after.cpu-before.cpu) >= busyEnough*float64(c.Threads)*float64(r.took)*0.95)
	return r
}

// meet waits for the other goroutine, unless it does not come.
func (p *pair) meet(at, n int) bool {
	p.met[at].Add(1)
	for start := time.Now(); int(p.met[at].Load()) < n; {
		if time.Since(start) > 2*time.Millisecond {
			return false
		}
	}
	return true
}

// probe returns what a transfer takes one way, 0 if the other does not answer.
func (p *pair) probe(id int) float64 {
	start := time.Now()
	for range probes {
		for n := 0; int(p.ball.Load()&1) != id; n++ {
			if n > 1<<16 {
				return 0
			}
		}
		p.ball.Add(1)
	}
	return float64(time.Since(start)) / (2 * probes)
}

// speed is what a round of independent arithmetic takes, in ns: as much as a core can
// do at a time. Dependent loads would not notice a stranger on its other half.
func speed() float64 {
	const n = 2000
	a, b, c, d, e, f := uint64(1), uint64(2), uint64(3), uint64(4), uint64(5), uint64(6)
	start := time.Now()
	for range n {
		a, b, c = a+a<<3^0x55, b+b<<5^0x33, c+c<<7^0x0f
		d, e, f = d+d<<3^0xaa, e+e<<5^0xcc, f+f<<7^0xf0
	}
	took := float64(time.Since(start)) / n
	if a^b^c^d^e^f == 0 {
		return took + 1e-9 // the results are wanted
	}
	return took
}
