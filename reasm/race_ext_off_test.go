//go:build !race

package reasm_test

const underRace = false
