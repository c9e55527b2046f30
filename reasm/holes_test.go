package reasm

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// slowHoles is the rule as it is written down: a list of runs in order of
// arrival.
type slowHoles struct{ runs []run }

func (s *slowHoles) top() (top uint32, highest int) {
	highest = -1
	for i, r := range s.runs {
		if r.end > top {
			top, highest = r.end, i
		}
	}
	return top, highest
}

func (s *slowHoles) classify(off, end uint32) fit {
	touched := 0
	for _, r := range s.runs {
		if off < r.end && end > r.off {
			touched++
			if off >= r.off && end <= r.end {
				return duplicate
			}
		}
	}
	if touched > 0 {
		return overlaps
	}
	return fits
}

func (s *slowHoles) add(off, end uint32) {
	if top, i := s.top(); i >= 0 && off == top {
		s.runs[i].end = end
		return
	}
	s.runs = append(s.runs, run{off, end})
}

// A fragment ends at a multiple of 8 unless it is the highest (H3), which the
// generator keeps.
func TestHolesMatchSlowList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var (
			h    holes
			slow slowHoles
			size = rapid.SampledFrom([]uint32{6, 40, 1 << 13}).Draw(t, "units")
			long = rapid.Uint32Range(1, min(size, 300)).Draw(t, "longest")
		)
		defer h.reset()
		for range rapid.IntRange(1, 80).Draw(t, "fragments") {
			u := rapid.Uint32Range(0, size-1).Draw(t, "unit")
			n := rapid.Uint32Range(1, long).Draw(t, "len")
			off, end := u*unit, (u+n)*unit
			want := slow.classify(off, end)
			require.Equal(t, want, h.classify(off, end), "%d..%d in %v", off, end, &h)
			if want != fits {
				continue
			}
			slow.add(off, end)
			h.add(off, end)
			var sum uint32
			for _, r := range slow.runs {
				sum += r.end - r.off
			}
			top, _ := slow.top()
			require.Equal(t, sum, h.bytes)
			require.Equal(t, top, h.top)
			require.Len(t, h.runs(), len(slow.runs))
		}
	})
}

func TestHolesDrawThemselves(t *testing.T) {
	var h holes
	h.add(8, 24)
	h.add(32, 40)
	h.add(24, 32)
	require.Equal(t, "[ (8) 16 8 8 ]", h.String())
	require.Equal(t, 1, h.gaps())
	require.Equal(t, overlaps, h.classify(8, 32), "the same bytes in two runs are an overlap")
	require.Equal(t, duplicate, h.classify(16, 24))
	h.reset()
	require.Equal(t, "[ ]", h.String())
}

// Every recycled bitmap must be empty, or a later datagram would see bytes of an
// earlier one.
func TestUnitMapIsEmptyWhenReused(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		var h holes
		for _, u := range rng.Perm(1 << 13) {
			if u%3 == 0 {
				h.add(uint32(u)*unit, uint32(u+1)*unit)
			}
		}
		bits := h.bits
		require.NotNil(t, bits)
		h.reset()
		require.Equal(t, unitMap{}, *bits)
	}
}
