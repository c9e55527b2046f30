package reasm

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// When a queue ends: time, age, distance, Close. As conformance_test.go, on
// every design, mode, call and family.

// Q6: the deadline is exact, though nobody steps.
func TestDeadlineIsExactWithoutStep(t *testing.T) {
	adapt := func(c *Config) { c.Timeout4, c.Timeout6 = time.Second, time.Second }
	forEachWay(t, adapt, func(t *testing.T, r *rig) {
		r.one(Held, piece(1, 0, 8, true))
		r.now += int64(time.Second) - 1
		rs := r.send(piece(1, 8, 8, false))
		require.Equal(t, Complete, rs[0].Verdict, "a nanosecond before the deadline")
		r.payload(rs[0].Datagram, [3]int{0, 0, 16})

		r.one(Held, piece(1, 0, 8, true))
		r.now += int64(time.Second)
		res := r.one(Held, piece(1, 8, 8, false))
		require.True(t, res.Restarted)
		require.Len(t, r.expired, 1)
		s := r.held(1)
		require.EqualValues(t, 1, s.Expired)
		require.EqualValues(t, 1, s.Linux().ReasmTimeout)
	})
}

// Nothing refreshes the timeout: not fragments, not duplicates, not kills of
// other queues.
func TestTimeoutRunsFromTheFirstFragment(t *testing.T) {
	adapt := func(c *Config) { c.Timeout4, c.Timeout6 = 10*time.Second, 10*time.Second }
	forEachWay(t, adapt, func(t *testing.T, r *rig) {
		r.one(Held, piece(1, 0, 8, true))
		for i := range 9 {
			r.step(time.Second)
			r.one(Held, piece(1, 16+16*i, 8, true))
			r.one(Duplicate, piece(1, 0, 8, true))
		}
		require.Empty(t, r.expired)
		r.step(time.Second - 1)
		r.held(1)
		r.step(1)
		r.held(0)
		require.Len(t, r.expired, 1)
	})
}

// A timeout of 0 expires at the next Step, and joins nothing later than itself.
func TestTimeoutZero(t *testing.T) {
	forEachWay(t, func(c *Config) { c.Timeout4, c.Timeout6 = 0, 0 }, func(t *testing.T, r *rig) {
		r.one(Held, piece(1, 0, 8, true))
		r.held(1)
		r.step(0)
		r.held(0)
		require.Len(t, r.expired, 1)
		r.one(Held, piece(1, 0, 8, true))
		r.now++
		r.one(Held, piece(1, 8, 8, false))
		require.Len(t, r.expired, 2)
		// What completes within its instant is a datagram.
		rs := r.verdicts([]Verdict{Held, Complete}, piece(2, 0, 8, true), piece(2, 8, 8, false))
		r.payload(rs[1].Datagram, [3]int{0, 0, 16})
		r.step(0)
		r.held(0)
	})
}

// Any clock does: one that starts below 0, at the ends of int64, or steps back.
func TestAnyClock(t *testing.T) {
	for name, start := range map[string]int64{
		"negative": -int64(time.Hour), "zero": 0, "least": math.MinInt64, "across-zero": -int64(time.Second), "late": math.MaxInt64 - int64(time.Minute),
	} {
		t.Run("start="+name, func(t *testing.T) {
			adapt := func(c *Config) { c.Timeout4, c.Timeout6 = 10*time.Second, 10*time.Second }
			forEachWay(t, adapt, func(t *testing.T, r *rig) {
				r.now = start
				r.step(0)
				for i := range 5 {
					r.one(Held, piece(uint32(i), 0, 8, true))
					r.step(time.Second)
				}
				r.held(5)
				r.step(5 * time.Second)
				r.held(4)
				require.Len(t, r.expired, 1)
				r.step(4 * time.Second)
				r.held(0)
				require.Len(t, r.expired, 5)
			})
		})
	}
}

