package machine

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// plain is a machine on which only what a test sets costs anything.
func plain() Params {
	return Params{Near: 100, Far: 100, Keep: 1, Occupy: 1, Lock: Queued, Handed: 1, SpinTries: 4, Spin: 300, WakeAfter: 3000, Starve: 1e6}
}

// words are some addresses on lines of their own. Nothing is ever stored there.
func word(i int) uintptr { return uintptr(1<<20 + i*LineSize) }

// throughput runs op on CPUs for a while and returns operations per microsecond.
func throughput(p Params, cpus int, op func(c *CPU)) float64 {
	const end = 1e6
	m := New(p, cpus, 2, 1)
	n := 0
	for i, c := range m.CPUs {
		c.Start(float64(i), func(c *CPU) {
			for {
				c.Sync()
				op(c)
				n++
			}
		})
	}
	m.Run(end)
	return float64(n) / end * 1e3
}

func TestPrivateWorkScalesWithCPUs(t *testing.T) {
	for _, cpus := range []int{1, 2, 17, 128} {
		t.Run(fmt.Sprintf("cpus=%d", cpus), func(t *testing.T) {
			got := throughput(plain(), cpus, func(c *CPU) {
				c.Work(250)
				c.Add(word(c.ID))
				c.Store(word(c.ID+200), 8, 0)
			})
			require.InEpsilon(t, float64(cpus)*4, got, 0.001)
		})
	}
}

func TestOneCPUPaysTheSumOfItsParts(t *testing.T) {
	p := plain()
	p.Access, p.RMW, p.Store = 2, 7, 3
	locks := make(map[int]uint32)
	got := throughput(p, 1, func(c *CPU) {
		if locks[0] == 0 {
			locks[0] = c.NewLock(word(0))
		}
		c.Work(50)
		c.Lock(locks[0])            // 7
		c.Load(word(1), 8, 0, true) // 2
		c.Store(word(2), 8, 0)      // 2
		c.Unlock(locks[0])          // 3
		c.RMW(word(3))              // 7
		c.AtomicLoad(word(3), false)
	})
	require.InEpsilon(t, 1e3/(50+7+2+2+3+7+2), got, 0.001)
}

// Whatever the number of CPUs, a lock is held by one at a time.
func TestLockBoundLoadSaturatesAtOneOverHoldTime(t *testing.T) {
	const hold = 400
	for _, kind := range []LockKind{Queued, Ticket} {
		for _, cpus := range []int{1, 2, 8, 64} {
			t.Run(fmt.Sprintf("lock=%s/cpus=%d", kind, cpus), func(t *testing.T) {
				p := plain()
				p.Lock = kind
				var lock uint32
				got := throughput(p, cpus, func(c *CPU) {
					if lock == 0 {
						lock = c.NewLock(word(0))
					}
					c.Lock(lock)
					c.Work(hold)
					c.Unlock(lock)
				})
				want := 1e3 / hold
				if cpus > 1 {
					want = 1e3 / (hold + p.Near) // and each hand-over is a transfer
				}
				if kind == Ticket && cpus > 1 {
					// The waiters have the word, so the owner has to take it back first.
					want = 1e3 / (hold + 2*p.Near)
				}
				require.InEpsilon(t, want, got, 0.02)
			})
		}
	}
}

// With little time in the lock, CPUs scale until they are work/hold many.
func TestLockBoundLoadBendsAtWorkOverHold(t *testing.T) {
	p := plain()
	p.Near, p.Far = 0, 0
	rate := func(cpus int) float64 {
		var lock uint32
		return throughput(p, cpus, func(c *CPU) {
			if lock == 0 {
				lock = c.NewLock(word(0))
			}
			c.Work(900)
			c.Lock(lock)
			c.Work(100)
			c.Unlock(lock)
		})
	}
	require.InEpsilon(t, 4.0, rate(4), 0.05)
	require.InEpsilon(t, 10.0, rate(40), 0.01)
}

// M/D/1: a queue with random arrivals and a fixed time of service waits
// rho/(2(1-rho)) services on average (Pollaczek, Khinchine 1930).
func TestQueueAtALineWaitsAsInTheory(t *testing.T) {
	for _, rho := range []float64{0.3, 0.5, 0.7} {
		t.Run(fmt.Sprintf("rho=%g", rho), func(t *testing.T) {
			// Many CPUs with long random pauses are nearly a Poisson stream.
			p := plain()
			m := New(p, MaxCPUs, 1, 1)
			rng := rand.New(rand.NewPCG(1, 2))
			gap := p.Near * MaxCPUs / rho
			n := 0
			for _, c := range m.CPUs {
				c.Start(rng.ExpFloat64()*gap, func(c *CPU) {
					for {
						c.SleepUntil(c.Now + rng.ExpFloat64()*gap)
						c.RMW(word(0))
						n++
					}
				})
			}
			m.Run(2e7)
			wait := m.Sites[0].Stall/float64(m.Sites[0].Transfers) - p.Near
			// A CPU that waits sends nothing meanwhile, so the load is a little less.
			arrived := float64(n) * p.Near / 2e7
			require.InEpsilon(t, p.Near*arrived/(2*(1-arrived)), wait, 0.08)
		})
	}
}

