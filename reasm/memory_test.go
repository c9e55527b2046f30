package reasm

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Limits and charges: on every design, mode, call and family.

// flat charges 100 for a queue and 10 for a fragment.
func flat(c *Config) {
	c.Charge = Charge{
		Queue:    func(*Fragment) int64 { return 100 },
		Fragment: func(*Fragment) int64 { return 10 },
	}
}

// Q8: Bytes is what Walk shows plus what is delivered, at any moment.
func TestBytesIsTheSumOfTheCharges(t *testing.T) {
	forEachWay(t, flat, func(t *testing.T, r *rig) {
		for i := range 5 {
			r.one(Held, piece(uint32(i), 0, 8, true))
			require.EqualValues(t, 110*(i+1), r.held(i+1).Bytes)
		}
		r.one(Duplicate, piece(0, 0, 8, true))
		require.EqualValues(t, 550, r.held(5).Bytes, "a duplicate costs nothing (RE-V6)")
		res := r.one(Complete, piece(0, 8, 8, false))
		require.EqualValues(t, 560, r.cache.Stats().Bytes, "delivered is charged until released")
		r.payload(res.Datagram, [3]int{0, 0, 16})
		require.EqualValues(t, 440, r.held(4).Bytes)
		r.one(Overlap, piece(1, 0, 16, true))
		require.EqualValues(t, 330, r.held(3).Bytes)
		r.step(time.Minute)
		require.Zero(t, r.held(0).Bytes)
	})
}

// By default the charge is what is pinned: in Borrow whole packets, so that a
// flood of small fragments in large buffers is not underestimated (RE-G12).
func TestDefaultChargeIsWhatIsPinned(t *testing.T) {
	forEachWay(t, nil, func(t *testing.T, r *rig) {
		small := piece(1, 0, 8, true).of(0).packet(r.family, 0)
		big := append(make([]byte, 0, 2048), small...)
		before := r.cache.Stats().Bytes
		r.sendPackets(big)
		s := r.held(1)
		if r.mode == Borrow {
			require.Greater(t, s.Bytes-before, int64(2048))
		} else {
			require.Less(t, s.Bytes-before, int64(2048))
			require.Greater(t, s.Bytes-before, int64(128))
		}
	})
}

// A completed datagram's charge shrinks to what it pins, and the books balance
// though buffers grow and move meanwhile (RE-L9).
func TestChargeFollowsBuffersThatMove(t *testing.T) {
	forEachWay(t, nil, func(t *testing.T, r *rig) {
		for round := range 20 {
			id := uint32(round)
			n := 1 + round*7
			for i := range n { // odd units first, backwards, then even ones
				u := n - 1 - 2*i
				if u < 0 {
					u += n - 1 + n%2
				}
				res := r.send(piece(id, u*64, 64, u < n-1))
				if i == n-1 && n > 1 {
					require.Equal(t, Complete, res[0].Verdict, "n=%d", n)
					d := res[0].Datagram
					if r.mode == Copy {
						require.Less(t, r.cache.Stats().Bytes, int64(4*n*64+3000+unitMapBytes))
					}
					r.payload(d, [3]int{0, 0, n * 64})
				}
				if i%16 == 0 {
					r.held(r.cache.Stats().Queues)
				}
			}
			require.Zero(t, r.cache.Stats().Bytes, "round %d", round)
		}
	})
}

// Above High an evicting design takes the newcomer and gives up the oldest; it
// stops at Low, and says how many it gave up (RE-V10, RE-G6).
func TestEvictionOrderOfGlobalLRU(t *testing.T) {
	adapt := func(c *Config) { flat(c); c.Limits = Limits{High: 1000, Low: 500} }
	forEachWay(t, adapt, func(t *testing.T, r *rig) {
		if r.design != "global-lru" {
			return
		}
		for i := range 10 { // 1100 bytes: above High with the tenth
			r.one(Held, piece(uint32(i), 0, 8, true))
		}
		require.EqualValues(t, 1100, r.held(10).Bytes, "High is exceeded by the fragment that finds room")
		r.now++
		res := r.one(Held, piece(20, 0, 8, true))
		require.EqualValues(t, 6, res.Evicted, "from 1100 to 440")
		require.Equal(t, []uint32{6, 7, 8, 9, 20}, r.ids(), "the oldest leave first")
		require.EqualValues(t, 6, r.cache.Stats().Evicted)
		require.EqualValues(t, 6, r.linux().ReasmFails)

		// Use is what counts, not age of creation; a duplicate is no use.
		r.one(Held, piece(6, 8, 8, true))
		r.one(Duplicate, piece(7, 0, 8, true))
		for i := range 5 {
			r.one(Held, piece(uint32(30+i), 0, 8, true))
		}
		require.EqualValues(t, 1110, r.cache.Stats().Bytes)
		res = r.one(Held, piece(6, 16, 8, true))
		require.EqualValues(t, 6, res.Evicted)
		require.Equal(t, []uint32{6, 31, 32, 33, 34}[1:], without(r.ids(), 6))
		require.Contains(t, r.ids(), uint32(6), "the newcomer's own queue may go too: then it starts anew")
	})
}

