// Command fraglab is the laboratory of corelane: it reassembles captures, and
// shows what each design of a fragment cache does under load. Run it with --help.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := newRootCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "fraglab:", err)
		os.Exit(1)
	}
}
