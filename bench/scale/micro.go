package scale

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/cpu"

	"corelane/bench/scale/machine"
	"corelane/bench/scale/measure"
)

// The micro-benchmarks that the constants come from. Each exists twice: as code
// that is timed, and as a program for the virtual machine, which must come out
// alike.

// ring is 16 KB of loads that wait for each other. Arithmetic alone would not do: a
// core overlaps it with the transfer that is to be measured.
type ring [256][8]uint64

func newRing() *ring {
	r := new(ring)
	order := rand.New(rand.NewPCG(1, 2)).Perm(len(r))
	for i, at := range order {
		r[at][0] = uint64(order[(i+1)%len(order)])
	}
	return r
}

//go:noinline
func (r *ring) chase(n int, at uint64) uint64 {
	for range n {
		at = r[at&255][0]
	}
	return at
}

type alone struct {
	_ cpu.CacheLinePad
	n atomic.Int64
	_ cpu.CacheLinePad
}

type guarded struct {
	_  cpu.CacheLinePad
	mu sync.Mutex
	_  cpu.CacheLinePad
	n  uint64
	_  cpu.CacheLinePad
}

const microOps = 64

// work is how many dependent loads stand between two operations.
var work = []int{15, 40}

// micro is one of them.
type micro struct {
	kind    string // work, own, shared, mutex
	work    int
	threads int
	c       *measure.Case
}

// micros are all of them.
func micros() []*micro {
	rings := [2]*ring{newRing(), newRing()}
	var sink [2]struct {
		x uint64
		_ cpu.CacheLinePad
	}
	var ms []*micro
	add := func(kind string, w, threads int, op func(id int, x uint64) uint64) {
		c := &measure.Case{Threads: threads, Parks: kind == "mutex" && threads == 2}
		c.Body = func(id int) int {
			x := sink[id].x
			for range microOps {
				x = op(id, rings[id].chase(w, x))
			}
			sink[id].x = x
			return microOps
		}
		ms = append(ms, &micro{kind, w, threads, c})
	}
	for _, w := range work {
		own, shared, mutex := new(alone), new(alone), new(guarded)
		add("work", w, 1, func(_ int, x uint64) uint64 { return x })
		add("own", w, 1, func(_ int, x uint64) uint64 { own.n.Add(1); return x })
		add("shared", w, 2, func(_ int, x uint64) uint64 { shared.n.Add(1); return x })
		for threads := 1; threads <= 2; threads++ {
			add("mutex", w, threads, func(_ int, x uint64) uint64 {
				mutex.mu.Lock()
				mutex.n++
				x ^= mutex.n &^ 0xff
				mutex.mu.Unlock()
				return x
			})
		}
	}
	return ms
}

// wakeUp is how long it takes until a goroutine that waits runs, once it may, and
// what it costs who wakes it: the two together, in ns.
func wakeUp(rounds int) measure.Quartiles {
	const cycles = 100
	r := newRing()
	var v []float64
	for range rounds {
		gate := make(chan struct{})
		var answer atomic.Int64
		go func() {
			for range gate {
				answer.Add(1)
			}
		}()
		var x uint64
		chasing := func() float64 {
			start := time.Now()
			x = r.chase(2000, x) // so long that the other one has parked
			return float64(time.Since(start))
		}
		total := 0.0
		for n := range int64(cycles) {
			chasing()
			start := time.Now()
			gate <- struct{}{}
			for answer.Load() == n {
			}
			total += float64(time.Since(start))
		}
		close(gate)
		v = append(v, total/cycles)
	}
	return measure.Of(v)
}

// simulate runs a micro-benchmark on two virtual CPUs, or one, and returns ns per
// operation. ns is what its work takes.
func (m *micro) simulate(p machine.Params, ns float64) float64 {
	v := machine.New(p, m.threads, 2, 1)
	words := make([]byte, 512)
	at := uintptr(unsafe.Pointer(&words[0])) // only as a number
	ops := 0
	var lock uint32
	for i, c := range v.CPUs {
		c.Start(float64(i)*7, func(c *machine.CPU) {
			for {
				c.Work(ns)
				c.Sync()
				switch m.kind {
				case "own":
					c.Add(at + uintptr(c.ID)*128)
				case "shared":
					c.Add(at)
				case "mutex":
					if lock == 0 {
						lock = c.NewLock(at)
					}
					c.Lock(lock)
					c.Store(at+128, 8, 1)
					c.Unlock(lock)
				}
				ops++
			}
		})
	}
	const end = 400_000
	v.Run(end)
	return end * float64(m.threads) / float64(ops)
}
