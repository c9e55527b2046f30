package reasm

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The two designs with a worker, under the stress of mail 001: a low threshold of
// one byte, so that eviction never ends, and a timeout of 0, so that timers
// always fire. First stepped, where every slice can be looked at; then by Run.

func forEachWorker(t *testing.T, adapt func(*Config), test func(*testing.T, *hostRig)) {
	for _, d := range []string{"work-queue", "walker"} {
		t.Run("design="+d, func(t *testing.T) { test(t, newHostRig(t, d, adapt)) })
	}
}

// never is a timeout that does not come.
func never(c *Config) { c.Timeout4, c.Timeout6, c.MaxAge = 1<<61, 1<<61, 0 }

// fill adds lone first fragments until one is refused, and returns how many it
// kept.
func (h *hostRig) fill(lane Lane, from uint32) (n uint32) {
	for h.add(lane, 0, piece(from+n, 0, 8, true)).Verdict == Held {
		n++
	}
	return n
}

// A refused newcomer wakes the worker. It works in slices of its own size,
// whatever the budget, says that there is more until memory is at Low, and rests
// then: no slice is spent on a walk without a goal.
func TestWorkerDrainsToLowInSlices(t *testing.T) {
	forEachWorker(t, never, func(t *testing.T, h *hostRig) {
		require.NoError(t, h.SetLimits(Limits{High: 1 << 20, Low: 1}))
		c := h.open(Limits{High: 1 << 20, Low: 1})
		for round := range 3 {
			kept := h.fill(c.Lane(0), 0)
			require.Greater(t, kept, uint32(9000))
			before, slices := c.Stats(), 0
			for more := true; more; slices++ {
				was := c.Stats().Evicted
				more = h.Step(int64(round), 1<<20)
				did := c.Stats().Evicted - was
				if h.design == "walker" {
					require.LessOrEqual(t, did, uint64(evictionsPerSlice))
				} else {
					require.LessOrEqual(t, did, uint64(evictionsPerRun+50), "50 is a very full bucket")
				}
			}
			s := c.Stats()
			require.LessOrEqual(t, c.account.Used(), int64(1), "it stopped above Low")
			if h.design == "walker" {
				require.Zero(t, s.Queues)
				require.EqualValues(t, kept, s.Evicted-before.Evicted)
			}
			require.Zero(t, s.BudgetHit, "no slice was in vain")
			require.Less(t, slices, 300)
			require.False(t, h.Step(int64(round), 1<<20))
			require.Equal(t, s.Steps, c.Stats().Steps, "it rests")
		}
		h.end(c)
	})
}

// A small budget bounds a slice, too.
func TestWorkerKeepsToTheBudget(t *testing.T) {
	forEachWorker(t, never, func(t *testing.T, h *hostRig) {
		c := h.open(Limits{High: 1 << 20, Low: 1})
		h.fill(c.Lane(0), 0)
		for range 100 {
			was := c.Stats().Evicted
			require.True(t, h.Step(0, 3))
			require.LessOrEqual(t, c.Stats().Evicted-was, uint64(3+50))
		}
		h.end(c)
	})
}

// When memory is full of datagrams that nobody has released there is nothing to
// evict. Mail 000's worker would spin for ever; this one gives up after a lap,
// and is woken again by the next newcomer, who is refused until there is room.
func TestWorkerGivesUpWithNothingToEvict(t *testing.T) {
	forEachWorker(t, never, func(t *testing.T, h *hostRig) {
		c := h.open(Limits{High: 1 << 20, Low: 1})
		var out []*Datagram
		for id := uint32(0); ; id++ {
			if h.add(c.Lane(0), 0, piece(id, 0, 8, true)).Verdict == Refused {
				break
			}
			out = append(out, h.add(c.Lane(0), 0, piece(id, 8, 8, false)).Datagram)
		}
		for range 3 {
			require.Equal(t, Refused, h.add(c.Lane(0), 0, piece(60_000, 0, 8, true)).Verdict)
			slices := 0
			for h.Step(0, 1024) {
				slices++
				require.Less(t, slices, 100, "it spins")
			}
		}
		for _, d := range out {
			d.Release()
		}
		require.Equal(t, Held, h.add(c.Lane(0), 0, piece(60_000, 0, 8, true)).Verdict)
		h.end(c)
	})
}

