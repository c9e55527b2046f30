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

	"corelane/internal/race"
)

// Namespaces of one host (mail 001, patch 9), on every design: limits, the cap
// over all of them, and who pays when it is reached; numbers that are used again;
// Close at every moment. Every test ends with balanced books.

// hostRig is a host under test in Borrow, and the buffers it has.
type hostRig struct {
	*Host
	t      *testing.T
	design string
	lent   atomic.Int64
}

func newHostRig(t *testing.T, design string, adapt func(*Config)) *hostRig {
	h := &hostRig{t: t, design: design}
	cfg := DefaultConfig()
	cfg.Lanes = 2
	cfg.Limits = Limits{High: 1 << 20, Low: 3 << 18}
	flat(&cfg)
	cfg.Mode = Borrow
	cfg.Free = func(bs []Buffer) {
		h.lent.Add(-int64(len(bs)))
		for _, b := range bs {
			scribble(b.Packet)
		}
	}
	if adapt != nil {
		adapt(&cfg)
	}
	host, err := NewHost(design, cfg)
	require.NoError(t, err)
	h.Host = host
	return h
}

func (h *hostRig) open(l Limits) *cache {
	c, err := h.Namespace(l)
	require.NoError(h.t, err)
	return c.(*cache)
}

// add gives a packet of its own to a lane.
func (h *hostRig) add(lane Lane, now int64, f frag) Result {
	var (
		frag Fragment
		p    Parser
	)
	p.Parse(f.of(0).packet(4, 0), 0, &frag)
	h.lent.Add(1)
	r := lane.Add(now, &frag)
	if !r.Verdict.Kept() {
		h.lent.Add(-1)
	}
	return r
}

// end closes the host and balances the books.
func (h *hostRig) end(cs ...*cache) {
	h.t.Helper()
	require.NoError(h.t, h.Close())
	require.Zero(h.t, h.Bytes(), "bytes of the host")
	require.Zero(h.t, h.lent.Load(), "buffers that never came back")
	for _, c := range cs {
		s := c.Stats()
		require.Zero(h.t, s.Bytes)
		require.Zero(h.t, s.Queues)
		require.True(h.t, c.buried.Load(), "the account of a namespace that is empty is closed")
	}
	for i := range h.wheels {
		require.Zero(h.t, h.wheels[i].count, "timers of lane %d", i)
	}
	if h.peers != nil {
		for i := range h.peers.shards {
			require.Empty(h.t, h.peers.shards[i].m, "sources")
		}
	}
}

func forEachHost(t *testing.T, adapt func(*Config), test func(*testing.T, *hostRig)) {
	for _, d := range Designs() {
		t.Run("design="+d.Name, func(t *testing.T) { test(t, newHostRig(t, d.Name, adapt)) })
	}
}

func TestNamespaceLimitsStayWithinTheHosts(t *testing.T) {
	forEachHost(t, nil, func(t *testing.T, h *hostRig) {
		for _, l := range []Limits{{High: 1<<20 + 1}, {High: 10, Low: 11}, {High: -1, Low: -1}, {High: 5, Low: -1}} {
			_, err := h.Namespace(l)
			require.Error(t, err, "%+v", l)
		}
		_, err := h.Namespace(Limits{High: 1<<20 + 1})
		require.EqualError(t, err, "reasm: a namespace's High must not exceed its host's: got 1048577, host 1048576")

		c := h.open(Limits{High: 1 << 20, Low: 1 << 20})
		require.Error(t, c.SetLimits(Limits{High: 1<<20 + 1}))
		require.Error(t, c.SetLimits(Limits{High: 10, Low: 11}))
		require.Error(t, h.SetLimits(Limits{High: 10, Low: 11}))
		require.Equal(t, int64(1<<20), c.limits.high.Load(), "refused limits change nothing")
		require.NoError(t, c.SetLimits(Limits{High: 1 << 19, Low: 1}))

		// A host that is lowered holds its namespaces to that, whatever theirs say.
		require.NoError(t, h.SetLimits(Limits{High: 5000, Low: 3000}))
		require.Error(t, c.SetLimits(Limits{High: 5001}))
		for id := range uint32(1000) {
			h.add(c.Lane(0), 0, piece(id, 0, 8, true))
			for h.Step(0, 1000) {
			}
		}
		require.LessOrEqual(t, h.Bytes(), 5000+110+slack(h.design, 1))
		h.end(c)
	})
}

