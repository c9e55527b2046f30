package main

import "github.com/spf13/cobra"

// newRootCommand returns the command with its subcommands. Results go to its
// standard output and nothing else does; errors are returned, and main prints
// them.
func newRootCommand() *cobra.Command {
	var o reportOptions
	root := &cobra.Command{
		Use:   "fraglab",
		Short: "The laboratory of the IP fragment cache",
		Long: `fraglab shows what each design of an IP fragment cache does: with the fragments
of a capture (replay), and under load (sim). Without a command it makes a quick
tour of all scenarios and designs, and writes a report.`,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return runTour(cmd, &o) },
	}
	o.flags(root, "fraglab-report.html")
	root.AddCommand(newReplayCommand(), newSimCommand(), newThroughputCommand(), newStudyCommand(), newScaleCommand())
	return root
}
