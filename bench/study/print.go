package study

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// WriteMatrix prints the cells as a table: loads down, designs across, percent of
// the bound.
func WriteMatrix(w io.Writer, cells []*Cell, designs []string) error {
	wide := 8
	for _, c := range cells {
		wide = max(wide, len(c.Load))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%-*s %6s", wide, "load", "bound")
	for _, d := range designs {
		fmt.Fprintf(&b, " %*s", max(len(d), 6), d)
	}
	b.WriteString("\n")
	set := ""
	for i := 0; i < len(cells); i += len(designs) {
		if c := cells[i]; c.Set != set {
			set = c.Set
			fmt.Fprintf(&b, "-- %s\n", set)
		}
		fmt.Fprintf(&b, "%-*s %6.1f", wide, cells[i].Load, cells[i].Bound)
		for j, d := range designs {
			fmt.Fprintf(&b, " %*s", max(len(d), 6), cells[i+j].short())
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(w, b.String())
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
	return fmt.Sprintf("%.0f ms", c.RecoveryMs)
}

// WriteCSV prints the cells, one a line.
func WriteCSV(w io.Writer, cells []*Cell) error {
	out := csv.NewWriter(w)
	if err := out.Write([]string{
		"load", "set", "design", "seeds", "of_bound", "deviation", "bound", "groups", "jain", "peak", "recovery_ms",
		"evicted", "refused", "spliced",
	}); err != nil {
		return err
	}
	f := func(x float64) string { return strconv.FormatFloat(x, 'f', 2, 64) }
	for _, c := range cells {
		var groups []string
		for _, g := range c.Groups {
			groups = append(groups, f(g))
		}
		if err := out.Write([]string{
			c.Load, c.Set, c.Design, strconv.Itoa(c.Seeds), f(c.OfBound), f(c.Deviation), f(c.Bound),
			strings.Join(groups, "/"), f(c.Jain), f(c.Peak), f(c.RecoveryMs), f(c.Evicted), f(c.Refused), f(c.Spliced),
		}); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
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