// slack is by how much a design's account of so many lanes may be wrong.
func slack(design string, lanes int) int64 {
	switch design {
	case "hash-clean", "work-queue":
		return int64(lanes) * 130_000
	}
	return 0
}

// However many namespaces there are, each with the host's own limit, all of them
// together stay below it: the bound in the header of each design.
func TestHostCapHoldsOverNamespaces(t *testing.T) {
	const spaces, lanes = 40, 2
	forEachHost(t, nil, func(t *testing.T, h *hostRig) {
		var cs []*cache
		for range spaces {
			cs = append(cs, h.open(Limits{High: 1 << 20, Low: 3 << 18}))
		}
		bound := 1<<20 + lanes*110 + slack(h.design, lanes)
		most := int64(0)
		for id := range uint32(1 << 9) {
			for i, c := range cs {
				h.add(c.Lane(i%lanes), int64(id), piece(id, 0, 8, true))
				if n := h.Bytes(); n > bound {
					t.Fatalf("%d bytes charged, at most %d allowed", n, bound)
				} else {
					most = max(most, n)
				}
			}
			h.Step(int64(id), 100)
		}
		require.Greater(t, most, int64(1<<19), "the cap was never reached")
		h.end(cs...)
	})
}

// One namespace far above its limit, and a quiet one: nothing of the quiet one is
// refused, evicted or late (what patch 9 is for).
func TestNobodyIsEvictedForANeighbour(t *testing.T) {
	forEachHost(t, nil, func(t *testing.T, h *hostRig) {
		loud, quiet := h.open(Limits{High: 1 << 18, Low: 1 << 17}), h.open(Limits{High: 1 << 18, Low: 1 << 17})
		for id := range uint32(50) {
			require.Equal(t, Held, h.add(quiet.Lane(0), 0, piece(id, 0, 8, true)).Verdict)
		}
		for id := range uint32(6_000) {
			h.add(loud.Lane(int(id%2)), int64(id), piece(id%65536, 0, 8, true))
			if id%100 == 0 {
				h.Step(int64(id), 1000)
			}
		}
		s := loud.Stats()
		require.Positive(t, s.Evicted+s.Verdicts[Refused], "the flood was too small")
		for id := range uint32(50) {
			r := h.add(quiet.Lane(1), 6_000, piece(id, 8, 8, false))
			require.Equal(t, Complete, r.Verdict, "datagram %d of the quiet one", id)
			r.Datagram.Release()
		}
		s = quiet.Stats()
		require.Zero(t, s.Evicted+s.Verdicts[Refused])
		h.end(loud, quiet)
	})
}

// When the host itself is full, whoever brings more evicts its own. The workers
// are the exception, as their headers say: they evict what they meet.
func TestFullHostMakesEachEvictItsOwn(t *testing.T) {
	forEachHost(t, nil, func(t *testing.T, h *hostRig) {
		if h.work != nil && h.design != "global-lru" && h.design != "warm-lru" {
			return
		}
		first, second := h.open(Limits{High: 1 << 20, Low: 1 << 20}), h.open(Limits{High: 1 << 20, Low: 1 << 20})
		for id := range uint32(1000) {
			h.add(first.Lane(0), 0, piece(id, 0, 8, true))
		}
		for id := range uint32(12_000) {
			h.add(second.Lane(0), int64(id), piece(id, 0, 8, true))
		}
		s1, s2 := first.Stats(), second.Stats()
		require.Equal(t, 1000, s1.Queues)
		require.Zero(t, s1.Evicted)
		require.Positive(t, s2.Evicted+s2.Verdicts[Refused], "the host was never full")
		h.end(first, second)
	})
}

// The same source address in two namespaces is two sources.
func TestSourcesOfNamespacesAreTheirOwn(t *testing.T) {
	t.Run("design=adaptive", func(t *testing.T) {
		h := newHostRig(t, "adaptive", nil)
		a, b := h.open(Limits{High: 1 << 16, Low: 1 << 10}), h.open(Limits{High: 1 << 16, Low: 1 << 10})
		for id := uint32(0); h.add(a.Lane(0), 0, piece(id, 0, 8, true)).Verdict == Held; id++ {
		}
		require.Equal(t, Refused, h.add(a.Lane(0), 0, piece(999, 0, 8, true)).Verdict, "the source has its share")
		require.Equal(t, Held, h.add(b.Lane(0), 0, piece(999, 0, 8, true)).Verdict)
		h.end(a, b)
	})
	t.Run("max-dist", func(t *testing.T) {
		h := newHostRig(t, Default, func(c *Config) { c.MaxDist = 4 })
		a, b := h.open(Limits{High: 1 << 16}), h.open(Limits{High: 1 << 16})
		require.Equal(t, Held, h.add(a.Lane(0), 0, piece(1, 0, 8, true)).Verdict)
		for id := range uint32(10) {
			h.add(b.Lane(0), 0, piece(id, 0, 8, true))
		}
		r := h.add(a.Lane(0), 0, piece(1, 8, 8, false))
		require.False(t, r.Restarted, "what a neighbour hears is no distance here")
		r.Datagram.Release()
		h.end(a, b)
	})
}

