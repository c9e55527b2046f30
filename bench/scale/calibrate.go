package scale

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"time"

	"corelane/bench/scale/cell"
	"corelane/bench/scale/machine"
	"corelane/bench/scale/measure"
)

// Effort is how long to measure.
type Effort struct {
	Windows int           // of each case
	Limit   time.Duration // altogether
}

var errTooFew = errors.New("scale: too few windows were undisturbed; the machine is too busy to calibrate")

// enough windows for a verdict.
const enough = 10

// Calibrate finds the constants of this machine. It needs two processors to itself.
//
// Two virtual CPUs may stand in one place, near or far, for minutes. What could not
// be measured because of that is taken from earlier constants, if there are any.
func Calibrate(ctx context.Context, rig *Rig, earlier *Constants, e Effort) (*Constants, error) {
	c := &Constants{
		CPU: cpuName(), Go: runtime.Version(), Machine: assumed,
		Comment: "near, far, rmw, look_ahead, occupy, wake, wake_after, access and pool are measured or fitted; the rest is assumed",
	}
	ms := micros()
	var cases []*measure.Case
	for _, m := range ms {
		cases = append(cases, m.c)
	}
	designs := AllDesigns()
	for _, d := range designs {
		for _, n := range calibratedFrags {
			cases = append(cases, realCase(d, 1, n))
		}
	}
	if err := measure.Run(ctx, cases, e.Windows, e.Limit); err != nil {
		return nil, err
	}
	c.WakeUp = wakeUp(15)
	c.Transfer, c.TransferFar = measure.Transfers(cases, false), measure.Transfers(cases, true)
	p := &c.Machine
	if c.Transfer.N >= enough {
		p.Near = math.Round(c.Transfer.Median)
	} else if earlier != nil {
		c.Transfer, c.Machine.Near = earlier.Transfer, earlier.Machine.Near
	} else {
		return nil, fmt.Errorf("%w: %d near transfers, %d far ones", errTooFew, c.Transfer.N, c.TransferFar.N)
	}
	if c.TransferFar.N >= enough {
		// An exchange by turns is two transfers and what the probe does between; the
		// near probe has nothing between that a core cannot hide.
		p.Far = math.Round(c.TransferFar.Median * 2 / 3)
	} else if earlier != nil {
		c.TransferFar, p.Far = earlier.TransferFar, earlier.Machine.Far
	}
	p.Wake = min(c.WakeUp.Median/4, 500)
	p.WakeAfter = math.Round(c.WakeUp.Median - p.Wake)
	c.fit(ms, earlier)
	for i, d := range designs {
		x := Private{Design: d, Frags: make(map[int]measure.Quartiles)}
		for j, n := range calibratedFrags {
			q := cases[len(ms)+len(calibratedFrags)*i+j].Near()
			if q.N < enough {
				return nil, fmt.Errorf("%w: %d windows of %s with %d fragments", errTooFew, q.N, d, n)
			}
			x.Frags[n] = q
		}
		if err := c.fitPrivate(ctx, rig, &x); err != nil {
			return nil, err
		}
		c.Private = append(c.Private, x)
	}
	return c, nil
}

// calibratedFrags are the datagrams that set the private costs: two measurements for
// two unknowns.
var calibratedFrags = []int{44, 3}

// fit sets RMW, and the look-ahead and occupancy under which the simulated
// micro-benchmarks come closest to the timed ones.
func (c *Constants) fit(ms []*micro, earlier *Constants) {
	private := make(map[int]float64) // what the loads take
	for _, m := range ms {
		if m.kind == "work" {
			private[m.work] = m.c.Near().Median
		}
	}
	p := &c.Machine
	var extra []float64
	for _, m := range ms {
		if m.kind == "own" {
			extra = append(extra, m.c.Near().Median-private[m.work])
		}
	}
	p.RMW = math.Round(100*min(max(measure.Of(extra).Median, 0.5), 5)) / 100
	near := 0
	for _, m := range ms {
		if m.threads == 2 && m.c.Near().N >= enough {
			near++
		}
	}
	if near == 0 && earlier != nil {
		p.LookAhead, p.Occupy, c.Micro = earlier.Machine.LookAhead, earlier.Machine.Occupy, earlier.Micro
		return
	}
	best := math.Inf(1)
	try := *p
	for try.LookAhead = 0; try.LookAhead <= 60; try.LookAhead += 5 {
		for try.Occupy = 0.4; try.Occupy < 1.01; try.Occupy += 0.1 {
			if e := misfit(ms, try, private); e < best {
				best, p.LookAhead, p.Occupy = e, try.LookAhead, try.Occupy
			}
		}
	}
	p.Occupy = math.Round(p.Occupy*10) / 10
	for _, m := range ms {
		c.Micro = append(c.Micro, MicroResult{
			m.kind, m.work, m.threads, m.c.Near(), m.c.Far(), m.simulate(*p, private[m.work]),
		})
	}
}

// misfit is the sum of squared logarithms of simulated over timed.
func misfit(ms []*micro, p machine.Params, private map[int]float64) (sum float64) {
	for _, m := range ms {
		if q := m.c.Near(); m.threads == 2 && q.N >= enough {
			d := math.Log(m.simulate(p, private[m.work]) / q.Median)
			sum += d * d
		}
	}
	return sum
}

// fitPrivate sets what a plain access costs in a design, and what a pool does. Both
// are much alike in designs with the same table.
func (c *Constants) fitPrivate(ctx context.Context, rig *Rig, x *Private) error {
	// Cost is linear in both: rest + accesses x Access + pools x Pool.
	var lines [2][4]float64 // accesses, pools, rest, measured
	for i, n := range calibratedFrags {
		cost := func(access, pool float64) (float64, error) {
			p := c.Machine
			p.Access, p.Pool = access, pool
			o, err := rig.Run(ctx, validationCell(x.Design, 1, n, p))
			if err != nil {
				return 0, err
			}
			return 1e9 / o.Rate, nil
		}
		base, err := cost(0.5, 10)
		if err != nil {
			return err
		}
		more, err := cost(1.5, 10)
		if err != nil {
			return err
		}
		pool, err := cost(0.5, 110)
		if err != nil {
			return err
		}
		l := &lines[i]
		l[0], l[1], l[3] = more-base, (pool-base)/100, x.Frags[n].Median
		l[2] = base - 0.5*l[0] - 10*l[1]
	}
	a, b := lines[0], lines[1]
	det := a[0]*b[1] - a[1]*b[0]
	round := func(x float64) float64 { return math.Round(x*1000) / 1000 }
	x.Access = round(((a[3]-a[2])*b[1] - a[1]*(b[3]-b[2])) / det)
	x.Pool = max(0, round((a[0]*(b[3]-b[2])-(a[3]-a[2])*b[0])/det))
	if x.Access <= 0 {
		return fmt.Errorf("scale: the costs of %s make no sense: access %g ns, pool %g ns", x.Design, x.Access, x.Pool)
	}
	return nil
}

// validationCell is the cell that stands for realCase.
func validationCell(design string, cpus, frags int, p machine.Params) cell.Cell {
	return cell.Cell{
		Design: design, CPUs: cpus, Frags: frags, Flows: validationFlows, High: validationHigh, Machine: p, Seed: 1, Time: 2e6,
	}
}

func cpuName() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
			return strings.TrimSpace(v)
		}
	}
	return runtime.GOARCH
}
