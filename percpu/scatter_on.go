//go:build race

package percpu

import "math/rand/v2"

// scatter draws a lane at random, from at least 16 and at least twice as many as
// the P id shows to exist. This is the one thing -race changes in this module:
// without it goroutines that share a P share a lane, in lockstep, and a test on
// two cores would never see the rest.
func scatter(id int) int { return rand.IntN(max(16, 2*(id+1))) }