// A number is given out again when its namespace was closed. The lanes of the old
// one, late lookups and datagrams that are still out do not see the new one.
func TestNamespaceNumbersAreUsedAgain(t *testing.T) {
	forEachHost(t, nil, func(t *testing.T, h *hostRig) {
		limits := Limits{High: 1 << 20, Low: 1 << 20}
		keep := h.open(limits)
		h.next = maxSpaces - 2
		old := h.open(limits)
		require.EqualValues(t, maxSpaces-1, old.number)
		h.add(old.Lane(0), 0, piece(1, 0, 8, true))
		out := h.add(old.Lane(0), 0, piece(1, 8, 8, false)).Datagram
		h.add(old.Lane(0), 0, piece(2, 0, 8, true))
		require.NoError(t, old.Close())
		require.Equal(t, int64(120), h.Bytes(), "the datagram is out")

		require.EqualValues(t, maxSpaces, h.open(limits).number)
		require.EqualValues(t, 2, h.open(limits).number, "0 is no number, and 1 is in use")
		h.next = old.number - 1
		again := h.open(limits)
		require.Equal(t, old.number, again.number)
		require.Equal(t, Held, h.add(again.Lane(1), 0, piece(2, 0, 8, true)).Verdict)
		for _, f := range []frag{piece(2, 8, 8, false), piece(2, 0, 8, true), piece(3, 0, 8, true)} {
			require.Equal(t, Closed, h.add(old.Lane(0), 0, f).Verdict, "its lane is no way into the new one")
		}
		r := h.add(again.Lane(0), 0, piece(2, 8, 8, false))
		require.Equal(t, Complete, r.Verdict)
		require.Equal(t, r.Datagram.Key(), func() Key { k := out.Key(); k.tag += 1; return k }(), "the number is in no Key that callers see")
		r.Datagram.Release()
		require.Equal(t, int64(120), old.Stats().Bytes)
		require.False(t, old.buried.Load())
		out.Release()
		h.end(old, again, keep)
	})
}

func TestHostHasRoomForAllNumbersButZero(t *testing.T) {
	h := newHostRig(t, "hard-limit", func(c *Config) { c.Lanes = 1 })
	for n := range maxSpaces {
		require.EqualValues(t, n+1, h.open(Limits{}).number)
	}
	_, err := h.Namespace(Limits{})
	require.ErrorIs(t, err, errTooMany)
	require.NoError(t, h.spaces[7].Close())
	require.EqualValues(t, 7, h.open(Limits{}).number)
	h.end()
}

// A closed namespace is charged for what is out until the last Release, from any
// goroutine, and not a byte longer.
func TestNamespaceCloseWithDatagramsOut(t *testing.T) {
	forEachHost(t, nil, func(t *testing.T, h *hostRig) {
		c := h.open(Limits{High: 1 << 20, Low: 1 << 20})
		var out []*Datagram
		for id := range uint32(100) {
			h.add(c.Lane(0), 0, piece(id, 0, 8, true))
			if r := h.add(c.Lane(int(id%2)), 0, piece(id, 8, 8, false)); r.Datagram != nil {
				out = append(out, r.Datagram)
			}
			h.add(c.Lane(0), 0, piece(1000+id, 0, 8, true))
		}
		require.Len(t, out, 100)
		require.NoError(t, c.Close())
		require.Equal(t, int64(100*120), h.Bytes())
		s := c.Stats()
		require.Equal(t, int64(100*120), s.Bytes)
		require.EqualValues(t, 100, s.Flushed)
		require.Empty(t, h.spaces)
		for i, d := range out[1:] {
			require.Len(t, d.Bytes(), 36)
			d.Release()
			require.Equal(t, int64((99-i)*120), h.Bytes())
		}
		require.False(t, c.buried.Load())
		require.NoError(t, c.Close(), "again does nothing")
		out[0].Release()
		h.end(c)
	})
}

