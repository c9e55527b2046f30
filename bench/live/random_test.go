package live

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"corelane/internal/judge"
)

func TestRandomCaseDependsOnItsNumberOnly(t *testing.T) {
	for _, family := range []int{4, 6} {
		seen := make(map[string]int)
		for number := range uint64(2000) {
			c := Random(family, 1, number)
			require.Equal(t, c, Random(family, 1, number))
			require.Len(t, judge.Packets(&c), len(c.Steps))
			seen[strings.Split(c.Name, "/")[1]]++
		}
		weights := 0
		for _, k := range kinds {
			w := k.w4
			if family == 6 {
				w = k.w6
			}
			weights += w
			require.Equal(t, w > 0, seen[k.name] > 0, "family %d, kind %s: %v", family, k.name, seen)
		}
		require.Equal(t, 1000, weights)
		require.NotEqual(t, Random(family, 1, 7).Steps, Random(family, 2, 7).Steps)
	}
}

// No event may be near an expiry: the kernel's timers are late by up to 64 ms.
func TestRandomPausesKeepAwayFromExpiries(t *testing.T) {
	for number := range uint64(500) {
		c := RandomTimed(4, 1, number)
		require.Equal(t, 1000, c.Cfg.TimeoutMS)
		total := 0
		for _, s := range c.Steps {
			require.Zero(t, s.Pause%400)
			total += s.Pause
		}
		require.GreaterOrEqual(t, total, 1600)
	}
}
