package scenario

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"corelane/reasm"
)

func TestLossHasItsMean(t *testing.T) {
	const n = 400_000
	for _, c := range []struct {
		name string
		loss Loss
		mean float64
		runs float64 // mean length of a run of lost packets
	}{
		{"bernoulli", Bernoulli(0.01), 0.01, 1 / 0.99},
		{"gilbert", GilbertElliott(0.002, 0.2, 0, 1), 0.002 / 0.202, 1 / 0.2},
		{"gilbert-elliott", GilbertElliott(0.01, 0.1, 0.001, 0.5), (0.1*0.001 + 0.01*0.5) / 0.11, 1.8},
	} {
		t.Run("loss="+c.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			lost, runs, was := 0, 0, false
			for range n {
				now := c.loss(r)
				if now {
					lost++
					if !was {
						runs++
					}
				}
				was = now
			}
			require.InEpsilon(t, c.mean, float64(lost)/n, 0.1)
			require.InEpsilon(t, c.runs, float64(lost)/float64(runs), 0.15)
		})
	}
}

func TestStreamsInterleaveAndFillTheLink(t *testing.T) {
	for _, interleave := range []int{1, 8, 44} {
		t.Run(fmt.Sprintf("interleave=%d", interleave), func(t *testing.T) {
			m := &Mix{seed: 1}
			Streams{
				N: 200, From: From(Host(1)), Size: Packets(44), Interleave: interleave, Rate: 10e9, End: 100 * ms,
			}.Add(m)
			tr := m.trace()
			require.InEpsilon(t, 100e6/1200, len(tr.events), 0.01, "a packet each 1.2 µs")
			switches := 0
			for i := 1; i < len(tr.events); i++ {
				a, b := &tr.events[i-1], &tr.events[i]
				require.LessOrEqual(t, a.at, b.at)
				if a.dgram != b.dgram {
					switches++
				} else {
					require.Equal(t, a.frag+1, b.frag)
				}
			}
			// Bursts end with their datagram, too: 44 packets are 5.5 bursts of 8, or 6.
			bursts := float64(len(tr.events)) / float64(interleave)
			require.InEpsilon(t, bursts, switches, 0.12)
		})
	}
}

// TestMoreLossOnlyLosesMore: the same packets are sent, whatever becomes of them.
func TestMoreLossOnlyLosesMore(t *testing.T) {
	sent := func(p float64) map[event]bool {
		m := &Mix{seed: 3}
		Streams{
			N: 10, From: From(Host(1)), Size: Packets(3), Interleave: 1, Rate: 1e9, End: 50 * ms,
			Path: Path{Loss: Bernoulli(p)},
		}.Add(m)
		set := make(map[event]bool)
		for _, e := range m.events {
			set[e] = true
		}
		return set
	}
	all, some, few := sent(0), sent(0.1), sent(0.5)
	require.Greater(t, len(all), len(some))
	require.Greater(t, len(some), len(few))
	for e := range few {
		require.True(t, some[e])
	}
	for e := range some {
		require.True(t, all[e])
	}
}

func TestStreamsStop(t *testing.T) {
	m := &Mix{seed: 1}
	Streams{
		N: 200, From: FromEach(Host(1)), Size: Packets(44), Interleave: 1, Rate: 1e9, End: 200 * ms,
		StopAt: 100 * ms, Keep: 10,
	}.Add(m)
	before, after := make(map[uint32]int), make(map[uint32]int)
	for _, e := range m.events {
		if e.at < 100*ms {
			before[m.dgrams[e.dgram].src]++
		} else {
			after[m.dgrams[e.dgram].src]++
		}
	}
	require.Len(t, before, 200)
	require.Len(t, after, 10)
	for src := range after {
		require.Less(t, src, Host(11))
	}
}

