package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"corelane/bench/scale"
	"corelane/bench/scale/machine"
)

func newScaleCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "scale",
		Short: "Predict what each design costs on up to 128 CPUs",
		Long: `scale executes the real designs on virtual CPUs that share cache lines and locks,
in virtual time: the library is compiled with every load, store, atomic and lock
marked, and a machine of up to 128 CPUs is charged for each. Building that takes the
go command, the sources, and some seconds.

What it says of more than two CPUs is a prediction, good for who is ahead of whom and
for where a design bends; validate says how good.`,
	}
	cmd.AddCommand(newCalibrateCommand(), newValidateCommand(), newRunCommand(), newProfileCommand())
	return cmd
}

// scaleOptions are what the commands of scale share.
type scaleOptions struct {
	constants, machine string
	designs            []string
	loads              []string
	cpus               []int
	windows            int
	limit              time.Duration
	seed               uint64
	most               int
	json, noMail       bool
	out                string
}

func (o *scaleOptions) model(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.constants, "constants", "", "file that calibrate wrote (default the committed ones)")
	f.StringSliceVar(&o.designs, "design", nil, "designs, separated by commas (default all)")
	f.BoolVar(&o.json, "json", false, "print JSON instead of tables")
}

func (o *scaleOptions) simulated(cmd *cobra.Command) {
	o.model(cmd)
	f := cmd.Flags()
	f.StringVar(&o.machine, "machine", "clusters", "clusters: as measured; uniform: every transfer 60 ns; 2013: ticket locks, two sockets")
	f.StringSliceVar(&o.loads, "load", nil, "loads, separated by commas: 64K, 3F, and each with +DoS or +MQ (default all)")
	f.Uint64Var(&o.seed, "seed", 1, "what all randomness is drawn from")
}

func (o *scaleOptions) measured(cmd *cobra.Command) {
	f := cmd.Flags()
	f.IntVar(&o.windows, "windows", 25, "undisturbed windows wanted of each case")
	f.DurationVar(&o.limit, "limit", 60*time.Second, "how long to try")
}

func newCalibrateCommand() *cobra.Command {
	var o scaleOptions
	cmd := &cobra.Command{
		Use:   "calibrate",
		Short: "Measure this machine's constants; it needs two processors to itself",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.withRig(cmd, func(ctx context.Context, rig *scale.Rig) error {
				var earlier *scale.Constants
				if o.constants != "" {
					var err error
					if earlier, err = scale.Read(o.constants); err != nil {
						return err
					}
				}
				k, err := scale.Calibrate(ctx, rig, earlier, scale.Effort{Windows: o.windows, Limit: o.limit})
				if err != nil {
					return err
				}
				to := cmd.OutOrStdout()
				if o.out != "" {
					f, err := os.Create(o.out)
					if err != nil {
						return err
					}
					defer func() { err = errors.Join(err, f.Close()) }()
					to = f
				}
				return writeJSON(to, k)
			})
		},
	}
	o.measured(cmd)
	cmd.Flags().StringVar(&o.constants, "constants", "", "earlier ones, for what cannot be measured while the CPUs stand where they do")
	cmd.Flags().StringVarP(&o.out, "output", "o", "", "file to write (default standard output)")
	return cmd
}

func newValidateCommand() *cobra.Command {
	var o scaleOptions
	cmd := &cobra.Command{
		Use:   "validate",
		Short: "Compare the model with this machine, on one and two CPUs",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.withRig(cmd, func(ctx context.Context, rig *scale.Rig) error {
				k, designs, err := o.read()
				if err != nil {
					return err
				}
				v, err := scale.Validate(ctx, rig, k, designs, scale.Effort{Windows: o.windows, Limit: o.limit})
				if err != nil {
					return err
				}
				if o.json {
					return writeJSON(cmd.OutOrStdout(), v)
				}
				return v.Write(cmd.OutOrStdout())
			})
		},
	}
	o.model(cmd)
	o.measured(cmd)
	return cmd
}

func newRunCommand() *cobra.Command {
	var o scaleOptions
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Predict throughput on 1 to 128 CPUs, and the table of mail 002",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.withRig(cmd, func(ctx context.Context, rig *scale.Rig) error { return o.run(ctx, cmd, rig) })
		},
	}
	o.simulated(cmd)
	cmd.Flags().IntSliceVar(&o.cpus, "cpus", scale.CPUCounts(), "numbers of CPUs")
	cmd.Flags().BoolVar(&o.noMail, "no-mail", false, "leave out the table of mail 002")
	return cmd
}

