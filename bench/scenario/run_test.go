package scenario

import (
	"testing"

	"github.com/stretchr/testify/require"

	"corelane/reasm"
)

// play runs a mix made by hand through one design.
func play(t *testing.T, design string, v *Variant) *Row {
	t.Helper()
	tr := v.build(1)
	r, err := simulate(t.Context(), tr, newBounds(tr, v), v, design, 1)
	require.NoError(t, err)
	return r
}

// at appends arrivals of one datagram, a fragment each ms from a time on.
func (m *Mix) at(ms0 int64, d uint32, frags ...int) {
	for i, f := range frags {
		m.events = append(m.events, event{at: (ms0 + int64(i)) * ms, dgram: d, frag: uint16(f)})
	}
}

func (m *Mix) dgram(src int, id uint16, frags int) uint32 {
	return m.open(datagram{src: Host(src), dst: receiver, id: id, bytes: uint32(frags) * mtuPayload})
}

// Room for three fragments of one datagram, and then some: the fifth fragment
// evicts, down to three of one.
var (
	threeFragments = reasm.Limits{High: 3 * 2304, Low: 2 * 2304}
	fourFragments  = reasm.Limits{High: 4 * 2304, Low: 3*2304 + 256}
)

func TestMeterTellsLiveVictimsFromDeadOnes(t *testing.T) {
	for _, c := range []struct {
		name  string
		later []int // fragments of the victim that come after its eviction
		live  int
	}{
		{"all of the rest", []int{1, 2}, 1},
		{"a part of the rest", []int{2}, 0},
		{"nothing", nil, 0},
	} {
		t.Run("comes="+c.name, func(t *testing.T) {
			r := play(t, "global-lru", &Variant{Limits: fourFragments, Traffic: func(m *Mix) {
				victim, other := m.dgram(1, 1, 3), m.dgram(2, 1, 4)
				m.at(0, victim, 0)
				m.at(1, other, 0, 1, 2, 3)
				m.at(10, victim, c.later...)
			}})
			require.Equal(t, 1, r.Evicted)
			require.Equal(t, c.live, r.EvictedLive)
			require.Equal(t, 1, r.Completed, "the other one")
			require.NotNil(t, r.VictimAgeMs)
			require.Equal(t, 4.0, *r.VictimAgeMs)
		})
	}
}

// TestRunThatBeatsItsBoundIsAnError: with the bound of traffic that has less to
// complete, any run does.
func TestRunThatBeatsItsBoundIsAnError(t *testing.T) {
	v := &Variant{Limits: limits(mib), Traffic: func(m *Mix) {
		m.at(0, m.dgram(1, 1, 2), 0, 1)
		m.at(9, m.dgram(1, 2, 2), 0, 1)
	}}
	less := &Variant{Limits: limits(mib), Traffic: func(m *Mix) { m.at(0, m.dgram(1, 1, 2), 0, 1) }}
	_, err := simulate(t.Context(), v.build(1), newBounds(less.build(1), less), v, "global-lru", 1)
	require.ErrorContains(t, err, "2 datagrams with 5920 bytes completed, bound 1")
}

func TestMeterCountsWhatCanCompleteInTime(t *testing.T) {
	r := play(t, "hard-limit", &Variant{Limits: limits(mib), Counted: 10 * ms, Traffic: func(m *Mix) {
		m.at(0, m.dgram(1, 1, 2), 0, 1)  // before counting starts
		m.at(9, m.dgram(1, 2, 2), 0, 1)  // ends just when it starts
		m.at(20, m.dgram(1, 3, 3), 2, 0) // never whole
		m.at(30, m.dgram(1, 4, 2), 1, 0) // reordered
		noise := m.open(datagram{src: Host(9), dst: receiver, bytes: 2 * mtuPayload, group: Noise})
		m.at(40, noise, 0, 1)
	}})
	require.Equal(t, 10, r.Fragments)
	require.Equal(t, 2, r.Completable)
	require.Equal(t, 2, r.Completed)
	require.Equal(t, 2, r.Bound)
	require.Equal(t, 1.0, *r.GoodputOfBound)
	require.InDelta(t, 2*2*mtuPayload*8/31e3, r.GoodputMbps, 0.001, "31 ms count")
	require.Nil(t, r.RecoveryMs)
	require.Nil(t, r.Jain)
	require.Nil(t, r.VictimAgeMs)
}

// TestMeterDoesNotCountSplicedDatagrams: an identification that is used again
// joins what is left of the old datagram (RFC 4963).
func TestMeterDoesNotCountSplicedDatagrams(t *testing.T) {
	r := play(t, "hard-limit", &Variant{Limits: limits(mib), Traffic: func(m *Mix) {
		old, fresh := m.dgram(1, 7, 2), m.dgram(1, 7, 2)
		m.at(0, old, 0)      // its second fragment is lost
		m.at(5, fresh, 0, 1) // the first is a duplicate
	}})
	require.Equal(t, 1, r.Completable)
	require.Zero(t, r.Completed)
	require.Equal(t, 1, r.Spliced)
}

func TestMeterTellsExpiryFromEviction(t *testing.T) {
	r := play(t, "global-lru", &Variant{Limits: limits(mib), Traffic: func(m *Mix) {
		m.at(0, m.dgram(1, 1, 2), 0)
		m.at(40_000, m.dgram(1, 2, 2), 0, 1) // the clock jumps over 40 s
	}})
	require.Equal(t, 1, r.Expired)
	require.Zero(t, r.Evicted)
	require.Equal(t, 1, r.Completed)
}

// TestMeterSeesThePeak: with a fragment above the limit, before it is evicted.
func TestMeterSeesThePeak(t *testing.T) {
	r := play(t, "hard-limit", &Variant{Limits: threeFragments, Traffic: func(m *Mix) {
		m.at(0, m.dgram(1, 1, 9), 0, 1, 2, 3, 4)
	}})
	require.EqualValues(t, 256+3*2304, r.PeakBytes, "the third is accepted because two are below the limit")
	require.Equal(t, 2, r.Refused)
	require.EqualValues(t, 3*2304, r.LimitBytes)
}

// TestGroupsAreJudgedApart with shares of 1 and 1/2, whose Jain index is 0.9.
func TestGroupsAreJudgedApart(t *testing.T) {
	r := play(t, "hard-limit", &Variant{
		Limits: reasm.Limits{High: 2 * 2304, Low: 2304}, Groups: []string{"a", "b"},
		Traffic: func(m *Mix) {
			m.at(0, m.dgram(1, 1, 2), 0, 1)
			b, late := m.dgram(2, 1, 2), m.dgram(2, 2, 3)
			m.dgrams[b].group, m.dgrams[late].group = 1, 1
			m.at(10, b, 0, 1)
			m.at(20, late, 0)
			m.at(21, m.dgram(3, 1, 9), 0, 1) // fills the rest and stays
			m.at(23, late, 1, 2)
		},
	})
	require.Equal(t, []GroupRow{
		{Group: "a", Completable: 1, Completed: 1, GoodputMbps: r.Groups[0].GoodputMbps},
		{Group: "b", Completable: 2, Completed: 1, GoodputMbps: r.Groups[1].GoodputMbps},
	}, r.Groups)
	require.InDelta(t, 0.9, *r.Jain, 1e-9)
	require.Equal(t, "100/50 %", Shares.Of(r))
}
