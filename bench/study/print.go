package study

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Matrix prints cells as a table: loads down, designs across, percent of the
// bound.
type Matrix struct {
	w       io.Writer
	designs []string
	wide    int // of a load's name
	set     string
}

// NewMatrix prints the head of the table for a plan.
func NewMatrix(w io.Writer, p *Plan) (*Matrix, error) {
	m := &Matrix{w: w, designs: p.Designs, wide: len("load")}
	for _, l := range p.Loads {
		m.wide = max(m.wide, len(l.Name))
	}
	line := fmt.Sprintf("%-*s %6s", m.wide, "load", "bound")
	for _, d := range m.designs {
		line += fmt.Sprintf(" %*s", max(len(d), 6), d)
	}
	_, err := fmt.Fprintln(w, line)
	return m, err
}

// Add prints a load's cells.
func (m *Matrix) Add(cells []*Cell) error {
	var b strings.Builder
	if c := cells[0]; c.Set != m.set {
		m.set = c.Set
		fmt.Fprintf(&b, "-- %s\n", c.Set)
	}
	fmt.Fprintf(&b, "%-*s %6.1f", m.wide, cells[0].Load, cells[0].Bound)
	for i, d := range m.designs {
		fmt.Fprintf(&b, " %*s", max(len(d), 6), cells[i].short())
	}
	_, err := fmt.Fprintln(m.w, b.String())
	return err
}

// short is the figure of a cell: the share of the bound, or the time to recover.
func (c *Cell) short() string {
	switch {
	case c.load.stop == 0:
		return fmt.Sprintf("%.1f", c.OfBound)
	case c.RecoveryMs < 0:
		return "never"
	}
	return fmt.Sprintf("%.0fms", c.RecoveryMs)
}

// CSV prints cells, one a line, with all that is known of them.
type CSV struct{ w *csv.Writer }

// NewCSV prints the head.
func NewCSV(w io.Writer) (*CSV, error) {
	c := &CSV{csv.NewWriter(w)}
	return c, c.w.Write([]string{
		"load", "set", "design", "seeds", "of_bound", "deviation", "bound", "groups", "jain", "peak", "recovery_ms",
		"evicted", "refused", "spliced",
	})
}

// Add prints a load's cells.
func (c *CSV) Add(cells []*Cell) error {
	f := func(x float64) string { return strconv.FormatFloat(x, 'f', 2, 64) }
	for _, x := range cells {
		var groups []string
		for _, g := range x.Groups {
			groups = append(groups, f(g))
		}
		if err := c.w.Write([]string{
			x.Load, x.Set, x.Design, strconv.Itoa(x.Seeds), f(x.OfBound), f(x.Deviation), f(x.Bound),
			strings.Join(groups, "/"), f(x.Jain), f(x.Peak), f(x.RecoveryMs), f(x.Evicted), f(x.Refused), f(x.Spliced),
		}); err != nil {
			return err
		}
	}
	c.w.Flush()
	return c.w.Error()
}

// WriteVerdicts prints what was promised and what was reached; those that are not
// met are marked.
func WriteVerdicts(w io.Writer, vs []Verdict) error {
	var b strings.Builder
	missed := 0
	for _, v := range vs {
		mark := "  "
		if !v.Met {
			mark, missed = "X ", missed+1
		}
		fmt.Fprintf(&b, "%s%-72s %-40s %9.1f %9.1f\n", mark, v.Load, v.What, v.Got, v.AtLeast)
	}
	fmt.Fprintf(&b, "%d of %d met\n", len(vs)-missed, len(vs))
	_, err := io.WriteString(w, b.String())
	return err
}
