// Package invariant holds checks that cost nothing in the shipped build.
//
// Build with -tags invariants to turn them on. They are deliberately not tied
// to -race: the race detector must see the code that ships.
//
//	if invariant.Enabled {
//		q.check() // a panic here cites the numbered invariant that broke
//	}
//
// The if matters: Go evaluates the arguments of a call even when its body is
// empty, and drops the whole statement when the condition is a false constant.
package invariant

import "fmt"

// Check panics with the formatted message unless ok. Call it only under
// "if invariant.Enabled".
func Check(ok bool, format string, args ...any) {
	if !ok {
		panic("invariant: " + fmt.Sprintf(format, args...))
	}
}
