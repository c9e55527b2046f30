//go:build race

package reasm

// raceEnabled: the race detector makes sync.Pool forget at random.
const raceEnabled = true
