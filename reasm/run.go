package reasm

import (
	"context"
	"time"
)

// Stepper is what Run keeps going: a Cache, or a Host.
type Stepper interface {
	// Step does what is due, about budget of it, and reports whether work is left.
	Step(now int64, budget int) (more bool)
}

// Run steps a cache or a host, every so often, and again at once while there is
// work left. It returns when ctx is done, or the cache or host was closed; of a
// Host's caches, when the Host was. It is the only thing in this package that
// reads a clock or waits; clock must be the one that Add's now comes from.
//
// A Step serves all namespaces of a host, so one Run for a host is enough.
func Run(ctx context.Context, s Stepper, clock func() int64, every time.Duration) {
	var over <-chan struct{} // for ever, if s cannot tell
	if c, ok := s.(interface{ over() <-chan struct{} }); ok {
		over = c.over()
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-over:
			return
		case <-tick.C:
		}
		for s.Step(clock(), stepBudget) && ctx.Err() == nil {
		}
	}
}

// stepBudget bounds how long Run keeps other Steps waiting.
const stepBudget = 1024