// A step back is ignored: what was is not undone, what is held stays.
func TestTimeStepsBack(t *testing.T) {
	adapt := func(c *Config) { c.Timeout4, c.Timeout6 = 10*time.Second, 10*time.Second }
	forEachWay(t, adapt, func(t *testing.T, r *rig) {
		r.one(Held, piece(1, 0, 8, true))
		r.now -= int64(time.Hour)
		r.cache.Step(r.now, 10)
		rs := r.verdicts([]Verdict{Held, Complete}, piece(2, 0, 8, true), piece(2, 8, 8, false))
		require.Equal(t, rs[1].Datagram.Created(), rs[1].Datagram.Completed())
		r.payload(rs[1].Datagram, [3]int{0, 0, 16})
		r.one(Held, piece(3, 0, 8, true))
		r.held(2)
		r.now += int64(time.Hour)
		r.step(10 * time.Second)
		r.held(0)
		require.Len(t, r.expired, 2, "the queue made in the past runs from the latest time known")
	})
}

// A jump expires everything, budget by budget (RE-V14).
func TestJumpExpiresInBatches(t *testing.T) {
	forEachWay(t, nil, func(t *testing.T, r *rig) {
		const n = 500
		for i := range n {
			r.one(Held, piece(uint32(i), 0, 8, true))
			if i%50 == 0 {
				r.now += int64(time.Millisecond)
			}
		}
		r.now += int64(1000 * time.Hour)
		for left := n; left > 0; {
			more := r.cache.Step(r.now, 70)
			require.LessOrEqual(t, left-70, n-len(r.expired), "a Step expires about its budget")
			require.Greater(t, left, n-len(r.expired), "a Step expires something")
			left = n - len(r.expired)
			require.True(t, more || left == 0)
		}
		for range 3 { // a false alarm is allowed, an endless one is not
			if !r.cache.Step(r.now, 70) {
				r.held(0)
				return
			}
		}
		t.Fatal("Step says there is more when there is nothing")
	})
}

// Deadlines beyond a turn of the timer wheel, and between its ticks.
func TestTimeoutsOfEveryLength(t *testing.T) {
	for _, d := range []time.Duration{1, 1000, time.Millisecond, 33 * time.Millisecond, 34 * time.Millisecond, time.Second,
		34 * time.Second, 35 * time.Second, 70 * time.Second, time.Hour} {
		t.Run("timeout="+d.String(), func(t *testing.T) {
			adapt := func(c *Config) { c.Timeout4, c.Timeout6, c.MaxAge = d, d, 0 }
			forEachWay(t, adapt, func(t *testing.T, r *rig) {
				for i := range 20 {
					r.one(Held, piece(uint32(i), 0, 8, true))
					for range 3 {
						r.step(d / 4)
					}
					require.Len(t, r.expired, i)
					r.step(d - 3*(d/4))
					require.Len(t, r.expired, i+1)
				}
				r.held(0)
			})
		})
	}
}

// MaxAge: a reused identification does not splice two datagrams (RE-O32).
func TestMaxAgeStartsAnew(t *testing.T) {
	adapt := func(c *Config) { c.MaxAge = time.Second }
	forEachWay(t, adapt, func(t *testing.T, r *rig) {
		r.one(Held, piece(1, 0, 8, true).of(1))
		r.now += int64(time.Second)
		r.one(Held, piece(1, 16, 8, true).of(1))
		r.now++
		res := r.one(Held, piece(1, 8, 8, false).of(2))
		require.True(t, res.Restarted)
		s := r.held(1)
		require.EqualValues(t, 1, s.TooOld)
		require.Zero(t, s.Expired)
		require.Empty(t, r.expired, "nothing is answered for it")
		res = r.one(Complete, piece(1, 0, 8, true).of(2))
		r.payload(res.Datagram, [3]int{2, 0, 16})
	})
}

