package reasm

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDoomIsForgottenAfterSomeTurnovers(t *testing.T) {
	for _, now := range []int64{-1 << 40, 0, 1 << 40} {
		for turnover, last := range map[int64]int64{1: leastDoom << doomTick, 2e6: 2e6 * doomTurns, 1e12: mostDoom << doomTick} {
			var d doomTable
			require.False(t, d.has(7<<50, now, turnover))
			d.add(7<<50, now)
			require.True(t, d.has(7<<50, now, turnover))
			require.True(t, d.has(7<<50, now+last-1<<doomTick, turnover))
			require.False(t, d.has(7<<50, now+last+2<<doomTick, turnover))
			require.False(t, d.has(9<<50, now, turnover), "another fingerprint in the same place")
		}
	}
}

func TestPeerStaysWhileItHasQueues(t *testing.T) {
	var (
		p     worthPeers
		world worthWorld
	)
	world.init()
	// Three sources for the same two places.
	tag := func(i uint64) uint64 { return i<<48 | 5<<32 | 3 }
	first := p.insert(tag(1), 0, &world)
	second := p.insert(tag(2), 0, &world)
	require.NotNil(t, first)
	require.NotNil(t, second)
	require.Same(t, first, p.find(tag(1)))
	require.Same(t, first, p.insert(tag(1), 0, &world))
	require.Nil(t, p.find(tag(3)))
	for _, e := range []*worthPeer{first, second} {
		ok, alone := e.acquire(e.tag.Load())
		require.True(t, ok && alone)
	}
	ok, alone := first.acquire(tag(1))
	require.True(t, ok && !alone)
	require.Nil(t, p.insert(tag(3), 0, &world), "both have queues")
	require.False(t, first.release())
	require.True(t, first.release())
	require.True(t, second.release())
	third := p.insert(tag(3), 0, &world)
	require.NotNil(t, third)
	ok, _ = third.acquire(tag(1))
	require.False(t, ok, "the place is another source's")
	require.Nil(t, p.find(tag(1)))
}

// A source that completed much is the harder to push out of its place: with score
// s a newcomer takes a point off with the chance 1.3^-s.
func TestPeerWithARecordIsHardToPushOut(t *testing.T) {
	tries := func(score uint64) (n int) {
		var (
			p      worthPeers
			world  worthWorld
			random worthLane
		)
		world.init()
		for i := range uint64(2) {
			e := p.insert(i<<48|5<<32|3, 0, &world)
			e.record.Store(score)
		}
		for n = 1; p.insert(9<<48|5<<32|3, random.next(), &world) == nil; n++ {
		}
		return n
	}
	require.LessOrEqual(t, tries(1), 12)
	require.Greater(t, tries(12), 40)
}
