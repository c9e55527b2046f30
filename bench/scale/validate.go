package scale

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"

	"corelane/bench/scale/cell"
	"corelane/bench/scale/load"
	"corelane/bench/scale/measure"
	"corelane/reasm"
)

const (
	validationFlows = 4
	validationHigh  = 16 << 20
)

// realCase is a design on this machine, as it is: the library without marks.
func realCase(design string, cpus, frags int) *measure.Case {
	cache, err := reasm.New(design, load.Config(2, reasm.Limits{High: validationHigh, Low: validationHigh / 4 * 3}))
	if err != nil {
		panic("scale: " + err.Error()) // the names are the library's own
	}
	var src [2]*load.Source
	for i := range src {
		src[i] = load.New(i, cache.Lane(i), validationFlows, frags)
	}
	var now [2]struct {
		ns int64
		_  [128]byte
	}
	return &measure.Case{
		Name: fmt.Sprintf("%s/%d/%d", design, frags, cpus), Threads: cpus, Parks: cpus == 2,
		Body: func(id int) int {
			const n = 256
			for range n {
				src[id].Good(now[id].ns)
			}
			now[id].ns += 10_000
			if id == 0 && now[id].ns%100_000 == 0 {
				cache.Step(now[id].ns, 1024)
			}
			return n
		},
	}
}

// Check is one comparison of the model with the machine.
type Check struct {
	Design   string            `json:"design"`
	CPUs     int               `json:"cpus"`
	Frags    int               `json:"frags"`
	Far      bool              `json:"far"`
	Measured measure.Quartiles `json:"measured"` // ns per fragment and CPU
	Model    float64           `json:"model"`
	Error    float64           `json:"error"` // of the model, as a fraction; NaN is none
}

// Validation is all of them.
type Validation struct {
	Constants *Constants `json:"constants"`
	Checks    []Check    `json:"checks"`
	Summary   []Summary  `json:"summary"`
	// What the probe said of a transfer, in the windows of two CPUs.
	Transfer    measure.Quartiles `json:"transfer"`
	TransferFar measure.Quartiles `json:"transfer_far"`
}

// Summary are the errors of one kind of check.
type Summary struct {
	Kind   string  `json:"kind"`
	N      int     `json:"n"`
	Mean   float64 `json:"mean"`
	Median float64 `json:"median"`
	Max    float64 `json:"max"`
	// Order is the share of pairs of designs, among those whose measurements differ
	// by a quarter or more, that the model puts in the measured order.
	Order float64 `json:"order"`
	Pairs int     `json:"pairs"`
}

// Validate measures the designs on one and two CPUs and compares the model. What it
// says of one CPU was an input, earlier; what it says of two is a prediction.
func Validate(ctx context.Context, rig *Rig, k *Constants, designs []string, e Effort) (*Validation, error) {
	var cases []*measure.Case
	v := &Validation{Constants: k}
	for _, frags := range []int{44, 3} {
		for cpus := 1; cpus <= 2; cpus++ {
			for _, d := range designs {
				cases = append(cases, realCase(d, cpus, frags))
				v.Checks = append(v.Checks, Check{Design: d, CPUs: cpus, Frags: frags})
			}
		}
	}
	if err := measure.Run(ctx, cases, e.Windows, e.Limit); err != nil {
		return nil, err
	}
	v.Transfer, v.TransferFar = measure.Transfers(cases, false), measure.Transfers(cases, true)
	for i, c := range cases {
		v.Checks[i].Measured = c.Near()
		if far := c.Far(); far.N >= enough {
			x := v.Checks[i]
			x.Far, x.Measured = true, far
			v.Checks = append(v.Checks, x)
		}
	}
	if err := v.model(ctx, rig); err != nil {
		return nil, err
	}
	v.summarize()
	return v, nil
}

func (v *Validation) model(ctx context.Context, rig *Rig) error {
	var cells []cell.Cell
	for _, x := range v.Checks {
		p := v.Constants.under(x.Design, v.Constants.Machine)
		p.Cluster = 0
		if x.Far {
			p.Near = p.Far
		}
		cells = append(cells, validationCell(x.Design, x.CPUs, x.Frags, p))
	}
	out, err := rig.RunAll(ctx, cells, nil)
	if err != nil {
		return err
	}
	for i, o := range out {
		x := &v.Checks[i]
		x.Model = float64(x.CPUs) * 1e9 / o.Rate
		if x.Measured.N >= enough {
			x.Error = x.Model/x.Measured.Median - 1
		}
	}
	return nil
}

func (v *Validation) summarize() {
	for _, kind := range []struct {
		name string
		in   func(Check) bool
	}{
		{"1 CPU", func(x Check) bool { return x.CPUs == 1 }},
		{"2 CPUs, near", func(x Check) bool { return x.CPUs == 2 && !x.Far }},
		{"2 CPUs, far", func(x Check) bool { return x.CPUs == 2 && x.Far }},
	} {
		var in []Check
		var errs []float64
		for _, x := range v.Checks {
			if kind.in(x) && x.Measured.N >= enough {
				in = append(in, x)
				errs = append(errs, math.Abs(x.Error))
			}
		}
		if len(errs) == 0 {
			continue
		}
		s := Summary{Kind: kind.name, N: len(errs), Median: measure.Of(errs).Median, Max: slices.Max(errs)}
		for _, e := range errs {
			s.Mean += e / float64(len(errs))
		}
		s.order(in)
		v.Summary = append(v.Summary, s)
	}
}

func (s *Summary) order(in []Check) {
	right := 0
	for i, a := range in {
		for _, b := range in[:i] {
			lo, hi := a, b
			if lo.Measured.Median > hi.Measured.Median {
				lo, hi = hi, lo
			}
			if a.Frags != b.Frags || hi.Measured.Median < 1.25*lo.Measured.Median {
				continue
			}
			s.Pairs++
			if lo.Model < hi.Model {
				right++
			}
		}
	}
	if s.Pairs > 0 {
		s.Order = float64(right) / float64(s.Pairs)
	}
}

// Write prints it.
func (v *Validation) Write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(format string, args ...any) { _, _ = fmt.Fprintf(t, format, args...) }
	row("design\tfragments\tCPUs\tmeasured\tp25\tp75\twindows\tmodel\terror\t\n")
	for _, x := range v.Checks {
		cpus := fmt.Sprint(x.CPUs)
		switch {
		case x.Far:
			cpus += " far"
		case x.CPUs == 2:
			cpus += " near"
		}
		verdict := "no verdict"
		if x.Measured.N >= enough {
			verdict = fmt.Sprintf("%+.0f %%", 100*x.Error)
		}
		row("%s\t%d\t%s\t%.1f\t%.1f\t%.1f\t%d\t%.1f\t%s\t\n", x.Design, x.Frags, cpus,
			x.Measured.Median, x.Measured.Low, x.Measured.High, x.Measured.N, x.Model, verdict)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, "ns per fragment and CPU. A transfer took %.1f ns in %d windows, %.1f in %d far ones.\n",
		v.Transfer.Median, v.Transfer.N, v.TransferFar.Median, v.TransferFar.N); err != nil {
		return err
	}
	for _, s := range v.Summary {
		if _, err := fmt.Fprintf(w, "%s: %d cells, error of the model: mean %.0f %%, median %.0f %%, greatest %.0f %%; %.0f %% of %d pairs of designs in the right order\n",
			s.Kind, s.N, 100*s.Mean, 100*s.Median, 100*s.Max, 100*s.Order, s.Pairs); err != nil {
			return err
		}
	}
	return nil
}
