package reasm

import (
	"context"
	"time"
)

// Run steps the cache until ctx is done: every so often, and again at once while
// there is work left. It is the only thing in this package that reads a clock
// or waits; clock must be the one that Add's now comes from.
func Run(ctx context.Context, c Cache, clock func() int64, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for c.Step(clock(), stepBudget) && ctx.Err() == nil {
		}
	}
}

// stepBudget bounds how long Run keeps other Steps waiting.
const stepBudget = 1024