// Two namespaces ask, one with a queue for every thousand of the other's: both
// are served, and a third, which did not ask and is below its own Low, is spared.
func TestWorkerServesEveryNamespaceThatAsks(t *testing.T) {
	forEachWorker(t, never, func(t *testing.T, h *hostRig) {
		require.NoError(t, h.SetLimits(Limits{High: 4 << 20, Low: 4 << 20}))
		big, small := h.open(Limits{High: 1 << 20, Low: 1 << 18}), h.open(Limits{High: 300_000, Low: 150_000})
		quiet := h.open(Limits{High: 1 << 18, Low: 1 << 18})
		for id := range uint32(1000) {
			require.Equal(t, Held, h.add(quiet.Lane(1), 0, piece(id, 0, 8, true)).Verdict)
		}
		h.fill(big.Lane(0), 0)
		h.fill(small.Lane(0), 0)
		for h.Step(0, 1024) {
		}
		for _, c := range []*cache{big, small} {
			require.LessOrEqual(t, c.account.Used(), c.limits.low.Load())
			require.Positive(t, c.Stats().Queues, "evicted down to Low, not to nothing")
			require.False(t, c.asks.Load())
		}
		require.Equal(t, 1000, quiet.Stats().Queues)
		h.end(big, small, quiet)
	})
}

// A namespace that asked and was closed before it was served is forgotten.
func TestWorkerForgetsClosedNamespaces(t *testing.T) {
	forEachWorker(t, never, func(t *testing.T, h *hostRig) {
		c := h.open(Limits{High: 1 << 18, Low: 1})
		h.fill(c.Lane(0), 0)
		require.NoError(t, c.Close())
		require.False(t, h.Step(0, 1024))
		w := h.worksFor.(interface{ left() bool })
		require.False(t, w.left())
		h.end(c)
	})
}

// The stress of mail 001, stepped: newcomers, completions, duplicates, at every
// budget, with a clock that stands, creeps and jumps.
func TestWorkerUnderConstantEvictionAndExpiry(t *testing.T) {
	for _, timeout := range []time.Duration{0, time.Microsecond, 1 << 61} {
		adapt := func(c *Config) { c.Timeout4, c.Timeout6, c.MaxAge = timeout, timeout, 0 }
		t.Run("timeout="+timeout.String(), func(t *testing.T) {
			forEachWorker(t, adapt, func(t *testing.T, h *hostRig) {
				require.NoError(t, h.SetLimits(Limits{High: 1 << 18, Low: 1}))
				c := h.open(Limits{High: 1 << 18, Low: 1})
				now := int64(0)
				for i := range uint32(fewerUnderRace(60_000)) {
					id := i * 7919 % 50_000
					r := h.add(c.Lane(int(i%2)), now, piece(id, 8*int(i%3%2), 8, i%3 == 0))
					if r.Datagram != nil {
						r.Datagram.Release()
					}
					switch {
					case i%5 == 0:
						now++
					case i%1001 == 0:
						now += int64(time.Minute)
					}
					if i%64 == 0 {
						h.Step(now, int(i%17)*16)
					}
				}
				s := c.Stats()
				if timeout == 0 {
					require.Positive(t, s.Expired)
				} else if timeout > time.Hour {
					require.Positive(t, s.Evicted)
				}
				for range 1000 { // nothing arrives: it comes to rest
					if !h.Step(now, 1024) {
						break
					}
				}
				require.False(t, h.Step(now, 1024))
				if timeout == 0 {
					require.Zero(t, c.Stats().Queues)
				}
				h.end(c)
			})
		})
	}
}

