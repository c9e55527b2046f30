package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"corelane/bench/scenario"
	"corelane/bench/study"
)

// studyOptions are the command line of study.
type studyOptions struct {
	loads, designs  []string
	seeds, lanes    int
	steer           string
	json, csv, list bool
	check           bool
	quiet           bool
}

func newStudyCommand() *cobra.Command {
	var o studyOptions
	cmd := &cobra.Command{
		Use:   "study",
		Short: "Measure how well each design chooses what to give up",
		Long: `study runs more than two hundred loads through each design in virtual time and
prints the matrix: what was completed, in percent of a bound that holds for any
cache within the limit, even one that knows the future. The same seeds give the
same figures on any number of cores.

Loads are named by their beginning ("S1", "S4 slow=3F") or by their set: study,
attack, held-out.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.loads, "scenario", nil, "loads to run, by the beginning of their name or by set (default all)")
	f.StringSliceVar(&o.designs, "design", nil, "designs to run, separated by commas (default all)")
	f.IntVar(&o.seeds, "seeds", 1, "run seeds 1 to this, and show the mean")
	f.IntVar(&o.lanes, "lanes", 0, "virtual CPUs (default 1, and 4 for percpu-lru)")
	f.StringVar(&o.steer, "steer", "source", "lane of a packet, if there are several: by source, key or packet")
	f.BoolVar(&o.json, "json", false, "print a JSON array of objects, one for each load and design")
	f.BoolVar(&o.csv, "csv", false, "print the same as CSV")
	f.BoolVar(&o.list, "list", false, "print the names of the loads and run nothing")
	f.BoolVar(&o.check, "check", false, "print what worth promises and what it reached; fail if it is less")
	f.BoolVar(&o.quiet, "quiet", false, "do not show how far it is")
	return cmd
}

var errPromises = errors.New("worth does not reach all that it promises")

func (o *studyOptions) run(ctx context.Context, stdout, stderr io.Writer) error {
	plan := study.Plan{Seeds: o.seeds, Lanes: o.lanes}
	var err error
	if plan.Loads, err = study.FindLoads(o.loads); err != nil {
		return err
	}
	if plan.Designs, err = scenario.FindDesigns(o.designs); err != nil {
		return err
	}
	if plan.Steer, err = study.FindSteering(o.steer); err != nil {
		return err
	}
	if o.seeds < 1 || o.lanes < 0 {
		return fmt.Errorf("seeds must be 1 or more and lanes not negative, got %d and %d", o.seeds, o.lanes)
	}
	if o.list {
		for _, l := range plan.Loads {
			fmt.Fprintln(stdout, l.Name)
		}
		return nil
	}
	start := time.Now()
	if !o.quiet {
		plan.Progress = func(done, all int, l *study.Load) {
			fmt.Fprintf(stderr, "\r\033[K%d of %d, %v, %s", done, all, time.Since(start).Round(time.Second), l.Name)
			if done == all {
				fmt.Fprintln(stderr)
			}
		}
	}
	var printed error // the first error of printing
	if err := o.print(stdout, &plan, &printed); err != nil {
		return err
	}
	cells, err := plan.Run(ctx)
	if err = errors.Join(err, printed); err != nil {
		return err
	}
	return o.end(stdout, cells)
}

// print prints a load's cells when they are known, where that can be done.
func (o *studyOptions) print(w io.Writer, plan *study.Plan, failed *error) error {
	var (
		add func([]*study.Cell) error
		err error
	)
	switch {
	case o.json, o.check:
		return nil
	case o.csv:
		var c *study.CSV
		c, err = study.NewCSV(w)
		add = c.Add
	default:
		var m *study.Matrix
		m, err = study.NewMatrix(w, plan)
		add = m.Add
	}
	plan.Done = func(cells []*study.Cell) {
		if *failed == nil {
			*failed = add(cells)
		}
	}
	return err
}

// end prints what can be said at the end only.
func (o *studyOptions) end(w io.Writer, cells []*study.Cell) error {
	switch {
	case o.json:
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(cells)
	case o.check:
		vs := study.Check(cells, "worth")
		if err := study.WriteVerdicts(w, vs); err != nil {
			return err
		}
		if len(study.Missed(vs)) > 0 {
			return errPromises
		}
	}
	return nil
}
