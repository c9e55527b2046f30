// Package model explores every interleaving of a small concurrent protocol.
//
// A protocol is written as a value (the shared memory plus each actor's program
// counter and locals) and a function that lists the successors of a value, one
// per actor that can take its next atomic step. Explore visits every reachable
// value once, breadth first, so a violation comes with a shortest schedule.
// It is for models of tens of thousands of states: proofs of protocols, not
// tests of the shipped code.
package model

import (
	"fmt"
	"strings"
)

// Step is one move of one actor: what it did, and the state it leads to.
type Step[S comparable] struct {
	Label string
	To    S
}

// Result counts what Explore saw.
type Result struct {
	States int // distinct states reached
	Edges  int // moves between them
	Ends   int // states in which nobody can move
}

// Violation is the error for a state that check refused: the reason and the
// schedule that leads there from the start.
type Violation struct {
	Err      error
	Schedule []string
}

func (v *Violation) Error() string {
	return fmt.Sprintf("model: %v after:\n  %s", v.Err, strings.Join(v.Schedule, "\n  "))
}

// Unwrap returns the reason.
func (v *Violation) Unwrap() error { return v.Err }

// Explore visits every state reachable from start. next lists the moves out of
// a state; none means everybody is done or stuck. check judges each state, and
// is told whether it is an end, so that deadlocks can be refused. The error is
// a *Violation, or says that more than limit states were reached.
func Explore[S comparable](start S, next func(S) []Step[S], check func(s S, end bool) error, limit int) (Result, error) {
	type origin struct {
		from  S
		label string
	}
	var (
		res   Result
		seen  = map[S]origin{start: {}}
		queue = []S{start}
	)
	schedule := func(s S) (labels []string) {
		for s != start {
			o := seen[s]
			labels = append([]string{o.label}, labels...)
			s = o.from
		}
		return labels
	}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		res.States++
		if res.States > limit {
			return res, fmt.Errorf("model: more than %d states", limit)
		}
		steps := next(s)
		if len(steps) == 0 {
			res.Ends++
		}
		if err := check(s, len(steps) == 0); err != nil {
			return res, &Violation{Err: err, Schedule: schedule(s)}
		}
		for _, st := range steps {
			res.Edges++
			if _, ok := seen[st.To]; !ok {
				seen[st.To] = origin{s, st.Label}
				queue = append(queue, st.To)
			}
		}
	}
	return res, nil
}