// No wake-up is lost: lanes ask while the worker finds that it is done. When all
// are quiet it must be at Low, for work-queue, which any fragment above Low wakes.
func TestConcurrentAsksAreNotLost(t *testing.T) {
	h := newHostRig(t, "work-queue", func(c *Config) {
		never(c)
		c.Charge = Charge{
			Queue:    func(*Fragment) int64 { return 200_000 }, // above the batch: Used is exact
			Fragment: func(*Fragment) int64 { return 200_000 },
		}
	})
	require.NoError(t, h.SetLimits(Limits{High: 1 << 30, Low: 1 << 20}))
	cs := []*cache{h.open(Limits{High: 1 << 30, Low: 1 << 20}), h.open(Limits{High: 1 << 30, Low: 1 << 20})}
	for round := range uint32(300) {
		var lanes atomic.Int32
		lanes.Store(2)
		together(func(i int) {
			if i < 2 {
				for n := range uint32(20) {
					h.add(cs[i].Lane(i), 0, piece(round*20+n, 0, 8, true))
					runtime.Gosched()
				}
				lanes.Add(-1)
				return
			}
			for lanes.Load() > 0 {
				h.Step(0, 1024)
				runtime.Gosched()
			}
		}, 3)
		for h.Step(0, 1024) {
		}
		for _, c := range cs {
			if used := c.account.Used(); used > 1<<20 {
				t.Fatalf("round %d: %d bytes are charged, and the worker sleeps", round, used)
			}
		}
	}
	h.end(cs...)
}

// A chain of the work-queue's table takes 128 queues. One more is refused, and
// the table is rehashed, not before 5 s have passed since the last time; what it
// holds is found again.
func TestDeepChainIsRehashed(t *testing.T) {
	var colliding []uint64 // hashes that meet in chain 0 under the first secret
	for h := uint64(0); len(colliding) < deepestChain+10; h++ {
		if mix(h)%chainCount == 0 {
			colliding = append(colliding, h)
		}
	}
	h := newHostRig(t, "work-queue", func(c *Config) {
		never(c)
		c.Hash = func(k *Key) uint64 { return colliding[k.ID()] }
	})
	c := h.open(Limits{High: 1 << 20, Low: 1 << 20})
	for id := range uint32(deepestChain) {
		require.Equal(t, Held, h.add(c.Lane(0), 0, piece(id, 0, 8, true)).Verdict)
	}
	require.False(t, h.Step(0, 10))
	for now := range int64(6) {
		r := h.add(c.Lane(0), now*int64(time.Second), piece(deepestChain, 0, 8, true))
		require.Equal(t, Refused, r.Verdict, "second %d", now)
		h.Step(now*int64(time.Second), 10)
	}
	require.Equal(t, Held, h.add(c.Lane(0), 6e9, piece(deepestChain, 0, 8, true)).Verdict)
	for id := range uint32(deepestChain + 1) {
		d := h.add(c.Lane(1), 6e9, piece(id, 8, 8, false)).Datagram
		require.NotNil(t, d, "datagram %d is lost", id)
		d.Release()
	}
	h.end(c)
}

