package reasm

import (
	"flag"
	"testing"

	"go.uber.org/goleak"

	"corelane/internal/race"
)

// fewerUnderRace is n, or a quarter of it where everything takes ten times as long: for tests of one goroutine, about
// which the race detector has nothing to say.
func fewerUnderRace(n int) int {
	if race.Enabled {
		return n / 4
	}
	return n
}

func TestMain(m *testing.M) {
	if race.Enabled { // ten times slower: a tenth of the random operation lists
		if err := flag.Set("rapid.checks", "10"); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}