// ids returns the identifications held, in order.
func (r *rig) ids() (ids []uint32) {
	for q := range r.cache.Walk() {
		ids = append(ids, q.Key.ID())
	}
	for i := range ids {
		for j := range i {
			if ids[i] < ids[j] {
				ids[i], ids[j] = ids[j], ids[i]
			}
		}
	}
	return ids
}

func without(ids []uint32, not uint32) (rest []uint32) {
	for _, id := range ids {
		if id != not {
			rest = append(rest, id)
		}
	}
	return rest
}

// hard-limit refuses everything above High, strictly, before it looks anything
// up: also the fragment that would complete a datagram, or kill one.
func TestHardLimitRefusesTheCompletingFragment(t *testing.T) {
	adapt := func(c *Config) { flat(c); c.Limits = Limits{High: 220} }
	forEachWay(t, adapt, func(t *testing.T, r *rig) {
		if r.design != "hard-limit" {
			return
		}
		r.verdicts([]Verdict{Held, Held}, piece(1, 0, 8, true), piece(2, 0, 8, true))
		r.one(Held, piece(1, 16, 8, true)) // 220 is not above 220
		r.verdicts([]Verdict{Refused, Refused, Refused},
			piece(1, 8, 8, false), piece(1, 0, 16, true), piece(3, 0, 8, true))
		require.EqualValues(t, 230, r.held(2).Bytes)
		require.EqualValues(t, 3, r.linux().ReasmFails)
		// What is no fragment passes.
		whole := r.send(frag{Len: 8, Plain: true}, frag{Len: 8})
		require.False(t, whole[0].Verdict == Refused || whole[1].Verdict == Refused)
		// Raised at run time, it goes on where it stood.
		require.NoError(t, r.cache.SetLimits(Limits{High: 1000}))
		rs := r.verdicts([]Verdict{Held, Held}, piece(1, 8, 8, true), piece(2, 8, 8, true))
		require.Nil(t, rs[0].Datagram)
		r.payload(r.one(Complete, piece(2, 16, 8, false)).Datagram, [3]int{0, 0, 24})
		// Lowered to nothing, only time drains it.
		require.NoError(t, r.cache.SetLimits(Limits{}))
		r.one(Refused, piece(1, 24, 8, false))
		r.step(time.Minute)
		r.held(0)
		r.one(Refused, piece(9, 0, 8, true)) // 0 is no limit to be within
		r.one(Refused, piece(9, 8, 8, false))
	})
}

// A refused fragment in a batch: the run stops where the limit is passed.
func TestLimitIsReachedWithinABatch(t *testing.T) {
	adapt := func(c *Config) { flat(c); c.Limits = Limits{High: 120, Low: 120} }
	forEachWay(t, adapt, func(t *testing.T, r *rig) {
		rs := r.send(piece(1, 0, 8, true), piece(1, 8, 8, true), piece(1, 16, 8, true), piece(1, 24, 8, true), piece(1, 32, 8, true))
		switch r.design {
		case "hard-limit":
			require.Equal(t, "[held held held refused refused]", verdictString(rs))
			require.EqualValues(t, 130, r.held(1).Bytes)
			return
		case "worth": // nothing else can go, and what follows is the rest of a doomed datagram
			require.Equal(t, "[held held held refused refused]", verdictString(rs))
			require.Zero(t, r.held(0).Bytes)
			return
		case "adaptive": // refuses at the limit, not above it
			require.Equal(t, "[held held refused refused refused]", verdictString(rs))
			require.EqualValues(t, 120, r.held(1).Bytes)
			return
		}
		require.Equal(t, "[held held held held held]", verdictString(rs))
		if r.design == "global-lru" { // the fourth evicts its own queue, and starts it anew
			require.EqualValues(t, 1, rs[3].Evicted)
			require.EqualValues(t, 120, r.held(1).Bytes)
		}
	})
}

func verdictString(rs []Result) string {
	s := "["
	for i := range rs {
		if i > 0 {
			s += " "
		}
		s += rs[i].Verdict.String()
	}
	return s + "]"
}