// Between the start of Close and the end of its flush nothing may be charged while
// a lane is about to charge: a Release then is not the last.
func TestReleaseDuringCloseLeavesTheAccountOpen(t *testing.T) {
	forEachHost(t, nil, func(t *testing.T, h *hostRig) {
		c := h.open(Limits{High: 1 << 20, Low: 1 << 20})
		h.add(c.Lane(0), 0, piece(1, 0, 8, true))
		d := h.add(c.Lane(0), 0, piece(1, 8, 8, false)).Datagram
		c.closed.Store(true) // Close, before its flush
		d.Release()
		require.False(t, c.buried.Load())
		c.account.ChargeAt(0, 100) // the lane
		c.account.UnchargeAt(0, 100)
		c.closed.Store(false)
		require.NoError(t, c.Close())
		h.end(c)
	})
}

// Close of namespaces against their lanes, releases, Step and the host's Close: a
// lane that is in the middle either is found by the flush or sees that it must
// not go on (RE-L17).
func TestConcurrentNamespaceClose(t *testing.T) {
	forEachHost(t, nil, func(t *testing.T, h *hostRig) {
		var all []*cache
		for round := range 40 {
			host := h
			if round%4 == 3 { // one that is closed itself
				host = newHostRig(t, h.design, nil)
			}
			mine := []*cache{host.open(Limits{High: 1 << 16, Low: 1 << 15}), host.open(Limits{High: 1 << 16, Low: 1 << 15})}
			ds := make(chan *Datagram, 1000)
			together(func(i int) {
				switch {
				case i < 4: // a lane of each
					lane := mine[i/2].Lane(i % 2)
					for n := range uint32(60) {
						r := host.add(lane, int64(n), piece(n, 8*(i%2), 8, i%2 == 0))
						if r.Datagram != nil {
							ds <- r.Datagram
						}
						if n%8 == 0 {
							runtime.Gosched()
						}
					}
				case i == 4:
					for n := range int64(10) {
						host.Step(n, 10)
						host.Bytes()
					}
				case i == 5:
					for range 40 {
						select {
						case d := <-ds:
							d.Release()
						default:
							runtime.Gosched()
						}
					}
				default:
					for range round % 7 {
						runtime.Gosched()
					}
					if host != h {
						_ = host.Close()
					}
					_ = mine[i%2].Close()
				}
			}, 8)
			for len(ds) > 0 {
				(<-ds).Release()
			}
			all = append(all, mine...)
			if host != h {
				host.end(mine...)
			}
		}
		h.end(all...)
	})
}

