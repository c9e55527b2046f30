package scale

import (
	"context"
	"errors"
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
func Calibrate(ctx context.Context, rig *Rig, e Effort) (*Constants, error) {
	c := &Constants{
		CPU: cpuName(), Go: runtime.Version(), Machine: assumed, Fragments: make(map[int]measure.Quartiles),
		Comment: "near, far, rmw, look_ahead, occupy, wake, wake_after and access are measured or fitted; the rest is assumed",
	}
	ms := micros()
	var cases []*measure.Case
	for _, m := range ms {
		cases = append(cases, m.c)
	}
	frags := []int{44, 3}
	for _, n := range frags {
		cases = append(cases, realCase("hard-limit", 1, n))
	}
	if err := measure.Run(ctx, cases, e.Windows, e.Limit); err != nil {
		return nil, err
	}
	c.WakeUp = wakeUp(15)
	c.Transfer, c.TransferFar = measure.Transfers(cases, false), measure.Transfers(cases, true)
	if c.Transfer.N < enough {
		return nil, errTooFew
	}
	p := &c.Machine
	p.Near = c.Transfer.Median
	if c.TransferFar.N >= enough {
		// An exchange by turns is two transfers and what the probe does between; the
		// near probe has nothing between that a core cannot hide.
		p.Far = c.TransferFar.Median * 2 / 3
	}
	p.Wake = min(c.WakeUp.Median/4, 500)
	p.WakeAfter = c.WakeUp.Median - p.Wake
	c.fit(ms)
	for i, n := range frags {
		q := cases[len(ms)+i].Near()
		if q.N < enough {
			return nil, errTooFew
		}
		c.Fragments[n] = q
	}
	return c, c.fitAccess(ctx, rig)
}

// fit sets RMW, and the look-ahead and occupancy under which the simulated
// micro-benchmarks come closest to the timed ones.
func (c *Constants) fit(ms []*micro) {
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
	p.RMW = min(max(measure.Of(extra).Median, 0.5), 5)
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

// fitAccess sets what a plain access costs, from what one design takes on one CPU:
// two measurements, one unknown. All other costs of all other designs follow.
func (c *Constants) fitAccess(ctx context.Context, rig *Rig) error {
	var num, den float64
	for n, q := range c.Fragments {
		var ns [2]float64
		for i := range ns {
			p := c.Machine
			p.Access = 0.1 + float64(i)
			o, err := rig.Run(ctx, validationCell("hard-limit", 1, n, p))
			if err != nil {
				return err
			}
			ns[i] = 1e9 / o.Rate
		}
		slope := ns[1] - ns[0] // accesses per fragment
		rest := ns[0] - 0.1*slope
		// Least squares of relative errors.
		num += slope * (q.Median - rest) / (q.Median * q.Median)
		den += slope * slope / (q.Median * q.Median)
	}
	c.Machine.Access = math.Round(num/den*1000) / 1000
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
