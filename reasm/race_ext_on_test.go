//go:build race

package reasm_test

// underRace: the detector makes everything ten times slower.
const underRace = true