// MaxDist counts fragments of the source, and restarts the queue in place.
func TestMaxDistRestarts(t *testing.T) {
	adapt := func(c *Config) { c.MaxDist, c.Quirks = 4, Quirks{} }
	forEachWay(t, adapt, func(t *testing.T, r *rig) {
		big := piece(1, 0, 104, true)
		big.DF = true
		for _, others := range []int{3, 4} {
			r.one(Held, big)
			for i := range others {
				r.one(Held, piece(100+uint32(i), 8*i, 8, true))
			}
			if others < 4 || r.family == 6 {
				rs := r.send(piece(1, 104, 8, false))
				require.False(t, rs[0].Restarted)
				require.Equal(t, 104+20+(r.family-4)*14, rs[0].Datagram.MaxFragment())
				r.payload(rs[0].Datagram, [3]int{0, 0, 112})
			} else {
				res := r.one(Held, piece(1, 104, 8, false))
				require.True(t, res.Restarted)
				require.EqualValues(t, 1, r.cache.Stats().TooFar)
				require.Empty(t, r.expired)
				res = r.one(Complete, piece(1, 0, 104, true).of(3))
				require.Equal(t, 124, res.Datagram.MaxFragment())
				require.Zero(t, res.Datagram.Header()[6]&0x40, "DF of what was dropped is forgotten, without the quirk")
				r.payload(res.Datagram, [3]int{3, 0, 104}, [3]int{0, 104, 112})
			}
			for i := range others { // away with them
				r.one(ZeroLength, piece(100+uint32(i), 200, 0, true))
			}
		}
		r.held(0)
	})
}

// A restart in the middle of a batch: the books of what was stored before it in
// the same call are those of a queue that is gone.
func TestMaxDistRestartsWithinABatch(t *testing.T) {
	adapt := func(c *Config) { c.MaxDist = 1 }
	forEachWay(t, adapt, func(t *testing.T, r *rig) {
		if r.family == 6 {
			return
		}
		a, b := piece(1, 0, 8, true), piece(2, 0, 8, true)
		rs := r.send(a, b, b, piece(1, 8, 8, true), piece(1, 16, 8, true), b, piece(1, 0, 8, true), piece(1, 24, 8, false))
		require.Equal(t, "[held held duplicate held held held held held]", fmt.Sprint(verdictsOf(rs)))
		for i, want := range []bool{false, false, false, true, false, true, true, false} {
			require.Equal(t, want, rs[i].Restarted, "fragment %d", i)
		}
		r.held(2)
	})
}

// OnExpire gets the first fragment as it arrived, if it is held (RE-G14, RE-L10).
func TestExpiryQuotesTheFirstFragment(t *testing.T) {
	var got []Expired
	adapt := func(c *Config) {
		c.OnExpire = func(e *Expired) {
			e2 := *e
			e2.First = append([]byte(nil), e.First...)
			got = append(got, e2)
		}
	}
	forEachWay(t, adapt, func(t *testing.T, r *rig) {
		got = nil
		first := piece(1, 0, 24, true).of(1)
		first.Trail = 9 // padding is no part of it
		want := first.packet(r.family, 0)
		want = want[:len(want)-9]
		want = append([]byte(nil), want...)
		r.one(Held, piece(1, 48, 8, true))
		r.one(Held, first)
		r.one(Duplicate, piece(1, 0, 24, true).of(2))
		r.one(Held, piece(1, 24, 16, true))
		r.step(time.Minute)
		require.Len(t, got, 1)
		require.Equal(t, want, got[0].First)
		require.Equal(t, 48, got[0].Bytes)
		require.Equal(t, 3, got[0].Fragments)
		require.EqualValues(t, time.Minute, got[0].Age)
		require.EqualValues(t, 1, got[0].Key.ID())

		r.one(Held, piece(2, 8, 8, true))
		r.step(time.Minute)
		require.Len(t, got, 2)
		require.Empty(t, got[1].First)
	})
}

