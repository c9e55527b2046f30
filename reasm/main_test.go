package reasm

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

// fewerUnderRace is n, or a quarter of it where everything takes ten times as long: for tests of one goroutine, about
// which the race detector has nothing to say.
func fewerUnderRace(n int) int {
	if raceEnabled {
		return n / 4
	}
	return n
}

func TestMain(m *testing.M) {
	if raceEnabled { // ten times slower: a tenth of the random operation lists
		if err := flag.Set("rapid.checks", "10"); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}
