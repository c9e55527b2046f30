package main

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"corelane/bench/scenario"
	"corelane/reasm"
)

// The report is one HTML file that needs nothing else: no script, no font, no
// network. The same plan and seed give the same bytes.

//go:embed report.html
var reportHTML string

var reportPage = template.Must(template.New("report").Parse(reportHTML))

// report is what the page shows.
type report struct {
	Seed     uint64
	Scale    string
	Runs     int
	Packets  string
	Designs  []designKey
	Overview overview
	Sections []section
	RealTime *throughputReport // nil if it was not asked for
	// CostCurves are empty if there are none.
	CostCurves []figure
}

type designKey struct {
	Name, Seed, Idea string
	Series           int
	Key              template.HTML
}

// overview has a line for each scenario and a cell for each design.
type overview []struct {
	Scenario, Ask string
	Cells         []cell
}

// cell is a figure with a share of 1 that says how good it is; -1 says nothing.
type cell struct {
	Text  string
	Share float64
}

type section struct {
	*scenario.Scenario
	Figures []figure
	Lines   []tableLine
}

type tableLine struct {
	Variant  string
	Possible string
	Cells    []cell
}

// figure is a group of charts that are read together.
type figure struct {
	Title, Caption string
	Keys           []groupKey // other than designs
	Panels         []panel
}

type groupKey struct {
	Name string
	Key  template.HTML
}

type panel struct {
	Title string
	Chart template.HTML
}

// results are the rows of a plan, by scenario and variant.
type results struct {
	plan     *scenario.Plan
	scenario *scenario.Scenario
	variants []scenario.Variant
	rows     [][]*scenario.Row // [variant][design]
}

// byScenario splits the rows of a plan.
func byScenario(plan *scenario.Plan, rows []*scenario.Row) []*results {
	var all []*results
	for _, s := range plan.Scenarios {
		r := &results{plan: plan, scenario: s, variants: s.Variants(plan.Scale)}
		for range r.variants {
			r.rows = append(r.rows, rows[:len(plan.Designs)])
			rows = rows[len(plan.Designs):]
		}
		all = append(all, r)
	}
	return all
}

// reportOptions say where a report goes, and what else it shows.
type reportOptions struct {
	out, throughput, scale string
}

func (o *reportOptions) flags(cmd *cobra.Command, out string) {
	f := cmd.Flags()
	f.StringVarP(&o.out, "output", "o", out, "write a report to this file (HTML)")
	f.StringVar(&o.throughput, "throughput", "", "show in the report what fraglab throughput --json wrote to this file")
	f.StringVar(&o.scale, "scale", "", "show what fraglab scale run --json wrote to this file (default the committed prediction)")
}

// write writes the report, if it is asked for.
func (o *reportOptions) write(plan *scenario.Plan, rows []*scenario.Row) error {
	if o.out == "" {
		return nil
	}
	rep := newReport(plan, rows)
	curves, err := costCurves(o.scale, plan.Designs)
	if err != nil {
		return err
	}
	rep.CostCurves = curves
	if o.throughput != "" {
		t, err := readThroughput(o.throughput)
		if err != nil {
			return err
		}
		rep.RealTime = t.report(plan.Designs)
	}
	return rep.write(o.out)
}

func newReport(plan *scenario.Plan, rows []*scenario.Row) *report {
	packets := 0
	for _, r := range rows {
		packets += r.Fragments
	}
	rep := &report{
		Seed: plan.Seed, Scale: scaleNames[plan.Scale], Runs: len(rows), Packets: fmt.Sprintf("%.0f million", float64(packets)/1e6),
	}
	for i, name := range plan.Designs {
		for _, d := range reasm.Designs() {
			if d.Name == name {
				rep.Designs = append(rep.Designs, designKey{name, d.Seed, d.Idea, i, key(i, true)})
			}
		}
	}
	for _, r := range byScenario(plan, rows) {
		sec := section{Scenario: r.scenario, Figures: r.figures()}
		for i, v := range r.variants {
			line := tableLine{Variant: strings.ReplaceAll(v.Name, ",", " "), Possible: possible(r.rows[i][0])}
			for _, row := range r.rows[i] {
				line.Cells = append(line.Cells, r.cell(row))
			}
			sec.Lines = append(sec.Lines, line)
		}
		rep.Sections = append(rep.Sections, sec)
		rep.Overview = append(rep.Overview, struct {
			Scenario, Ask string
			Cells         []cell
		}{r.scenario.Name, r.scenario.Ask, r.means()})
	}
	return rep
}

var scaleNames = map[scenario.Scale]string{
	scenario.Quick: "quick: links of 1 Gbit/s", scenario.Normal: "normal: links of 10 Gbit/s", scenario.Full: "full: links of 10 Gbit/s, three times as long",
}

// cell is the headline of a row. What a fragment costs is real time, which is not
// the same each time, so the share of the bound stands for it.
func (r *results) cell(row *scenario.Row) cell {
	head := r.scenario.Headline
	if head == scenario.Cost {
		head = scenario.OfBound
	}
	if head == scenario.Recovery {
		return cell{head.Of(row), quickness(row.RecoveryMs)}
	}
	return cell{head.Of(row), share(row)}
}

// quickness colours a time: 1 is at once, 0 never, a half a tenth of a second.
func quickness(ms *float64) float64 {
	if ms == nil {
		return 0
	}
	return 1 / (1 + *ms/100)
}

func share(row *scenario.Row) float64 {
	if row.GoodputOfBound == nil {
		return -1
	}
	return *row.GoodputOfBound
}

// means is the mean share of the bound of each design, over the variants.
func (r *results) means() []cell {
	cells := make([]cell, len(r.plan.Designs))
	for d := range cells {
		sum, n := 0.0, 0
		for _, rows := range r.rows {
			if s := share(rows[d]); s >= 0 {
				sum += s
				n++
			}
		}
		cells[d] = cell{"-", -1}
		if n > 0 {
			cells[d] = cell{fmt.Sprintf("%.0f %%", 100*sum/float64(n)), sum / float64(n)}
		}
	}
	return cells
}

// Heat is how a cell is coloured: its share in percent, for the style sheet.
func (c cell) Heat() template.CSS {
	if c.Share < 0 {
		return ""
	}
	return template.CSS(fmt.Sprintf("--v:%.0f%%", 100*c.Share))
}

// write writes the page to a file.
func (rep *report) write(path string) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
	}()
	return rep.render(f)
}

func (rep *report) render(w io.Writer) error { return reportPage.Execute(w, rep) }
