// Package stress runs every data structure of this module under contention for
// the race detector, and checks ledgers: each item exactly once, bytes in equal
// bytes out, no walker repeats.
//
//	go test -race ./stress                        # the 30 second tier
//	go test -race ./stress -short                 # a glance
//	go test -race ./stress -stress.for=10m        # a night, per plan
//	go test -race ./stress -run StressRhmap -stress.seed=42   # replay
//
// A suite is a Plan: actors that loop until the budget is spent, a start
// barrier, GOMAXPROCS values to cycle through, and a check at the end. The
// harness prints the seed, counts operations per actor (an actor that never got
// anywhere fails the plan), and reports what every goroutine does when the plan
// is stuck. A seed fixes each actor's random choices; the schedule stays the
// machine's.
//
// Litmus tests are plans of a few operations run very often, with a table of
// the outcomes that are allowed.
package stress
