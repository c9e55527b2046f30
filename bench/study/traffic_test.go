package study

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"corelane/bench/scenario"
	"corelane/internal/race"
)

// until returns the trace as if everything stopped at a time.
func (t *trace) until(end int64) *trace {
	cut := &Traffic{dgrams: t.dgrams}
	for _, e := range t.events {
		if e.at < end {
			cut.events = append(cut.events, e)
		}
	}
	return cut.trace()
}

// find returns the load with that name.
func find(t testing.TB, name string) *Load {
	t.Helper()
	for _, l := range Loads() {
		if l.Name == name {
			return l
		}
	}
	require.Fail(t, "no such load", name)
	return nil
}

func TestLoadsHaveNamesOfTheirOwnAndCanBeFound(t *testing.T) {
	seen := make(map[string]bool)
	for _, l := range Loads() {
		require.False(t, seen[l.Name], l.Name)
		seen[l.Name] = true
	}
	some, err := FindLoads([]string{"S6", "attack"})
	require.NoError(t, err)
	require.Greater(t, len(some), 10)
	for _, l := range some[1:] {
		require.Equal(t, Attack, l.Set, l.Name)
	}
	_, err = FindLoads([]string{"S99"})
	require.Error(t, err)
}

func TestTraceSameSeedSamePackets(t *testing.T) {
	race.Skip(t)
	for _, name := range []string{
		"S3 20G64K flood=43-of-44 from=anywhere", "S8 streams=200 heavy-tail burst=1 loss=1%", "S7 10x64K reorder=1ms",
		"HR kernel-mixed copies=60 loss=1%", "HL 200x64K burst=8 loss=long-bursts",
	} {
		l := find(t, name)
		a, b, c := l.trace(1), l.trace(1), l.trace(2)
		require.Equal(t, a, b, name)
		require.NotEqual(t, a.events, c.events, name)
	}
}

// TestTraceKnowsWhatIsPossible compares with counting on fingers.
func TestTraceKnowsWhatIsPossible(t *testing.T) {
	var m Traffic
	whole, broken := m.open(1, 3, 0), m.open(1, 2, 0)
	m.send(30, whole, 2)
	m.send(10, whole, 0)
	m.send(40, whole, 2) // again, which changes nothing
	m.send(20, whole, 1)
	m.send(25, broken, 1)
	tr := m.trace()
	require.Equal(t, []int64{30, never}, tr.possible)
	require.EqualValues(t, 40, tr.end)
	require.True(t, tr.counts(whole, 30))
	require.False(t, tr.counts(whole, 31))
	require.False(t, tr.counts(broken, 0))
}

func TestStreamsFillTheLinkAndLoseTheirShare(t *testing.T) {
	var m Traffic
	s := overloaded(20, 10, 4, 0.1)
	s.end = 100 * ms
	s.add(&m)
	sent := float64(100*ms) / 1200
	require.InEpsilon(t, 0.9*sent, len(m.events), 0.02)
	tr := m.trace()
	done := 0
	for d := range tr.dgrams {
		if tr.possible[d] != never {
			done++
		}
	}
	require.InEpsilon(t, sent/10*0.349, done, 0.1, "0.9 to the tenth")
}

// TestFloodsSendWhatTheySay looks at which fragments each kind of flood sends.
func TestFloodsSendWhatTheySay(t *testing.T) {
	for _, c := range []struct {
		name  string
		flood flood
		most  int // fragments of one datagram
		whole int // one of so many datagrams is whole
	}{
		{"lone-first", loneFirst, 1, 0}, {"2-of-3", twoOfThree, 2, 0}, {"43-of-44", allButLast, 43, 0},
		{"half-whole", halfWhole, 2, 2},
	} {
		t.Run("kind="+c.name, func(t *testing.T) {
			var m Traffic
			c.flood.at(anywhere, 0, 10*ms).add(&m)
			require.InDelta(t, 10_000, len(m.events), 50, "1 Mpps")
			tr, got := m.trace(), make(map[uint32]int)
			for _, e := range tr.events {
				got[e.dgram]++
			}
			whole := 0
			for d, n := range got {
				require.LessOrEqual(t, n, c.most)
				require.EqualValues(t, noise, tr.dgrams[d].group)
				if tr.possible[d] != never {
					whole++
				}
			}
			if c.whole == 0 {
				require.Zero(t, whole)
			} else {
				require.InDelta(t, len(got)/c.whole, whole, 1)
			}
		})
	}
}

