package scenario

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"corelane/internal/race"
)

// best is the most datagrams that a cache with so much memory can deliver if it
// knows the future, found by trying everything: at each arrival it may refuse
// the fragment, or keep it and drop any set of fragments. It shares nothing with
// the bound but what a fragment costs.
func best(t *trace, charge Charge, memory int64) int {
	type state struct {
		held uint32 // fragments, by slot
		done uint32 // datagrams
	}
	whole := make([]uint32, len(t.dgrams)) // slots of a datagram
	slot := make([]uint32, len(t.dgrams)+1)
	for d := range t.dgrams {
		n := uint32(t.dgrams[d].frags())
		whole[d] = (1<<n - 1) << slot[d]
		slot[d+1] = slot[d] + n
	}
	fits := func(held uint32) bool {
		cost := int64(bits.OnesCount32(held)) * charge.Fragment
		for _, w := range whole {
			if held&w != 0 {
				cost += charge.Queue
			}
		}
		return cost <= memory
	}
	states := map[state]bool{{}: true}
	for _, e := range t.events {
		bit := uint32(1) << (slot[e.dgram] + uint32(e.frag))
		w := whole[e.dgram]
		next := make(map[state]bool)
		for s := range states {
			next[s] = true
			if s.done>>e.dgram&1 == 1 || s.held&bit != 0 {
				continue
			}
			if (s.held|bit)&w == w {
				next[state{s.held &^ w, s.done | 1<<e.dgram}] = true
				continue
			}
			for keep := s.held; ; keep = (keep - 1) & s.held {
				if fits(keep | bit) {
					next[state{keep | bit, s.done}] = true
				}
				if keep == 0 {
					break
				}
			}
		}
		states = next
	}
	most := 0
	for s := range states {
		most = max(most, bits.OnesCount32(s.done))
	}
	return most
}

// smallTrace is a few datagrams of 2 to 4 fragments, thrown together.
func smallTrace(r *rand.Rand) *trace {
	m := &Mix{}
	span := []int64{10_000, 200_000, 3 * ms}[r.IntN(3)]
	again := []float64{0, 0, 0.2, 0.6}[r.IntN(4)]
	for range 3 + r.IntN(2) {
		d := m.open(datagram{bytes: uint32(2+r.IntN(3)) * mtuPayload})
		for f := range m.dgrams[d].frags() {
			at := r.Int64N(span)
			m.events = append(m.events, event{at: at, dgram: d, frag: uint16(f)})
			if r.Float64() < again {
				m.events = append(m.events, event{at: at + r.Int64N(span), dgram: d, frag: uint16(f)})
			}
		}
	}
	return m.trace()
}

// TestOptimumIsBetweenClairvoyantAndBound on every small case: heuristic <=
// optimum <= bound.
func TestOptimumIsBetweenClairvoyantAndBound(t *testing.T) {
	charge := Charge{Queue: 30, Fragment: 100}
	var heuristic, optimum, bound, completable, tight int
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		tr := smallTrace(r)
		memory := int64(130 + r.IntN(500))
		b := newBounder(tr, charge, 0)
		ones := make([]float64, len(b.dgrams))
		for i := range ones {
			ones[i] = 1
		}
		// The prices are found for another memory, too: any prices must do.
		most := best(tr, charge, memory)
		for _, nominal := range []int64{memory, memory / 2, 3 * memory} {
			c := b.ceiling(ones, nominal)
			require.GreaterOrEqual(t, int(c.at(memory)), most, "seed %d, memory %d, prices for %d", seed, memory, nominal)
			known := int(c.clairvoyant(tr, charge, 0, memory))
			require.LessOrEqual(t, known, most, "seed %d, memory %d, prices for %d", seed, memory, nominal)
			if nominal == memory {
				heuristic += known
				optimum += most
				bound += int(c.at(memory))
				completable += len(ones)
				if int(c.at(memory)) < len(ones) {
					tight++
				}
			}
		}
	}
	t.Logf("clairvoyant heuristic %d, optimum %d, bound %d, completable %d; the bound says something in %d cases",
		heuristic, optimum, bound, completable, tight)
	require.Greater(t, tight, 20, "the cases are too easy to show anything")
	require.Greater(t, heuristic, optimum*9/10, "the heuristic is far from what is possible")
}

// TestBoundOfDisjointRounds is a case whose optimum is known: of two datagrams
// that need all memory at the same time only one fits, round after round.
func TestBoundOfDisjointRounds(t *testing.T) {
	const rounds = 50
	for _, rivals := range []int{2, 5} {
		t.Run(fmt.Sprintf("rivals=%d", rivals), func(t *testing.T) {
			m := &Mix{}
			for i := range int64(rounds) {
				for range rivals {
					d := m.open(datagram{bytes: 2 * mtuPayload})
					m.events = append(m.events, event{at: i * 10 * ms, dgram: d}, event{at: i*10*ms + 5*ms, dgram: d, frag: 1})
				}
			}
			b := newBounder(m.trace(), KernelCharge, 0)
			ones := make([]float64, len(b.dgrams))
			for i := range ones {
				ones[i] = 1
			}
			one := KernelCharge.Fragment + KernelCharge.Queue
			require.Len(t, ones, rivals*rounds)
			require.InDelta(t, rounds, b.ceiling(ones, one).at(one), rounds/20)
			require.InDelta(t, 2*rounds, b.ceiling(ones, one).at(2*one), rounds/10)
			require.InDelta(t, rivals*rounds, b.ceiling(ones, one).at(int64(rivals)*one), rounds/10)
		})
	}
}

func TestBoundGrowsWithMemory(t *testing.T) {
	race.Skip(t)
	for name, v := range map[string]Variant{"overload": overloadVariant(Quick, 200, 8, 0), "some": someVariants.Variants(Quick)[0]} {
		t.Run("load="+name, func(t *testing.T) {
			b := newBounds(v.build(1), &v)
			least, most := 0, 0.0
			for _, memory := range []int64{0, 2560, v.Limits.High / 50, v.Limits.High / 40, v.Limits.High / 2, v.Limits.High, 64 * mib} {
				n, bytes := b.at(v.Limits.High + memory)
				require.GreaterOrEqual(t, n, least, "%d bytes more", memory)
				require.GreaterOrEqual(t, bytes, most*(1-1e-9), "%d bytes more", memory)
				if memory == 0 {
					least, most = n, bytes
				}
			}
			n, _ := b.at(128 * mib)
			require.Equal(t, len(b.count.dgrams), n, "128 MiB hold everything")
		})
	}
}
