package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/jedib0t/go-pretty/v6/progress"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"corelane/bench/scenario"
)

// runTour is fraglab without arguments: every scenario with every design, on
// links of 1 Gbit/s, side by side.
func runTour(cmd *cobra.Command, o *reportOptions) error {
	plan := scenario.Plan{Scale: scenario.Quick, Seed: 1}
	var err error
	if plan.Scenarios, err = scenario.Find(nil); err != nil {
		return err
	}
	if plan.Designs, err = scenario.FindDesigns(nil); err != nil {
		return err
	}
	return tour(cmd.Context(), &plan, o, cmd.OutOrStdout(), cmd.ErrOrStderr())
}

func tour(ctx context.Context, plan *scenario.Plan, o *reportOptions, stdout, stderr io.Writer) error {
	start := time.Now()
	rows, err := runPlan(ctx, plan, stderr)
	if err != nil {
		return err
	}
	if err := writeTables(stdout, plan, rows); err != nil {
		return err
	}
	if err := o.write(plan, rows); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(stdout, "report: %s\n", o.out); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stderr, "fraglab: %d runs in %.1f s; fraglab sim --help says how to make others\n",
		len(rows), time.Since(start).Seconds())
	return err
}

// writeTables writes one table for each scenario, a line for each variant and a
// column for each design.
func writeTables(w io.Writer, plan *scenario.Plan, rows []*scenario.Row) error {
	for _, s := range plan.Scenarios {
		t := table.NewWriter()
		t.SetStyle(table.StyleLight)
		t.Style().Format.Header = text.FormatDefault
		header := table.Row{"", "possible"}
		columns := []table.ColumnConfig{{Number: 2, Align: text.AlignRight, AlignHeader: text.AlignRight}}
		for i, d := range plan.Designs {
			header = append(header, d)
			columns = append(columns, table.ColumnConfig{Number: i + 3, Align: text.AlignRight, AlignHeader: text.AlignRight})
		}
		t.AppendHeader(header)
		t.SetColumnConfigs(columns)
		for len(rows) > 0 && rows[0].Scenario == s.Name {
			line := table.Row{rows[0].Variant, possible(rows[0])}
			for _, r := range rows[:len(plan.Designs)] {
				line = append(line, s.Headline.Of(r))
			}
			t.AppendRow(line)
			rows = rows[len(plan.Designs):]
		}
		if _, err := fmt.Fprintf(w, "%s (mail %s): %s\n%s\n%s\n\n", s.Name, s.From, s.Ask,
			text.WrapSoft("Shown: "+s.Measure, 120), t.Render()); err != nil {
			return err
		}
	}
	return nil
}

// possible is the part of what arrived that fits into memory: what a clairvoyant
// heuristic delivers, and what nobody exceeds.
func possible(r *scenario.Row) string {
	if r.Completable == 0 {
		return "-"
	}
	least := fmt.Sprintf("%.0f", 100*float64(r.Clairvoyant)/float64(r.Completable))
	most := fmt.Sprintf("%.0f", 100*float64(r.BoundNominal)/float64(r.Completable))
	if least == most {
		return most + " %"
	}
	return least + "-" + most + " %"
}

// runBar shows how many runs of a plan are done: a bar on a terminal, a line now
// and then elsewhere.
type runBar struct {
	w       io.Writer
	tracker *progress.Tracker // nil: lines
	done    chan struct{}     // closed when the bar is no longer drawn
	shown   time.Time         // of the last line
}

// lineEvery is the time between two lines of progress.
const lineEvery = 5 * time.Second

func newRunBar(stderr io.Writer) *runBar {
	b := &runBar{w: stderr, shown: time.Now()}
	if !isTerminal(stderr) {
		return b
	}
	pw := progress.NewWriter()
	pw.SetOutputWriter(stderr)
	pw.SetAutoStop(true)
	b.tracker = &progress.Tracker{Message: "scenarios"}
	pw.AppendTracker(b.tracker)
	b.done = make(chan struct{})
	go func() {
		pw.Render()
		close(b.done)
	}()
	return b
}

func (b *runBar) tick(done, all int, r *scenario.Row) {
	if b.tracker != nil {
		b.tracker.UpdateMessage(r.Scenario)
		b.tracker.UpdateTotal(int64(all))
		b.tracker.SetValue(int64(done))
		return
	}
	if now := time.Now(); now.Sub(b.shown) >= lineEvery || done == all {
		b.shown = now
		fmt.Fprintf(b.w, "fraglab: %d of %d runs done (%s)\n", done, all, r.Scenario)
	}
}

// stop draws the bar for the last time.
func (b *runBar) stop(err error) {
	if b.tracker == nil {
		return
	}
	if err != nil {
		b.tracker.MarkAsErrored()
	} else {
		b.tracker.MarkAsDone()
	}
	<-b.done
}
