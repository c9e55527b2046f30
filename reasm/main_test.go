package reasm

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if raceEnabled { // ten times slower: a tenth of the random operation lists
		if err := flag.Set("rapid.checks", "10"); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}
