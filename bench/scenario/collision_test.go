package scenario

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"corelane/internal/race"
	"corelane/reasm"
)

// TestCollisionIsFeltAndRehashed compares real times, of one thread, that differ
// by more than ten times on a machine at rest.
func TestCollisionIsFeltAndRehashed(t *testing.T) {
	race.Skip(t)
	if runtime.GOOS != "linux" {
		t.Skip("needs the CPU time of a thread")
	}
	rows := runScenario(t, &collision, []string{"global-lru", "percpu-lru", "walker"})
	cost := func(design string) (calm, aimed, again float64) {
		c := row(t, rows, design).CostNs
		require.Len(t, c, 3)
		return c[0], c[1], c[2]
	}
	calm, aimed, again := cost("global-lru")
	require.Greater(t, aimed, 4*calm, "one chain for all")
	require.Less(t, again, aimed/3, "rehashed after ten minutes")
	_, _, never := cost("percpu-lru")
	require.Greater(t, never, 3*again, "never rehashed")
	_, fresh, _ := cost("walker")
	require.Less(t, fresh, aimed/3, "rhmap takes a fresh key at once")
	for _, r := range rows {
		require.Positive(t, *r.GoodputOfBound, r.Design)
	}
}

// TestCollisionFillsOneChain needs no clock: work-queue refuses newcomers from a
// chain of 128 queues on, and without the aim it refuses none for that.
func TestCollisionFillsOneChain(t *testing.T) {
	refused := func(aimed bool) int {
		v := collisionVariant(50_000, 200*ms)
		v.Limits = limits(1 << 30) // full memory refuses nobody
		traffic := v.Traffic
		v.Traffic = func(m *Mix) {
			traffic(m)
			for i := 0; i < len(m.events); i++ {
				if m.events[i].at > second {
					m.events = m.events[:i]
				}
			}
		}
		if !aimed {
			v.Config = nil
		}
		return play(t, "work-queue", &v).Refused
	}
	require.Zero(t, refused(false))
	// One stream's datagrams may fall into that chain, too.
	require.InDelta(t, 10_000-128, refused(true), 44*3)
}

func TestAimHitsOneChainAndOneBucket(t *testing.T) {
	const seed = 0x1234_5678_9abc_def0
	a := newAim(500)
	a.search(seed)
	for _, h := range a.hashes {
		require.Equal(t, murmur(a.hashes[0])%1024, murmur(h)%1024)
		require.Equal(t, murmur(a.hashes[0]^seed)>>36, murmur(h^seed)>>36)
		require.Equal(t, h, unmurmur(murmur(h)))
	}
	cfg := reasm.DefaultConfig()
	cfg.Hash = func(k *reasm.Key) uint64 { return k.SrcLo }
	newAim(2).config(&cfg)
	require.EqualValues(t, Host(1), cfg.Hash(&reasm.Key{SrcLo: uint64(Host(1))}), "good keys keep their hash")
	require.NotEqual(t, uint64(attackers+1), cfg.Hash(&reasm.Key{SrcLo: attackers + 1}))
}

// TestStopwatchCountsWhatFallsIntoItsPhases with times of events made by hand.
func TestStopwatchCountsWhatFallsIntoItsPhases(t *testing.T) {
	phases := []Phase{{From: 10, To: 20}, {From: 20, To: 30}, {From: 50, To: 60}}
	w := newStopwatch(phases)
	for at := int64(0); at < 55; at++ {
		w.event(at)
		switch {
		case at >= 10 && at < 30 || at >= 50:
			require.True(t, w.on, "at %d", at)
		default:
			require.False(t, w.on, "at %d", at)
		}
	}
	require.Equal(t, 5, w.events)
	costs := w.stop(phases)
	require.Len(t, costs, 3)
	for _, c := range costs {
		require.GreaterOrEqual(t, c, 0.0)
	}
}