func TestForgerComesFirst(t *testing.T) {
	var m Traffic
	clean(&m, 44, 50*ms)
	forger{ahead: 5 * ms, share: 1, frag: 1}.add(&m)
	tr := m.trace()
	begins := make(map[uint32]int64)
	forged := 0
	for _, e := range tr.events {
		d := tr.dgrams[e.dgram]
		if d.key == e.dgram {
			continue
		}
		forged++
		begins[d.key] = e.at
		require.Equal(t, tr.dgrams[d.key].src, d.src)
	}
	require.Greater(t, forged, 1000)
	for _, e := range tr.events {
		if at, ok := begins[e.dgram]; ok {
			require.GreaterOrEqual(t, e.at, at+5*ms)
		}
	}
}

// TestRecordingsAreWhole: each lists every fragment of each datagram once.
func TestRecordingsAreWhole(t *testing.T) {
	for _, name := range []string{"kernel-links", "kernel-mixed", "kernel-cpus", "captures"} {
		t.Run("name="+name, func(t *testing.T) {
			r := openRecording(name)
			got := make([]uint64, len(r.dgrams))
			turns := 0 // a packet of another datagram than the one before
			for i, p := range r.packets {
				require.Zero(t, got[p.dgram]>>p.frag&1)
				got[p.dgram] |= 1 << p.frag
				if i > 0 && r.packets[i-1].dgram != p.dgram {
					turns++
				}
			}
			for d, n := range r.dgrams {
				require.Equal(t, uint64(1)<<n.frags-1, got[d])
			}
			t.Logf("%d datagrams, %d packets, %d turns, %d ms", len(r.dgrams), len(r.packets), turns, r.long/ms)
		})
	}
}

// TestReplayKeepsTheRate also when it is stretched.
func TestReplayKeepsTheRate(t *testing.T) {
	for _, rate := range []float64{1e5, 8e5} {
		var m Traffic
		replayed{name: "kernel-links", copies: 8, rate: rate, end: 200 * ms}.add(&m)
		require.InEpsilon(t, rate*0.2, len(m.events), 0.05, fmt.Sprint(rate))
	}
}

// TestCeilingIsAboveEveryDesign on small loads, and is what is completable where
// memory is no obstacle.
func TestCeilingIsAboveEveryDesign(t *testing.T) {
	race.Skip(t)
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 9))
		l := &Load{link: ipv4, budget: int64(20_000 + r.IntN(200_000)), make: func(m *Traffic) {
			s := overloaded(2+r.IntN(20), 2+r.IntN(10), 1+r.IntN(4), 0.02)
			s.end = 20 * ms
			s.add(m)
		}}
		tr := l.trace(seed)
		most := tr.ceiling(l.link.charge, l.budget, 0).At(l.budget)
		could := tr.achievable(0).all
		require.LessOrEqual(t, most, float64(could))
		require.InDelta(t, could, tr.ceiling(l.link.charge, 100*mib, 0).At(100*mib), 0.01)
		for _, d := range Designs() {
			o, err := simulate(t.Context(), tr, l, Options{Design: d, Seed: seed})
			require.NoError(t, err)
			// It holds for who stays within the limit.
			most := tr.ceiling(l.link.charge, l.budget, 0).At(max(l.budget, o.Peak))
			require.LessOrEqual(t, float64(o.Completed), most, "%s, seed %d", d, seed)
		}
	}
}

func TestCeilingOfTwoThatDoNotFitTogether(t *testing.T) {
	var m Traffic
	for i := range int64(50) {
		for range 3 {
			d := m.open(1, 2, 0)
			m.send(i*10*ms, d, 0)
			m.send(i*10*ms+5*ms, d, 1)
		}
	}
	one := scenario.KernelCharge.Queue + scenario.KernelCharge.Fragment
	tr := m.trace()
	require.InDelta(t, 2*50, tr.ceiling(scenario.KernelCharge, one, 0).At(one), 6)
	require.InDelta(t, 4*50, tr.ceiling(scenario.KernelCharge, 2*one, 0).At(2*one), 12)
}