// Ten thousand namespaces, made, flooded and closed in a loop beside one that
// stays and whose traffic goes on: the second half of the stress of mail 001. With
// the race detector they are ten thousand of all designs together.
func TestTenThousandNamespaces(t *testing.T) {
	forEachHost(t, nil, func(t *testing.T, h *hostRig) {
		n := 10_000
		switch {
		case testing.Short():
			n = 300
		case race.Enabled:
			n = n/len(designs) + 1
		}
		stays := h.open(Limits{High: 1 << 19, Low: 1 << 18})
		var over atomic.Bool
		var wg sync.WaitGroup
		wg.Go(func() { // its traffic
			for id := uint32(0); !over.Load(); id++ {
				if d := h.add(stays.Lane(0), 0, piece(id>>1%5000, int(id&1)*8, 8, id&1 == 0)).Datagram; d != nil {
					d.Release()
				}
				if id%64 == 0 {
					h.Step(0, 64)
				}
			}
		})
		var out []*Datagram
		for i := range n {
			c := h.open(Limits{High: 1 << 12, Low: 1 << 10})
			for id := range uint32(4) {
				h.add(c.Lane(0), 0, piece(id, 0, 8, true))
			}
			if d := h.add(c.Lane(1), 0, piece(0, 8, 8, false)).Datagram; d != nil {
				out = append(out, d)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if i%100 == 99 {
				for _, d := range out {
					d.Release()
				}
				out = out[:0]
			}
			if s := c.Stats(); s.Queues != 0 || s.Bytes != int64(min(len(out), 1))*120 {
				t.Errorf("namespace %d holds %d queues and %d bytes after Close, %d datagrams out", i, s.Queues, s.Bytes, len(out))
				break
			}
		}
		for stays.Stats().Verdicts[Complete] == 0 { // on a busy machine its traffic may not have begun
			runtime.Gosched()
		}
		over.Store(true)
		wg.Wait()
		for _, d := range out {
			d.Release()
		}
		s := stays.Stats()
		require.EqualValues(t, h.Bytes(), s.Bytes, "nothing but what stays is charged")
		require.Len(t, h.spaces, 1)
		h.end(stays)
	})
}

// Ten thousand at once: opening one costs what it says, and closing the host
// closes them all.
func TestTenThousandNamespacesAtOnce(t *testing.T) {
	forEachHost(t, nil, func(t *testing.T, h *hostRig) {
		n := 10_000
		if race.Enabled || testing.Short() {
			n = 1000
		}
		cs := make([]*cache, n)
		for i := range cs {
			cs[i] = h.open(Limits{High: 1 << 12, Low: 1 << 11})
		}
		for i, c := range cs {
			h.add(c.Lane(0), 0, piece(7, 0, 8, true)) // the same key in all of them
			if i%2 == 0 {
				if d := h.add(c.Lane(1), 0, piece(7, 8, 8, false)).Datagram; d != nil {
					d.Release()
				}
			}
		}
		held := 0
		for _, c := range cs {
			held += c.Stats().Queues
		}
		require.Positive(t, held)
		require.EqualValues(t, 110*held, h.Bytes())
		h.end(cs...)
	})
}

func TestHostClose(t *testing.T) {
	forEachHost(t, nil, func(t *testing.T, h *hostRig) {
		a, b := h.open(Limits{High: 1000, Low: 1000}), h.open(Limits{High: 1000, Low: 1000})
		h.add(a.Lane(0), 0, piece(1, 0, 8, true))
		require.Equal(t, Held, h.add(b.Lane(0), 0, piece(1, 0, 8, true)).Verdict)
		d := h.add(b.Lane(1), 0, piece(1, 8, 8, false)).Datagram
		require.NotNil(t, d)
		require.NoError(t, h.Close())
		require.NoError(t, h.Close())
		require.NoError(t, a.Close())
		require.Equal(t, Closed, h.add(a.Lane(0), 0, piece(2, 0, 8, true)).Verdict)
		require.Equal(t, Closed, h.add(b.Lane(0), 0, piece(1, 0, 8, true)).Verdict)
		_, err := h.Namespace(Limits{})
		require.ErrorIs(t, err, errHostClosed)
		require.False(t, h.Step(int64(time.Hour), 10))
		require.EqualValues(t, 120, h.Bytes())
		d.Release()
		h.end(a, b)
	})
}

// One Run serves a host, and ends with it; closing a namespace does not end it.
func TestRunEndsWithTheHost(t *testing.T) {
	forEachHost(t, func(c *Config) { c.Timeout4 = time.Nanosecond }, func(t *testing.T, h *hostRig) {
		a, b := h.open(Limits{High: 1000, Low: 1000}), h.open(Limits{High: 1000, Low: 1000})
		var now atomic.Int64
		ended := make(chan int, 2)
		for i, s := range []Stepper{h.Host, a} {
			go func() {
				Run(context.Background(), s, func() int64 { return now.Add(1) }, 50*time.Microsecond)
				ended <- i
			}()
		}
		require.NoError(t, a.Close())
		require.Equal(t, Held, h.add(b.Lane(0), 0, piece(1, 0, 8, true)).Verdict)
		for b.Stats().Expired == 0 {
			runtime.Gosched() // Run expires it
		}
		require.Empty(t, ended)
		require.NoError(t, h.Close())
		<-ended
		<-ended
		h.end(a, b)
	})
}

// What a namespace costs, as the comment of Host.Namespace says.
func BenchmarkNamespace(b *testing.B) {
	for _, d := range Designs() {
		for _, lanes := range []int{1, 8} {
			b.Run(fmt.Sprintf("design=%s/lanes=%d", d.Name, lanes), func(b *testing.B) {
				cfg := DefaultConfig()
				cfg.Lanes = lanes
				h, err := NewHost(d.Name, cfg)
				require.NoError(b, err)
				b.ReportAllocs()
				for range b.N {
					c, err := h.Namespace(Limits{High: 1000})
					require.NoError(b, err)
					require.NoError(b, c.Close())
				}
			})
		}
	}
}
