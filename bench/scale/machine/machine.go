// Package machine is a computer that does not exist: up to 128 CPUs that share
// cache lines and locks, in virtual time.
//
// What runs on it is real code. Each virtual CPU is a coroutine; one of them runs
// at any moment, always the one whose clock is furthest behind. The code says what
// memory it touches (package smp says it, put there by package overlay), and the
// machine moves the CPU's clock by what that costs: nothing to speak of for a line
// the CPU holds, a transfer for one that another CPU wrote, and a place in the
// queue for one that others want too.
//
// A line has an owner and sharers, as in any invalidation protocol, and serves one
// transfer at a time. That is all there is; queues at a hot word, and the collapse
// of a lock, come out of it.
//
// Same parameters, same seed, same code: same figures, to the last bit.
package machine

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"runtime/debug"
)

// MaxCPUs is how many CPUs a line can remember as its sharers.
const MaxCPUs = 128

// Machine is the computer. One goroutine uses it.
type Machine struct {
	P    Params
	CPUs []*CPU

	// Sites counts what happened, by the place in the code that touched the line.
	Sites []Site

	ready queue
	rng   *rand.Rand
	end   float64
	clock float64
	over  bool // stopping: what unwinds costs nothing
	lines lines
	locks []*Lock
}

// Site is what one place in the code did.
type Site struct {
	Hits      int64   // the CPU held the line
	Transfers int64   // another CPU had it
	Stall     float64 // time lost to these transfers, queueing included
	Waits     int64   // lock acquisitions that had to wait
	Waited    float64 // and how long
}

// New makes a machine.
func New(p Params, cpus, sites int, seed uint64) *Machine {
	if cpus < 1 || cpus > MaxCPUs {
		panic("machine: 1 to 128 CPUs")
	}
	m := &Machine{
		P: p, Sites: make([]Site, sites), rng: rand.New(rand.NewPCG(seed, 0x6d616368)),
		locks: make([]*Lock, 1),
	}
	m.lines.init()
	for i := range cpus {
		m.CPUs = append(m.CPUs, &CPU{ID: i, m: m})
	}
	return m
}

// Current is the CPU that runs, nil outside of Run.
var Current *CPU

// CPU is a virtual processor.
type CPU struct {
	ID  int
	Now float64 // its clock, in nanoseconds

	m      *Machine
	seq    uint64  // breaks ties between equal clocks
	after  float64 // no line can be asked for before this: the address was not known yet
	drain  float64 // when the last store that still waits for its line is done
	miss   float64 // when the last load that missed was done,
	lag    float64 // and how long it took
	parked bool    // in a Cond
	yield  func(struct{}) bool
	next   func() (struct{}, bool)
	stop   func()

	// The coroutine's stack: what lies there is private.
	stackLo, stackHi uintptr
	recent           [recentLines]recent
}

// stopped unwinds a coroutine at the end of Run.
type stopped struct{}

// Start lets a CPU run body from a time on, once Run is called.
func (c *CPU) Start(at float64, body func(*CPU)) {
	c.Now = at
	c.next, c.stop = iter.Pull(func(yield func(struct{}) bool) {
		defer func() {
			if r := recover(); r != nil {
				if _, ok := r.(stopped); !ok {
					// A coroutine's panic comes up without its stack.
					panic(fmt.Sprintf("machine: CPU %d: %v\n%s", c.ID, r, debug.Stack()))
				}
			}
		}()
		c.yield = yield
		c.stackLo, c.stackHi = growStack()
		body(c)
	})
	c.m.ready.push(c)
}

// Pause runs until no CPU's clock is before end, or none can go on. Run goes on
// from there.
func (m *Machine) Pause(end float64) {
	m.end = end
	for m.ready.len() > 0 {
		if c := m.ready.cpus[0]; c.Now > m.end {
			break
		}
		c := m.ready.pop()
		Current = c
		c.next()
	}
	m.clock = m.end
	Current = nil
}

// Run is Pause, and the end: what still runs is unwound, at no cost.
func (m *Machine) Run(end float64) {
	m.Pause(end)
	m.over = true
	for _, c := range m.CPUs {
		if c.stop != nil {
			Current = c
			c.stop()
		}
	}
	Current = nil
}

// Clock is the end of the last Pause or Run.
func (m *Machine) Clock() float64 { return m.clock }

// Work is time spent on what nobody shares.
func (c *CPU) Work(ns float64) { c.Now += ns }

// Sync lets every CPU that is behind catch up, so that what they did before this
// moment has happened.
func (c *CPU) Sync() {
	m := c.m
	if m.over {
		return
	}
	if m.ready.len() == 0 || c.Now < m.ready.cpus[0].Now {
		if c.Now <= m.end {
			return
		}
	}
	m.ready.push(c)
	c.pause()
}

// SleepUntil moves the clock forward.
func (c *CPU) SleepUntil(t float64) {
	c.Now = max(c.Now, t)
	c.Sync()
}

// pause gives up the processor until somebody puts the CPU on the ready queue.
func (c *CPU) pause() {
	if !c.yield(struct{}{}) {
		panic(stopped{})
	}
	Current = c
}

func (c *CPU) wake(at float64) {
	c.Now = at
	c.m.ready.push(c)
}

// Over reports whether the machine is stopping.
func (c *CPU) Over() bool { return c.m.over }

// Machine returns the machine the CPU is part of.
func (c *CPU) Machine() *Machine { return c.m }

// queue holds the CPUs that can go on, the one furthest behind on top.
type queue struct {
	cpus []*CPU
	seq  uint64
}

func (q *queue) len() int { return len(q.cpus) }

func before(a, b *CPU) bool { return a.Now < b.Now || a.Now == b.Now && a.seq < b.seq }

func (q *queue) push(c *CPU) {
	q.seq++
	c.seq = q.seq
	q.cpus = append(q.cpus, c)
	for i := len(q.cpus) - 1; i > 0; {
		up := (i - 1) / 2
		if !before(q.cpus[i], q.cpus[up]) {
			break
		}
		q.cpus[i], q.cpus[up] = q.cpus[up], q.cpus[i]
		i = up
	}
}

func (q *queue) pop() *CPU {
	top := q.cpus[0]
	n := len(q.cpus) - 1
	q.cpus[0] = q.cpus[n]
	q.cpus = q.cpus[:n]
	for i := 0; ; {
		down := 2*i + 1
		if down >= n {
			break
		}
		if down+1 < n && before(q.cpus[down+1], q.cpus[down]) {
			down++
		}
		if !before(q.cpus[down], q.cpus[i]) {
			break
		}
		q.cpus[i], q.cpus[down] = q.cpus[down], q.cpus[i]
		i = down
	}
	return top
}

// Forever is an end that is never reached.
var Forever = math.Inf(1)
