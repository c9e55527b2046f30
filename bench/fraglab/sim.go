package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"corelane/bench/scenario"
)

// simOptions are the command line of sim.
type simOptions struct {
	scenarios, designs []string
	seed               uint64
	full               bool
	json, csv          bool
	report             reportOptions
}

func newSimCommand() *cobra.Command {
	var o simOptions
	var about strings.Builder
	for _, s := range scenario.Scenarios() {
		fmt.Fprintf(&about, "\n  %-15s mail %s: %s", s.Name, s.From, s.Ask)
	}
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Put fragment caches under the loads the mails speak of, in virtual time",
		Long: `sim runs scenarios: real packets go into real fragment caches, the same ones
into each, in virtual time. The same seed gives the same figures, on any number
of cores.

A result is measured against a bound that holds for any cache, even one that
knows the future, with as much memory as the run used.

Scenarios:` + about.String(),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.scenarios, "scenario", nil, "scenarios to run, separated by commas (default all)")
	f.StringSliceVar(&o.designs, "design", nil, "designs to run, separated by commas (default all)")
	f.Uint64Var(&o.seed, "seed", 1, "what all randomness is drawn from")
	f.BoolVar(&o.full, "full", false, "three times as long, and the variants that take long")
	f.BoolVar(&o.json, "json", false, "print a JSON array of objects, one for each run, instead of tables")
	f.BoolVar(&o.csv, "csv", false, "print the same as CSV")
	cmd.MarkFlagsMutuallyExclusive("json", "csv")
	o.report.flags(cmd, "")
	return cmd
}

func (o *simOptions) run(ctx context.Context, stdout, stderr io.Writer) error {
	plan := scenario.Plan{Scale: scenario.Normal, Seed: o.seed}
	if o.full {
		plan.Scale = scenario.Full
	}
	var err error
	if plan.Scenarios, err = scenario.Find(o.scenarios); err != nil {
		return err
	}
	if plan.Designs, err = scenario.FindDesigns(o.designs); err != nil {
		return err
	}
	rows, err := runPlan(ctx, &plan, stderr)
	if err != nil {
		return err
	}
	if err := o.report.write(&plan, rows); err != nil {
		return err
	}
	switch {
	case o.csv:
		return scenario.WriteCSV(stdout, rows)
	case o.json:
		enc := json.NewEncoder(stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(rows)
	}
	return writeTables(stdout, &plan, rows)
}

// runPlan makes the runs of a plan and shows how far they are.
func runPlan(ctx context.Context, plan *scenario.Plan, stderr io.Writer) ([]*scenario.Row, error) {
	bar := newRunBar(stderr)
	plan.Progress = bar.tick
	rows, err := plan.Run(ctx)
	bar.stop(err)
	return rows, err
}