// Memory of datagrams that nobody releases is the cache's, too: it may use less
// for queues, but never underflows.
func TestUnreleasedDatagramsUseUpTheLimit(t *testing.T) {
	adapt := func(c *Config) { flat(c); c.Limits = Limits{High: 300, Low: 200} }
	forEachWay(t, adapt, func(t *testing.T, r *rig) {
		var ds []*Datagram
		for id := range uint32(20) {
			rs := r.send(piece(id, 0, 8, true), piece(id, 8, 8, false))
			if d := rs[1].Datagram; d != nil {
				ds = append(ds, d)
			}
		}
		require.NotEmpty(t, ds)
		require.LessOrEqual(t, r.cache.Stats().Bytes, int64(120*len(ds)+330))
		for _, d := range ds {
			r.payload(d, [3]int{0, 0, 16})
		}
		if r.design == "adaptive" { // its source is held to Low by what it left behind
			return
		}
		rs := r.verdicts([]Verdict{Held, Complete}, piece(99, 0, 8, true), piece(99, 8, 8, false))
		r.payload(rs[1].Datagram, [3]int{0, 0, 16})
	})
}

// A flood far above the limit, the background work, fragments that go on: no
// design loses count, and when it is over each of them works as before.
func TestFloodKeepsTheBooks(t *testing.T) {
	adapt := func(c *Config) { // in charges that even an account that errs by a batch notices
		c.Charge = Charge{
			Queue:    func(*Fragment) int64 { return 3000 },
			Fragment: func(*Fragment) int64 { return 1000 },
		}
		c.Timeout6 = c.Timeout4
	}
	forEachWay(t, adapt, func(t *testing.T, r *rig) {
		if r.family == 6 {
			return // the same code
		}
		n := fewerUnderRace(8000) // 32 MB, eight times the limit
		peak := int64(0)
		for id := range uint32(n) {
			for _, res := range r.send(piece(id, 0, 8, true), piece(id-id%7, 8, 8, true), piece(id/2, 16, 8, false)) {
				if res.Datagram != nil {
					r.release(res.Datagram)
				}
			}
			r.now += int64(20 * time.Microsecond)
			if id%64 == 0 {
				r.cache.Step(r.now, 100)
			}
			peak = max(peak, r.cache.Stats().Bytes)
		}
		s := r.held(r.cache.Stats().Queues)
		require.Positive(t, s.Evicted+s.Verdicts[Refused], "the limit was met")
		require.Less(t, peak, int64(8<<20), "twice the limit")
		r.step(time.Hour)
		r.held(0)
		rs := r.verdicts([]Verdict{Held, Held, Complete}, row(1, 3, 8)...)
		r.payload(rs[2].Datagram, [3]int{0, 0, 24})
	})
}

func TestSetLimitsRefusesNonsenseAndKeepsTheOld(t *testing.T) {
	adapt := func(c *Config) { flat(c); c.Limits = Limits{High: 1000, Low: 900} }
	forEachWay(t, adapt, func(t *testing.T, r *rig) {
		require.EqualError(t, r.cache.SetLimits(Limits{High: 5, Low: 6}), "reasm: limits need 0 <= Low <= High, got Low 6, High 5")
		require.EqualError(t, r.cache.SetLimits(Limits{High: 5, Low: -1}), "reasm: limits need 0 <= Low <= High, got Low -1, High 5")
		for i := range 5 {
			r.one(Held, piece(uint32(i), 0, 8, true))
		}
		r.held(5)
		require.NoError(t, r.cache.SetLimits(Limits{High: 110, Low: 1}))
		v := r.send(piece(7, 0, 8, true))[0].Verdict
		switch r.design {
		case "global-lru", "percpu-lru":
			require.Equal(t, Held, v)
			require.Equal(t, []uint32{7}, r.ids())
		case "worth": // of those that are worth the same, who is there stays
			require.Equal(t, Refused, v)
			r.held(1)
		case "hash-clean", "work-queue": // what is held has not left the lane's batch
			require.Equal(t, Held, v)
		default: // all that is held is warm, or elsewhere, or the worker's, or nobody's
			require.Equal(t, Refused, v)
		}
	})
}

// Under a limit of 0 hard-limit refuses even what an empty cache could take, as Linux; the others take one in.
func TestLimitOfZero(t *testing.T) {
	forEachWay(t, func(c *Config) { c.Limits = Limits{} }, func(t *testing.T, r *rig) {
		if r.design == "hard-limit" {
			r.verdicts([]Verdict{Refused, Refused}, piece(1, 0, 8, true), piece(1, 8, 8, false))
			r.held(0)
		} else {
			r.send(piece(1, 0, 8, true))
			require.LessOrEqual(t, r.cache.Stats().Queues, 1)
		}
	})
}
