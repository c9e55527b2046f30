// Package race tells tests whether the race detector watches them. It makes
// everything some ten times as long, and sync.Pool forget at random.
package race

import "testing"

// Skip skips a test under the race detector, which could find nothing in it: one
// goroutine does all its work. What is concurrent around that has tests of its own.
func Skip(t testing.TB) {
	t.Helper()
	if Enabled {
		t.Skip("one goroutine: runs without the race detector")
	}
}
