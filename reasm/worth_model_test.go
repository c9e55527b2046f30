package reasm

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestLog2RisesAndIsCloseToTheRealOne(t *testing.T) {
	require.EqualValues(t, 0, log2(1))
	require.EqualValues(t, 63*octave, log2(1<<63))
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Uint64Range(1, math.MaxUint64-1).Draw(t, "x") >> rapid.IntRange(0, 62).Draw(t, "shift")
		x = max(x, 1)
		require.LessOrEqual(t, log2(x), log2(x+1))
		require.InDelta(t, octave*math.Log2(float64(x)), float64(log2(x)), 2.5)
	})
	require.InDelta(t, octave*math.Log2(0.001), log1000th, 1)
	require.InDelta(t, octave*math.Log2(0.01), log100th, 1)
	require.InDelta(t, octave*math.Log2(0.009), log9in1K, 1)
}

// plainWorth is what a candidate is worth in plain arithmetic, not rounded: the
// formula as the study has it.
func plainWorth(s *scene, high, active float64, c *candidate) float64 {
	const all = 1 << 16
	size := float64(s.size) / sizeUnit
	if c.peer != nil {
		size = float64(c.peer.size()) / sizeUnit
	}
	if c.hint > 0 {
		size = float64(c.hint)
	}
	class := sizeClass(int64(size * sizeUnit))
	k := max(float64(c.fragments), 1)
	n := size
	if c.hint > 0 && c.fragments >= c.hint {
		n = k + liedBy
	}
	n = max(n, k+1)

	chance := min(float64(inClass(s.success, class))/all, 0.5)
	reordering := float64(inClass(s.holes, class)) / all
	fair, others, most := max(high/(active+1), high/4), float64(s.unknown), 1.0
	gap := float64(s.gap)
	if e := c.peer; e != nil {
		chance = float64(inClass(e.success.Load(), class)) / all
		reordering = float64(inClass(e.holes.Load(), class)) / all
		fair, others, most = high/(active+1), float64(e.memory.Load()), 8
		gap = float64(e.gap.Load())
	}
	w := max(chance, 0.01) * 2 * n / ((n - k) * (n + k))
	if c.hole {
		w *= max(reordering, 0.01)
	}
	w *= min(fair/max(others-float64(c.counted)+n*float64(c.memory)/k, 1), most)
	if c.peer == nil && s.unknown <= s.floor && c.age < s.turnover<<10 {
		return max(w, 1)
	}
	patience, idle := 4*max(gap, float64(c.gap), 1), float64(c.idle)
	switch {
	case idle <= patience:
		if c.peer != nil && c.fragments == 1 {
			w *= 1 - idle/(2*patience)
		}
	case c.seat && c.fragments == 1 && c.idle>>seatOctave(c.hash) < s.turnover/16:
		w *= 0.01
	default:
		w *= 0.001 * (patience / idle) * (patience / idle)
	}
	return w
}

func TestWorthInIntegersIsThePlainOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := func(name string, low, high int64) int64 { return rapid.Int64Range(low, high).Draw(t, name) }
		var w worthWorld
		w.init()
		w.success.Store(rapid.Uint64().Draw(t, "success"))
		w.holes.Store(rapid.Uint64().Draw(t, "holes"))
		w.gap.Store(number("world gap", 0, 1e11))
		w.size.Store(number("world size", 1<<8, 8192<<8))
		high, active := number("high", 64<<10, 1<<40), number("active", 0, 1000)
		s := newScene(&w, high, 1, number("unknown", 0, high), active, number("turnover", 1, 1e11), 0)
		c := candidate{
			hash: rapid.Uint64().Draw(t, "hash"), fragments: number("fragments", 1, 8192), hint: number("hint", 0, 8192),
			memory: number("memory", 64, 1<<23), age: number("age", 0, 2e9), idle: number("idle", 0, 1e11), gap: number("gap", 0, 1e11),
			hole: rapid.Bool().Draw(t, "hole"), seat: rapid.Bool().Draw(t, "seat"),
		}
		c.counted = number("counted", 0, c.memory)
		books := &s.unknown
		if rapid.Bool().Draw(t, "known") {
			c.peer = new(worthPeer)
			c.peer.success.Store(rapid.Uint64().Draw(t, "its success"))
			c.peer.holes.Store(rapid.Uint64().Draw(t, "its holes"))
			c.peer.gap.Store(number("its gap", 0, 1e11))
			c.peer.record.Store(uint64(number("its size", sizeUnit, 8192*sizeUnit))<<16 | 9)
			c.peer.memory.Store(number("its memory", c.counted, 1<<32))
		}
		*books = max(*books, c.counted)
		exact := octave * math.Log2(plainWorth(&s, float64(high), float64(active), &c))
		got := s.exactWorth(&c)
		// Some ten logarithms, each 1.5 steps off at most: less than a tenth of an octave.
		require.InDelta(t, exact, float64(got), 24)
		rounded := s.worth(&c)
		require.GreaterOrEqual(t, rounded, got, "up, so that one fragment is never worth more than three")
		require.Less(t, rounded, got+octave)
		require.LessOrEqual(t, s.guilt(&c), uint64(1<<16))
	})
}

func TestSharesComeToRest(t *testing.T) {
	var w worthWorld
	w.success.Store(everyClass(half))
	for range 10_000 {
		praise(&w.success, 1, tellsWorld)
		blame(&w.success, 2, tellsPeer, 1<<16)
	}
	require.EqualValues(t, half, inClass(w.success.Load(), 0), "the neighbours keep theirs")
	require.EqualValues(t, half, inClass(w.success.Load(), 3))
	require.Greater(t, inClass(w.success.Load(), 1), uint64(65400))
	require.Less(t, inClass(w.success.Load(), 2), uint64(leastShare))
	rest := w.success.Load()
	praise(&w.success, 1, tellsWorld)
	blame(&w.success, 2, tellsPeer, 1<<16)
	require.Equal(t, rest, w.success.Load())
}
