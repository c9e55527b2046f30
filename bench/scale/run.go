package scale

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"corelane/bench/scale/cell"
	"corelane/bench/scale/machine"
	"corelane/reasm"
)

// Load is traffic that every CPU takes as fast as it can.
type Load struct {
	Name   string
	Frags  int     // in a datagram
	Attack float64 // lone first fragments per second, all CPUs together
	Spread bool    // over all CPUs (MQ); else on one
}

// Loads are those of mail 002, offered to every CPU instead of two.
func Loads() []Load {
	return []Load{
		{"64K", 44, 0, false}, {"3F", 3, 0, false},
		{"64K+DoS", 44, 1e6, false}, {"3F+DoS", 3, 1e6, false},
		{"64K+MQ", 44, 1e6, true}, {"3F+MQ", 3, 1e6, true},
	}
}

// CPUCounts are how many CPUs a run tries.
func CPUCounts() []int { return []int{1, 2, 4, 8, 16, 32, 64, 128} }

// What the curves are made with.
const (
	curveFlows   = 2
	curveOutside = 300     // ns a packet costs outside of the cache
	curveTime    = 3e6     // ns
	leastHigh    = 4 << 20 // the mail's; percpu-lru has half of it on each CPU, whatever their number
	perCPU       = 512 << 10
)

// cell is the load on so many CPUs.
func (l Load) cell(design string, cpus int, p machine.Params, seed uint64) cell.Cell {
	c := cell.Cell{
		Design: design, CPUs: cpus, Frags: l.Frags, Flows: curveFlows, Outside: curveOutside,
		High: max(leastHigh, int64(cpus)*perCPU), Machine: p, Seed: seed, Time: curveTime, Attack: l.Attack,
	}
	if design == "percpu-lru" {
		c.High = leastHigh
	}
	if l.Spread {
		c.Spread = cpus
	}
	return c
}

// Point is one design under one load on so many CPUs: predicted, not measured.
type Point struct {
	Design string `json:"design"`
	Load   string `json:"load"`
	CPUs   int    `json:"cpus"`
	// Rate is fragments/s of the datagrams that completed.
	Rate float64 `json:"rate"`
	// Attacked is attack fragments/s that were processed.
	Attacked float64 `json:"attacked"`
	// Next is the place where most time is lost, and Lost how much, in ns per
	// fragment processed, transfers and waiting for locks together.
	Next string  `json:"next"`
	Lost float64 `json:"lost"`
}

// Prediction is what run prints.
type Prediction struct {
	Machine string         `json:"machine"` // clusters, uniform, 2013 or a file
	Params  machine.Params `json:"params"`
	Seed    uint64         `json:"seed"`
	Points  []Point        `json:"points"`
	Mail    []MailCell     `json:"mail"` // the table of mail 002, see Mail
}

// Predict runs designs under loads on numbers of CPUs.
func Predict(ctx context.Context, rig *Rig, k *Constants, p machine.Params, designs []string, loads []Load, cpus []int, seed uint64, tick func()) ([]Point, error) {
	var cells []cell.Cell
	var points []Point
	for _, l := range loads {
		for _, d := range designs {
			for _, n := range cpus {
				cells = append(cells, l.cell(d, n, k.under(d, p), seed))
				points = append(points, Point{Design: d, Load: l.Name, CPUs: n})
			}
		}
	}
	out, err := rig.RunAll(ctx, cells, tick)
	if err != nil {
		return nil, err
	}
	for i, o := range out {
		x := &points[i]
		x.Rate, x.Attacked = o.Rate, o.Attacked
		if len(o.Sites) > 0 {
			x.Next, x.Lost = o.Sites[0].Name, o.Sites[0].Stall+o.Sites[0].Waited
		}
	}
	return points, nil
}

// Curve is a design's throughput against CPUs.
type Curve struct {
	Design, Load string
	CPUs         []int
	Rate         []float64 // fragments/s of datagrams that completed
}

//go:embed prediction.json
var committedPrediction []byte

// CommittedPrediction is what run printed with the committed constants.
func CommittedPrediction() (*Prediction, error) {
	p := new(Prediction)
	if err := json.Unmarshal(committedPrediction, p); err != nil {
		return nil, fmt.Errorf("scale: prediction.json: %w", err)
	}
	return p, nil
}

// Curves are the curves of the committed prediction.
func Curves() ([]Curve, error) {
	p, err := CommittedPrediction()
	if err != nil {
		return nil, err
	}
	return p.Curves(), nil
}

// Curves are the points of a prediction, put together.
func (p *Prediction) Curves() []Curve {
	var cs []Curve
	for _, x := range p.Points {
		i := slices.IndexFunc(cs, func(c Curve) bool { return c.Design == x.Design && c.Load == x.Load })
		if i < 0 {
			i = len(cs)
			cs = append(cs, Curve{Design: x.Design, Load: x.Load})
		}
		cs[i].CPUs = append(cs[i].CPUs, x.CPUs)
		cs[i].Rate = append(cs[i].Rate, x.Rate)
	}
	return cs
}

// Write prints a table for each load, and the mail's.
func (p *Prediction) Write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(format string, args ...any) { _, _ = fmt.Fprintf(t, format, args...) }
	row("Predicted, not measured. Machine %s: a line takes %.3g ns within a cluster of %d CPUs, %.3g ns beyond; %s locks. Seed %d.\n",
		p.Machine, p.Params.Near, p.Params.Cluster, p.Params.Far, p.Params.Lock, p.Seed)
	load := ""
	for _, c := range p.Curves() {
		if c.Load != load {
			load = c.Load
			row("\n%s, million fragments/s of completed datagrams\nCPUs\t%s\tnext shared line\tns lost\t\n", load,
				strings.Trim(strings.Join(strings.Fields(fmt.Sprint(c.CPUs)), "\t"), "[]"))
		}
		row("%s\t", c.Design)
		for _, r := range c.Rate {
			row("%.2f\t", r/1e6)
		}
		last := p.last(c)
		row("%s\t%.0f\t\n", last.Next, last.Lost)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return writeMail(w, p.Mail)
}

// last is the point of a curve with the most CPUs.
func (p *Prediction) last(c Curve) Point {
	for _, x := range slices.Backward(p.Points) {
		if x.Design == c.Design && x.Load == c.Load {
			return x
		}
	}
	return Point{}
}

// Machines are the ones that can be named: clusters is the measured one, with the
// transfers that were measured within a cluster and beyond; uniform has one price
// for all, between the two; 2013 is the bench of mail 002.
func (k *Constants) Machines(name string) (machine.Params, bool) {
	p := k.Machine
	switch name {
	case "clusters":
	case "uniform":
		p.Cluster, p.Near = 0, 60
	case "2013":
		p = bench2013(p)
	default:
		return p, false
	}
	return p, true
}

// AllDesigns are the names of the library's designs.
func AllDesigns() (names []string) {
	for _, d := range reasm.Designs() {
		names = append(names, d.Name)
	}
	return names
}
