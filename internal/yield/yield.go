// Package yield marks the windows of lock-free code, so that tests can force
// the interleaving a comment argues about.
//
// A window is named "package.window" and marked with
//
//	yield.Point("rhmap.swap")
//
// In the shipped build Point is empty and inlined away. With -tags invariants
// a test may park one goroutine in a window (On), or let every window give up
// the processor at random (Chaos). Tests that need a window skip, saying so,
// unless Enabled.
package yield