func TestTwoCPUsOnOneLinePayATransferEach(t *testing.T) {
	p := plain()
	p.RMW = 1
	got := throughput(p, 2, func(c *CPU) { c.RMW(word(0)) })
	// While one waits for the line the other one hits, until the request arrives.
	require.Greater(t, got, 1e3/101.0)
	p.Keep = 0
	got = throughput(p, 2, func(c *CPU) { c.RMW(word(0)) })
	require.InEpsilon(t, 1e3/101.0, got, 0.02)
}

func TestReadersShareALine(t *testing.T) {
	got := throughput(plain(), 32, func(c *CPU) {
		c.Work(100)
		c.Load(word(0), 8, 0, false)
	})
	require.InEpsilon(t, 320, got, 0.05)
}

func TestFalseSharingCostsWhatSharingCosts(t *testing.T) {
	p := plain()
	p.Keep = 0
	apart := throughput(p, 2, func(c *CPU) { c.Work(50); c.RMW(word(c.ID)) })
	together := throughput(p, 2, func(c *CPU) { c.Work(50); c.RMW(word(0) + uintptr(c.ID)*8) })
	require.InEpsilon(t, 40, apart, 0.01)
	require.Less(t, together, apart/2)
}

func TestClustersAreNearAndFar(t *testing.T) {
	p := plain()
	p.Far, p.Cluster = 400, 2
	m := New(p, 4, 1, 1)
	require.EqualValues(t, 100, p.distance(0, 1, 4))
	require.EqualValues(t, 400, p.distance(1, 2, 4))
	p.Deal = true
	require.EqualValues(t, 100, p.distance(0, 2, 4))
	require.EqualValues(t, 400, p.distance(0, 1, 4))
	require.Len(t, m.CPUs, 4)
}

// Nothing gets faster by being shared, and a machine without distances does not
// tell designs apart.
func TestMoreSharingIsNeverFaster(t *testing.T) {
	for _, near := range []float64{0, 20, 200} {
		p := plain()
		p.Near, p.Far = near, near
		last := 1e9
		for shared := range 4 {
			got := throughput(p, 8, func(c *CPU) {
				c.Work(300)
				for i := range 4 {
					if i < shared {
						c.Add(word(i))
					} else {
						c.Add(word(100 + 8*c.ID + i))
					}
				}
			})
			require.LessOrEqual(t, got, last*1.001, "near=%g shared=%d", near, shared)
			last = got
			if near == 0 {
				require.InEpsilon(t, 8e3/300, got, 0.001)
			}
		}
	}
}

func TestMutexIsHandedOverOnceSomebodyStarves(t *testing.T) {
	p := plain()
	p.Lock, p.Near, p.Far = Mutex, 10, 10
	counts := make([]int, 4)
	m := New(p, 4, 1, 1)
	var lock uint32
	for _, c := range m.CPUs {
		c.Start(float64(c.ID), func(c *CPU) {
			for {
				c.Sync()
				if lock == 0 {
					lock = c.NewLock(word(0))
				}
				c.Lock(lock)
				c.Work(5000)
				c.Unlock(lock)
				counts[c.ID]++
			}
		})
	}
	m.Run(2e8)
	for id, n := range counts {
		// In 200 ms everybody is handed the lock many times, a millisecond apart at most
		// for each of the others.
		require.Greater(t, n, 50, "cpu %d", id)
	}
}

func TestSameSeedGivesTheSameRun(t *testing.T) {
	run := func(seed uint64) []Site {
		p := plain()
		p.Lock, p.Reread = Ticket, 25
		m := New(p, 16, 2, seed)
		var lock uint32
		for _, c := range m.CPUs {
			c.Start(float64(c.ID), func(c *CPU) {
				for {
					c.Work(100)
					c.Sync()
					if lock == 0 {
						lock = c.NewLock(word(0))
					}
					c.Lock(lock)
					c.Work(5000)
					c.Unlock(lock)
				}
			})
		}
		m.Run(1e6)
		return m.Sites
	}
	require.Equal(t, run(1), run(1))
	require.NotEqual(t, run(1), run(2))
}

func TestUnlockOfAFreeLockPanics(t *testing.T) {
	m := New(plain(), 1, 1, 1)
	var err any
	m.CPUs[0].Start(0, func(c *CPU) {
		defer func() { err = recover() }()
		c.Unlock(c.NewLock(word(0)))
	})
	m.Run(1)
	require.Equal(t, "machine: unlock of a lock that is free", err)
}

func TestConditionWakesAllWhoWait(t *testing.T) {
	m := New(plain(), 4, 1, 1)
	var cond Cond
	var lock uint32
	woken := 0
	for _, c := range m.CPUs {
		c.Start(float64(c.ID), func(c *CPU) {
			if lock == 0 {
				lock = c.NewLock(word(0))
			}
			if c.ID == 3 {
				c.SleepUntil(10_000)
				c.Broadcast(&cond)
				return
			}
			c.Lock(lock)
			c.Wait(&cond, func() { c.Unlock(lock) }, func() { c.Lock(lock) })
			c.Unlock(lock)
			woken++
		})
	}
	m.Run(1e6)
	require.Equal(t, 3, woken)
}