// Lookups, insertions and removals while the table is rehashed over and over: the
// sequence count sends whoever picked the wrong chain back, without a data race.
func TestConcurrentRehash(t *testing.T) {
	for _, global := range []bool{false, true} {
		t.Run(fmt.Sprintf("one-lock=%v", global), func(t *testing.T) {
			design := "work-queue"
			if global {
				design = "global-lru"
			}
			h := newHostRig(t, design, never)
			c := h.open(Limits{High: 1 << 20, Low: 1 << 20})
			chains := h.index.(*chains)
			var lanes atomic.Int32
			lanes.Store(2)
			together(func(i int) {
				if i == 2 {
					for n := uint64(1); lanes.Load() > 0; n++ {
						h.stepMu.Lock()
						chains.rehash(mix(n))
						h.stepMu.Unlock()
						runtime.Gosched()
					}
					return
				}
				defer lanes.Add(-1)
				for id := range uint32(2000) {
					id = id<<1 | uint32(i)
					if v := h.add(c.Lane(i), 0, piece(id, 0, 8, true)).Verdict; v != Held {
						t.Errorf("first of %d is %v", id, v)
					}
					if id < 100 {
						continue // these stay, and move with every rehash
					}
					r := h.add(c.Lane(i), 0, piece(id, 8, 8, false))
					if r.Verdict != Complete {
						t.Errorf("second of %d is %v", id, r.Verdict)
						return
					}
					r.Datagram.Release()
				}
			}, 3)
			require.Equal(t, 100, c.Stats().Queues)
			h.end(c)
		})
	}
}

// Run in production: the same stress, without a hand on the clock. It ends by
// itself when the host is closed, in the middle of all that.
func TestRunKeepsUpWithTheStressOfMail001(t *testing.T) {
	for _, timeout := range []time.Duration{0, 1 << 61} {
		adapt := func(c *Config) { c.Lanes, c.Timeout4, c.Timeout6, c.MaxAge = 4, timeout, timeout, 0 }
		t.Run("timeout="+timeout.String(), func(t *testing.T) {
			forEachWorker(t, adapt, func(t *testing.T, h *hostRig) {
				require.NoError(t, h.SetLimits(Limits{High: 1 << 18, Low: 1}))
				var now atomic.Int64
				var run sync.WaitGroup
				run.Go(func() { Run(context.Background(), h, func() int64 { return now.Add(1) }, 100*time.Microsecond) })
				c := h.open(Limits{High: 1 << 18, Low: 1})
				together(func(i int) {
					for n := range uint32(5000) {
						// Every newcomer gets in, sooner or later: nobody waits for ever.
						id := n<<2 | uint32(i)
						for tries := 0; h.add(c.Lane(i), now.Load(), piece(id, 0, 8, true)).Verdict == Refused; tries++ {
							if tries > 1e7 {
								t.Errorf("newcomer %d of lane %d was refused ten million times", n, i)
								return
							}
							runtime.Gosched()
						}
						if n%4 == 0 {
							if d := h.add(c.Lane(i), now.Load(), piece(id, 8, 8, false)).Datagram; d != nil {
								d.Release()
							}
						}
					}
				}, 4)
				s := c.Stats()
				require.Positive(t, s.Expired+s.Evicted)
				require.NoError(t, h.Close())
				run.Wait() // it may have buffers to give back still
				h.end(c)
			})
		})
	}
}

// scripted is an account whose Used tells what each caller in turn shall see.
type scripted struct {
	account
	used []func() int64
}

func (s *scripted) Used() int64 {
	next := s.used[0]
	s.used = s.used[1:]
	return next()
}

// The moment between the worker's look at a namespace and its note that it was
// served: what a lane charges in it is seen, whether the lane asks or finds that
// the namespace has asked already.
func TestAskBetweenLookAndNote(t *testing.T) {
	const low, above = 10, 20
	for _, asks := range []bool{false, true} {
		t.Run(fmt.Sprintf("asks=%v", asks), func(t *testing.T) {
			var w wishes
			c := new(cache)
			c.limits.store(Limits{High: low, Low: low})
			is := func(n int64) func() int64 { return func() int64 { return n } }
			c.account = &scripted{used: []func() int64{
				is(low), // served, the worker thinks
				func() int64 {
					if asks {
						w.ask(c)
					}
					return above
				},
				is(above), is(above),
			}}
			w.ask(c)
			w.left()
			require.True(t, w.left(), "the wake-up is lost")
			require.Len(t, w.open, 1, "and is noted once")
		})
	}
}