func (o *scaleOptions) run(ctx context.Context, cmd *cobra.Command, rig *scale.Rig) error {
	k, designs, err := o.read()
	if err != nil {
		return err
	}
	p, loads, err := o.choose(k)
	if err != nil {
		return err
	}
	res := &scale.Prediction{Machine: o.machine, Params: p, Seed: o.seed}
	if res.Points, err = scale.Predict(ctx, rig, k, p, designs, loads, o.cpus, o.seed, nil); err != nil {
		return err
	}
	if !o.noMail {
		if res.Mail, err = scale.Mail(ctx, rig, k, designs, o.seed, nil); err != nil {
			return err
		}
	}
	if o.json {
		return writeJSON(cmd.OutOrStdout(), res)
	}
	return res.Write(cmd.OutOrStdout())
}

func newProfileCommand() *cobra.Command {
	var o scaleOptions
	cmd := &cobra.Command{
		Use:   "profile",
		Short: "Say which shared lines each design hits, and how often per fragment",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.withRig(cmd, func(ctx context.Context, rig *scale.Rig) error { return o.profile(ctx, cmd.OutOrStdout(), rig) })
		},
	}
	o.simulated(cmd)
	cmd.Flags().IntSliceVar(&o.cpus, "cpus", []int{16}, "numbers of CPUs")
	cmd.Flags().IntVar(&o.most, "most", 8, "lines of each table")
	return cmd
}

func (o *scaleOptions) profile(ctx context.Context, stdout io.Writer, rig *scale.Rig) error {
	k, designs, err := o.read()
	if err != nil {
		return err
	}
	p, loads, err := o.choose(k)
	if err != nil {
		return err
	}
	if len(o.loads) == 0 {
		loads = loads[:1]
	}
	var all []*scale.Profile
	for _, d := range designs {
		for _, l := range loads {
			for _, n := range o.cpus {
				x, err := scale.MakeProfile(ctx, rig, k, p, d, l, n, o.seed)
				if err != nil {
					return err
				}
				all = append(all, x)
				if !o.json {
					if err := x.Write(stdout, o.most); err != nil {
						return err
					}
				}
			}
		}
	}
	if o.json {
		return writeJSON(stdout, all)
	}
	return nil
}

// withRig builds the program that runs cells, and removes it afterwards.
func (o *scaleOptions) withRig(cmd *cobra.Command, do func(context.Context, *scale.Rig) error) error {
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	rig, err := scale.NewRig(ctx)
	if err != nil {
		return err
	}
	defer rig.Close()
	return do(ctx, rig)
}

func (o *scaleOptions) read() (k *scale.Constants, designs []string, err error) {
	if o.constants == "" {
		k, err = scale.Committed()
	} else {
		k, err = scale.Read(o.constants)
	}
	known := scale.AllDesigns()
	if designs = o.designs; len(designs) == 0 {
		designs = known
	}
	for _, d := range designs {
		if !slices.Contains(known, d) {
			return nil, nil, fmt.Errorf("no design is called %q; there are %s", d, strings.Join(known, ", "))
		}
	}
	return k, designs, err
}

func (o *scaleOptions) choose(k *scale.Constants) (p machine.Params, loads []scale.Load, err error) {
	p, ok := k.Machines(o.machine)
	if !ok {
		return p, nil, fmt.Errorf("no machine is called %q; there are clusters, uniform and 2013", o.machine)
	}
	for _, n := range o.cpus {
		if n < 1 || n > machine.MaxCPUs {
			return p, nil, fmt.Errorf("a machine has 1 to %d CPUs, not %d", machine.MaxCPUs, n)
		}
	}
	all := scale.Loads()
	if len(o.loads) == 0 {
		return p, all, nil
	}
	for _, name := range o.loads {
		at := -1
		for i, l := range all {
			if l.Name == name {
				at = i
			}
		}
		if at < 0 {
			return p, nil, fmt.Errorf("no load is called %q; there are 64K and 3F, and each with +DoS or +MQ", name)
		}
		loads = append(loads, all[at])
	}
	return p, loads, nil
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", " ")
	return enc.Encode(v)
}
