package scale

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"corelane/bench/scale/cell"
	"corelane/bench/scale/machine"
)

// Profile is what a design's fragments do to lines that other CPUs have.
type Profile struct {
	Design   string      `json:"design"`
	Load     string      `json:"load"`
	CPUs     int         `json:"cpus"`
	Rate     float64     `json:"rate"`
	Accesses float64     `json:"accesses"` // marked, per fragment
	Sites    []cell.Site `json:"sites"`    // worst first, the same time being lost; per fragment
}

// MakeProfile runs one design.
func MakeProfile(ctx context.Context, rig *Rig, k *Constants, p machine.Params, design string, l Load, cpus int, seed uint64) (*Profile, error) {
	o, err := rig.Run(ctx, l.cell(design, cpus, k.under(design, p), seed))
	if err != nil {
		return nil, err
	}
	return &Profile{design, l.Name, cpus, o.Rate, o.Accesses, o.Sites}, nil
}

// Write prints the sites where a nanosecond in a hundred fragments is lost, most
// at most.
func (p *Profile) Write(w io.Writer, most int) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(format string, args ...any) { _, _ = fmt.Fprintf(t, format, args...) }
	row("\n%s, %s, %d CPUs: %.2f million fragments/s, %.0f accesses a fragment\n", p.Design, p.Load, p.CPUs, p.Rate/1e6, p.Accesses)
	row("per fragment\taccesses\tfrom another CPU\tns for the line\tns for the lock\t\n")
	for i, s := range p.Sites {
		if i == most || s.Stall+s.Waited < 0.01 {
			break
		}
		row("%s\t%.3f\t%.3f\t%.2f\t%.2f\t\n", s.Name, s.Accesses, s.Transfers, s.Stall, s.Waited)
	}
	return t.Flush()
}