// Kills, completions, evictions and Close tell nobody that time ran out.
func TestOnlyExpiryIsToldToOnExpire(t *testing.T) {
	forEachWay(t, nil, func(t *testing.T, r *rig) {
		r.verdicts([]Verdict{Held, Overlap}, piece(1, 0, 16, true), piece(1, 8, 16, true))
		rs := r.verdicts([]Verdict{Held, Complete}, piece(1, 0, 8, true), piece(1, 8, 8, false))
		r.payload(rs[1].Datagram, [3]int{0, 0, 16})
		r.one(Held, piece(2, 0, 8, true))
		require.NoError(t, r.cache.Close())
		require.Empty(t, r.expired)
		require.EqualValues(t, 1, r.cache.Stats().Flushed)
	})
}

// Close flushes and refuses, twice does nothing, and leaves what was delivered
// alone until it is released (RE-G9, RE-G10, RE-D13).
func TestClose(t *testing.T) {
	forEachWay(t, nil, func(t *testing.T, r *rig) {
		rs := r.verdicts([]Verdict{Held, Held, Complete}, piece(1, 0, 8, true), piece(2, 0, 8, true), piece(1, 8, 8, false))
		d := rs[2].Datagram
		require.NoError(t, r.cache.Close())
		s := r.held(0)
		require.EqualValues(t, 1, s.Flushed)
		require.Positive(t, s.Bytes, "a delivered datagram stays charged")
		if r.mode == Borrow {
			require.Len(t, r.kept, 2, "its buffers are out, the others are back")
		}
		require.NoError(t, r.cache.Close())

		r.verdicts([]Verdict{Closed, Closed, Closed}, piece(2, 8, 8, true), piece(2, 8, 8, true), piece(3, 0, 8, true))
		r.verdicts([]Verdict{Truncated}, frag{Len: 8, MF: true, Cut: 1})
		r.held(0)
		require.False(t, r.cache.Step(r.now+int64(time.Hour), 10))
		require.NoError(t, r.cache.SetLimits(Limits{High: 1}))
		r.verdicts([]Verdict{Closed, Closed}, piece(3, 0, 8, true), piece(3, 8, 0, true)) // nor is it full, or picky

		r.payload(d, [3]int{0, 0, 16})
		require.Zero(t, r.cache.Stats().Bytes)
	})
}

func TestReleaseTwicePanics(t *testing.T) {
	forEachWay(t, nil, func(t *testing.T, r *rig) {
		rs := r.verdicts([]Verdict{Held, Complete}, piece(1, 0, 8, true), piece(1, 8, 8, false))
		r.payload(rs[1].Datagram, [3]int{0, 0, 16})
		require.PanicsWithValue(t, "reasm: Datagram released twice", rs[1].Datagram.Release)
	})
}

// Q5: exactly one cause ends each queue: whatever happened, the queues that were
// made are those that a cause is counted for.
func TestEveryQueueEndsOnce(t *testing.T) {
	adapt := func(c *Config) { c.MaxAge = 3 * time.Second }
	forEachWay(t, adapt, func(t *testing.T, r *rig) {
		made := uint64(0)
		for i := range 300 {
			id := uint32(i % 17)
			before := r.cache.Stats()
			rs := r.send(piece(id, 8*(i*7%5), 8+8*(i%3), i%4 != 0))
			after := r.cache.Stats()
			ended := ends(&after) - ends(&before)
			made += uint64(after.Queues-before.Queues) + ended
			if rs[0].Datagram != nil {
				r.release(rs[0].Datagram)
			}
			r.step(time.Duration(i%7) * 100 * time.Millisecond)
		}
		require.NoError(t, r.cache.Close())
		s := r.cache.Stats()
		require.Equal(t, made, ends(&s)-s.Verdicts[ZeroLength])
		c := r.cache.(*cache)
		var retired uint64
		for i := range c.lanes {
			retired += c.lanes[i].count.events[evRetired].Load()
		}
		require.Equal(t, ends(&s), retired+c.late.events[evRetired].Load())
	})
}

// ends counts the queues that s has a cause of ending for.
func ends(s *Stats) uint64 {
	v := &s.Verdicts
	return v[Complete] + v[Overlap] + v[BadEnd] + v[ZeroLength] + v[TooLong] + v[BadECN] +
		s.Expired + s.Evicted + s.TooOld + s.Flushed
}
