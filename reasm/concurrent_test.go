package reasm

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"corelane/internal/vectors"
)

// Small races, a few milliseconds each, for the race detector; the long ones are
// in package stress. Every one ends with balanced books.

// crowd is a cache that several goroutines use, a lane each.
type crowd struct {
	t      *testing.T
	design string
	cache  Cache
	mode   Mode
	lent   atomic.Int64 // buffers that the cache has
	now    atomic.Int64
}

func newCrowd(t *testing.T, design string, mode Mode, adapt func(*Config)) *crowd {
	c := &crowd{t: t, design: design, mode: mode}
	cfg := DefaultConfig()
	cfg.Lanes = 4
	if adapt != nil {
		adapt(&cfg)
	}
	cfg.Mode = mode
	cfg.Free = func(bs []Buffer) {
		c.lent.Add(-int64(len(bs)))
		for _, b := range bs {
			scribble(b.Packet)
		}
	}
	cache, err := New(design, cfg)
	require.NoError(t, err)
	c.cache = cache
	return c
}

// add gives a packet of its own to a lane, and checks a datagram that comes out.
func (c *crowd) add(lane Lane, f frag, whole int) Verdict {
	var (
		frag Fragment
		p    Parser
	)
	p.Parse(f.of(0).packet(4, 0), 0, &frag)
	c.lent.Add(1)
	r := lane.Add(c.now.Load(), &frag)
	if c.mode == Copy || !r.Verdict.Kept() {
		c.lent.Add(-1)
	}
	if d := r.Datagram; d != nil {
		want := make([]byte, whole)
		for i := range want {
			want[i] = vectors.PatternByte(0, i)
		}
		if got := d.Bytes()[20:]; !bytes.Equal(got, want) {
			c.t.Errorf("datagram of %d bytes differs", len(got))
		}
		d.Release()
	}
	return r.Verdict
}

func (c *crowd) end() {
	require.NoError(c.t, c.cache.Close())
	s := c.cache.Stats()
	require.Zero(c.t, s.Bytes)
	require.Zero(c.t, s.Queues)
	require.Zero(c.t, c.lent.Load(), "buffers that never came back")
}

func forEachCrowd(t *testing.T, adapt func(*Config), test func(*crowd)) {
	for _, d := range Designs() {
		for _, mode := range []Mode{Copy, Borrow} {
			t.Run(fmt.Sprintf("design=%s/mode=%s", d.Name, modeName(mode)), func(t *testing.T) {
				test(newCrowd(t, d.Name, mode, adapt))
			})
		}
	}
}

// The last two fragments on two lanes: exactly one result (RE-S17, RE-P11).
func TestConcurrentLastFragmentsCompleteOnce(t *testing.T) {
	forEachCrowd(t, nil, func(c *crowd) {
		for id := range uint32(300) {
			c.add(c.cache.Lane(0), piece(id, 0, 8, true), 0)
			var done atomic.Int32
			together(func(i int) {
				if c.add(c.cache.Lane(i), piece(id, 8+8*i, 8, i == 0), 24) == Complete {
					done.Add(1)
				}
			}, 2)
			require.EqualValues(c.t, 1, done.Load(), "datagram %d", id)
		}
		c.end()
	})
}

// Both fragments at once on two lanes: one queue, one datagram (RE-V7).
func TestConcurrentCreatorsShareOneQueue(t *testing.T) {
	forEachCrowd(t, nil, func(c *crowd) {
		for id := range uint32(300) {
			var done atomic.Int32
			together(func(i int) {
				if c.add(c.cache.Lane(i), piece(id, 8*i, 8, i < 3), 32) == Complete {
					done.Add(1)
				}
			}, 4)
			require.EqualValues(c.t, 1, done.Load())
			require.Zero(c.t, c.cache.Stats().Queues)
		}
		c.end()
	})
}

