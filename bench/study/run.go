package study

import (
	"context"
	"fmt"
	"math/rand/v2"

	"corelane/reasm"
)

// Options say how a design is run.
type Options struct {
	Design string
	// Lanes is how many virtual CPUs there are; 0 is 1.
	Lanes int
	Steer Steering
	Seed  uint64
}

// Steering says on which lane a packet arrives.
type Steering uint8

const (
	// BySource is what cards do with fragments: source and destination.
	BySource Steering = iota
	// ByKey keeps a datagram on one lane.
	ByKey
	// ByPacket scatters packets.
	ByPacket
)

// run is one load with one design, on one goroutine.
type run struct {
	*trace
	load    *Load
	link    *link
	cache   reasm.Cache
	buffers buffers
	outcome *Outcome

	now      int64
	nextStep int64 // when the cache is stepped again

	charges int64 // upper estimate of what is charged
}

// stepEvery is how often the cache is stepped: about as often as a kernel runs a
// worker that has rescheduled itself.
const (
	stepEvery  = 30_000 // nanoseconds
	stepBudget = 1024   // as in reasm.Run
)

// simulate runs a trace through one design.
func simulate(ctx context.Context, t *trace, l *Load, o Options) (*Outcome, error) {
	r := &run{trace: t, load: l, link: l.link, outcome: newOutcome(t, l)}
	var err error
	if r.cache, err = reasm.New(o.Design, r.config(o)); err != nil {
		return nil, err
	}
	lanes := make([]reasm.Lane, max(o.Lanes, 1))
	for i := range lanes {
		lanes[i] = r.cache.Lane(i)
	}
	var f reasm.Fragment
	for i := range t.events {
		if i%4096 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		e := &t.events[i]
		d := &t.dgrams[e.dgram]
		r.advance(e.at)
		b := r.buffers.build(r.link, t, e)
		if v := r.link.parse(b, d, &f); v != reasm.Held {
			return nil, fmt.Errorf("study: built a packet that is %v", v)
		}
		f.Ref = uint64(i)
		lane := 0
		if len(lanes) > 1 {
			lane = o.Steer.lane(d, i, len(lanes))
		}
		r.take(lanes[lane], &f)
	}
	r.outcome.Stats = r.cache.Stats()
	if err := r.cache.Close(); err != nil {
		return nil, err
	}
	if s := r.cache.Stats(); s.Bytes != 0 || s.Queues != 0 || r.buffers.out != 0 {
		return nil, fmt.Errorf("study: after Close %d bytes are charged, %d queues held, %d packets missing",
			s.Bytes, s.Queues, r.buffers.out)
	}
	return r.outcome, nil
}

func (s Steering) lane(d *datagram, event, n int) int {
	var h uint64
	switch s {
	case BySource:
		h = mix(uint64(d.src))
	case ByKey:
		h = mix(uint64(d.key))
	case ByPacket:
		h = mix(uint64(event))
	}
	return int(h % uint64(n))
}

// config is what every design is given.
func (r *run) config(o Options) reasm.Config {
	c := reasm.DefaultConfig()
	c.Lanes = max(o.Lanes, 1)
	c.Limits = reasm.Limits{High: r.load.budget, Low: r.load.budget / 4 * 3}
	if o.Design == "percpu-lru" {
		// Its lanes may hold half of High each; here all lanes together get High.
		c.Limits.High = c.Limits.High * 2 / int64(c.Lanes)
		c.Limits.Low = c.Limits.Low * 2 / int64(c.Lanes)
	}
	c.Mode = reasm.Borrow
	charge := r.link.charge
	c.Charge = reasm.Charge{
		Queue:    func(*reasm.Fragment) int64 { return charge.Queue },
		Fragment: func(*reasm.Fragment) int64 { return charge.Fragment },
	}
	seed := mix(o.Seed)
	c.Hash = func(k *reasm.Key) uint64 {
		h := mix(seed ^ k.SrcLo<<32 ^ k.DstLo ^ k.SrcHi*31 ^ k.DstHi)
		return mix(h ^ uint64(k.ID())<<8 ^ uint64(k.Proto()))
	}
	c.Rand = rand.New(rand.NewPCG(o.Seed, 0x72616e64)).Uint64
	c.Free = r.free
	return c
}

// mix is the finalizer of splitmix64 (Steele, Lea, Flood 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// advance moves the clock, and steps the cache as often as somebody would who has
// nothing else to do. While nothing arrives and no work is left, it jumps.
func (r *run) advance(to int64) {
	for r.nextStep <= to {
		r.now = r.nextStep
		if r.cache.Step(r.now, stepBudget) {
			r.nextStep += stepEvery
			continue
		}
		r.nextStep = to - to%stepEvery + stepEvery
		if r.now < to-to%stepEvery {
			r.now = to
			r.cache.Step(r.now, stepBudget) // what fell due in the silence
		}
	}
	r.now = to
}

// take gives one fragment to the cache, and notes what comes of it.
func (r *run) take(lane reasm.Lane, f *reasm.Fragment) {
	res := lane.Add(r.now, f)
	if res.Verdict.Kept() {
		r.buffers.out++
		r.charges += r.link.charge.Queue + r.link.charge.Fragment
	} else {
		r.buffers.back(f.Packet)
	}
	if r.charges > r.outcome.Peak {
		r.charges = r.cache.Stats().Bytes
		r.outcome.Peak = max(r.outcome.Peak, r.charges)
	}
	if res.Datagram == nil {
		return
	}
	if d, ok := r.link.intact(r.trace, res.Datagram); ok {
		r.outcome.complete(r.trace, r.now, d)
	} else {
		r.outcome.Spliced++
	}
	res.Datagram.Release()
}

// free is Config.Free.
func (r *run) free(held []reasm.Buffer) {
	for _, b := range held {
		r.buffers.back(b.Packet)
	}
	r.buffers.out -= len(held)
}

// FindSteering returns the steering with that name: source, key or packet.
func FindSteering(name string) (Steering, error) {
	for i, n := range []string{"source", "key", "packet"} {
		if n == name {
			return Steering(i), nil
		}
	}
	return 0, fmt.Errorf("no steering is called %q (there are: source, key, packet)", name)
}