func TestPathReordersAndDuplicates(t *testing.T) {
	m := &Mix{seed: 1}
	Streams{
		N: 1, From: From(Host(1)), Size: Packets(44), Interleave: 44, Rate: 10e9, End: 100 * ms,
		Path: Path{Jitter: 100_000, Duplicate: 0.01},
	}.Add(m)
	tr := m.trace()
	copies, swaps := 0, 0
	seen := make(map[[2]uint32]bool)
	for i, e := range tr.events {
		key := [2]uint32{e.dgram, uint32(e.frag)}
		if seen[key] {
			copies++
		}
		seen[key] = true
		if i > 0 && tr.events[i-1].dgram == e.dgram && tr.events[i-1].frag > e.frag {
			swaps++
		}
	}
	require.InEpsilon(t, 0.01, float64(copies)/float64(len(seen)), 0.2)
	require.Greater(t, swaps, len(tr.events)/10)
}

func TestFloodsSendWhatTheySay(t *testing.T) {
	for _, c := range []struct {
		name  string
		flood Flood
		whole bool
	}{
		{"first", LoneFirst, false}, {"first3", LoneFirst3, false}, {"middle", LoneMiddle, false}, {"last", LoneLast, false},
		{"two-of-three", TwoOfThree, false}, {"all-but-last", AllButLast, false}, {"half-whole", HalfWhole, true},
	} {
		t.Run("flood="+c.name, func(t *testing.T) {
			m := &Mix{seed: 1}
			c.flood.From, c.flood.Rate, c.flood.End = FromPool(Host(1000), 7), 1e6, 20*ms
			c.flood.Add(m)
			tr := m.trace()
			require.InEpsilon(t, 20_000, len(tr.events), 0.01)
			sources := make(map[uint32]bool)
			whole := 0
			for d := range tr.dgrams {
				sources[tr.dgrams[d].src] = true
				require.False(t, tr.counts(d, 0), "a flood is noise")
				if tr.possible[d] != never {
					whole++
				}
			}
			require.Len(t, sources, 7)
			if c.whole {
				require.InDelta(t, len(tr.dgrams)/2, whole, 1)
			} else {
				require.Zero(t, whole)
			}
			for _, e := range tr.events[:100] {
				if !c.whole {
					require.Contains(t, c.flood.Send, int(e.frag))
				}
			}
		})
	}
}

func TestSteeringSplitsWhatACardWouldSplit(t *testing.T) {
	for _, c := range []struct {
		name  string
		by    Steering
		split bool // fragments of one datagram may meet different lanes
		used  int  // lanes that one pair of hosts uses
	}{{"pair", ByPair, false, 1}, {"flow", ByFlow, true, 8}, {"id", ByID, false, 8}, {"packet", ByPacket, true, 8}} {
		t.Run("by="+c.name, func(t *testing.T) {
			m := &Mix{seed: 1}
			Streams{
				N: 100, From: From(Host(1)), Size: Packets(3), Interleave: 3, Rate: 1e9, End: 100 * ms,
				Steer: Steer{By: c.by, First: 4, Lanes: 8},
			}.Add(m)
			used, of := make(map[uint16]bool), make(map[uint32]uint16)
			split := false
			for _, e := range m.events {
				require.GreaterOrEqual(t, e.lane, uint16(4))
				require.Less(t, e.lane, uint16(12))
				used[e.lane] = true
				if lane, ok := of[e.dgram]; ok && lane != e.lane {
					split = true
				}
				of[e.dgram] = e.lane
			}
			require.Equal(t, c.split, split)
			require.Len(t, used, c.used)
		})
	}
}

// TestPacketsParse reads every packet of a mix back with the library's parser.
func TestPacketsParse(t *testing.T) {
	v := someVariants.Variants(Quick)[0]
	tr := v.build(1)
	var (
		p      packets
		parser = reasm.Parser{VerifyChecksum: true}
		f      reasm.Fragment
	)
	for i := range tr.events {
		e := &tr.events[i]
		d := &tr.dgrams[e.dgram]
		b := p.build(tr, e)
		require.Equal(t, reasm.Held, parser.Parse(b, 0, &f))
		require.Equal(t, uint32(e.frag)*mtuPayload, f.Offset)
		require.Equal(t, int(e.frag) < d.frags()-1, f.More)
		require.Len(t, f.Payload(), d.payload(int(e.frag)))
		require.Equal(t, uint32(d.id), f.Key.ID())
		src := f.Key.Src().As4()
		require.Equal(t, [4]byte{byte(d.src >> 24), byte(d.src >> 16), byte(d.src >> 8), byte(d.src)}, src)
		p.back(b)
	}
}