// Completion against the timer: one of them wins (RE-O20, RE-L20).
func TestConcurrentCompletionAndExpiry(t *testing.T) {
	var told atomic.Int64
	adapt := func(c *Config) {
		c.Timeout4 = time.Second
		c.OnExpire = func(*Expired) { told.Add(1) }
	}
	forEachCrowd(t, adapt, func(c *crowd) {
		told.Store(0)
		var done, late int64
		for id := range uint32(300) {
			c.add(c.cache.Lane(0), piece(id, 0, 8, true), 0)
			var v Verdict
			together(func(i int) {
				switch i {
				case 0: // its clock has not come as far
					v = c.add(c.cache.Lane(1), piece(id, 8, 8, false), 16)
				case 1:
					c.cache.Step(int64(id+1)*int64(time.Second), 10)
				}
			}, 2)
			if v == Complete {
				done++
			} else {
				late++
			}
			c.now.Add(int64(time.Second))
			c.cache.Step(c.now.Load()+int64(time.Second), 10)
		}
		s := c.cache.Stats()
		require.Equal(c.t, done+late, int64(s.Verdicts[Complete])+late)
		require.EqualValues(c.t, told.Load(), s.Expired)
		require.Equal(c.t, done+2*late, int64(s.Expired)+done, "a late fragment leaves two halves, each of which expires")
		c.end()
	})
}

// Close against everything (RE-L17, RE-G9, RE-D13): newcomers are refused, what
// is held goes, what is out stays, the books end at 0.
func TestConcurrentClose(t *testing.T) {
	forEachCrowd(t, nil, func(first *crowd) {
		for range 20 {
			c := newCrowd(first.t, first.design, first.mode, nil)
			together(func(i int) {
				switch {
				case i < 4:
					lane := c.cache.Lane(i)
					for n := range uint32(100) {
						c.add(lane, piece(n*4+uint32(i)%2, 8*(i/2), 8, i/2 == 0), 16)
					}
				case i == 4:
					for range 20 {
						c.now.Add(int64(time.Second))
						c.cache.Step(c.now.Load(), 10)
					}
				case i == 5:
					for range c.cache.Walk() {
						runtime.Gosched()
					}
				default:
					runtime.Gosched()
					_ = c.cache.Close()
				}
			}, 8)
			c.end()
		}
		first.end()
	})
}

// Releases from any goroutine, also after Close (RE-G11, RE-L19).
func TestConcurrentReleases(t *testing.T) {
	forEachCrowd(t, nil, func(c *crowd) {
		ds := make(chan *Datagram, 100)
		together(func(i int) {
			if i > 0 {
				for d := range ds {
					d.Release()
				}
				return
			}
			lane := c.cache.Lane(0)
			var p Parser
			for id := range uint32(500) {
				if id == 300 {
					require.NoError(c.t, c.cache.Close())
				}
				for k := range 2 {
					var f Fragment
					p.Parse(piece(id, 8*k, 8, k == 0).of(0).packet(4, 0), 0, &f)
					r := lane.Add(0, &f)
					if c.mode == Borrow && r.Verdict.Kept() {
						c.lent.Add(1)
					}
					if r.Datagram != nil {
						ds <- r.Datagram
					}
				}
			}
			close(ds)
		}, 3)
		c.end()
	})
}

// Q10: a queue that one lane holds delays nobody who wants another.
func TestLanesDoNotWaitForEachOther(t *testing.T) {
	forEachCrowd(t, nil, func(c *crowd) {
		c.add(c.cache.Lane(0), piece(1, 0, 8, true), 0)
		q := c.cache.(*cache).lanes[0].last
		q.mu.Lock() // as a lane in the middle of a copy
		for id := range uint32(1000) {
			c.add(c.cache.Lane(1), piece(2+id, 0, 8, true), 0)
			c.add(c.cache.Lane(1), piece(2+id, 8, 8, false), 16)
		}
		c.cache.Step(1, 10)
		c.cache.Stats()
		q.mu.Unlock()
		c.end()
	})
}

// Run steps by its ticker, and goes on at once while there is more.
func TestRunStepsUntilItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, Default, Borrow, func(c *Config) { c.Timeout4 = time.Second })
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		clock := func() int64 { return int64(time.Since(start)) }
		var wg sync.WaitGroup
		wg.Go(func() { Run(ctx, c.cache, clock, 10*time.Millisecond) })
		for id := range uint32(5000) {
			c.add(c.cache.Lane(0), piece(id, 0, 8, true), 0)
		}
		time.Sleep(999 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, 5000, c.cache.Stats().Queues)
		time.Sleep(11 * time.Millisecond)
		synctest.Wait()
		require.Zero(t, c.cache.Stats().Queues)
		cancel()
		wg.Wait()
		c.end()
	})
}

// together runs fn(0) .. fn(n-1) at the same time and waits.
func together(fn func(i int), n int) {
	var (
		wg    sync.WaitGroup
		start = make(chan struct{})
	)
	for i := range n {
		wg.Go(func() {
			<-start
			fn(i)
		})
	}
	close(start)
	wg.Wait()
}
