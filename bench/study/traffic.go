package study

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"corelane/bench/scenario"
)

// Traffic is a load in the making: pieces add to it, each with random numbers of
// its own.
type Traffic struct {
	seed   uint64
	pieces uint64
	events []event
	dgrams []datagram
}

// event is one packet that arrives.
type event struct {
	at    int64  // nanoseconds
	dgram uint32 // index of its datagram
	frag  uint8  // which fragment of it
}

// datagram is what one sender wanted to get across.
type datagram struct {
	src   uint32
	key   uint32 // index of the datagram whose name it bears: its own, but for attackers
	frags uint8  // 63 at most
	claim uint8  // fragments that its UDP header speaks of; silent is no UDP
	group uint8
}

const (
	// Groups below uncounted are good, and are what a run is judged by.
	uncounted = 8
	// bystander is good traffic that is not what the scenario asks about.
	bystander = 254
	// noise is what nobody wants to arrive.
	noise = 255

	silent = 255 // claim: the datagram is no UDP
)

// piece starts the next piece, with random numbers of its own.
func (t *Traffic) piece() *rand.Rand {
	t.pieces++
	return rand.New(rand.NewPCG(t.seed, t.pieces))
}

// open adds a datagram that speaks the truth about its size.
func (t *Traffic) open(src uint32, frags int, group uint8) uint32 {
	return t.claim(src, frags, frags, group)
}

// claim adds a datagram whose first fragment speaks of another size.
func (t *Traffic) claim(src uint32, frags, claim int, group uint8) uint32 {
	d := uint32(len(t.dgrams))
	t.dgrams = append(t.dgrams, datagram{src: src, key: d, frags: uint8(frags), claim: uint8(claim), group: group})
	return d
}

func (t *Traffic) send(at int64, dgram uint32, frag int) {
	t.events = append(t.events, event{at, dgram, uint8(frag)})
}

// trace is finished traffic, in order, with what it makes possible. It is
// immutable.
type trace struct {
	events   []event
	dgrams   []datagram
	possible []int64 // when every fragment of a datagram has arrived; never if some do not
	end      int64
}

const never = math.MaxInt64

func (t *Traffic) trace() *trace {
	slices.SortStableFunc(t.events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	tr := &trace{events: t.events, dgrams: t.dgrams, possible: make([]int64, len(t.dgrams))}
	arrived := make([]uint64, len(t.dgrams))
	for i := range tr.possible {
		tr.possible[i] = never
	}
	for _, e := range tr.events {
		had, all := arrived[e.dgram], uint64(1)<<t.dgrams[e.dgram].frags-1
		arrived[e.dgram] |= 1 << e.frag
		if arrived[e.dgram] == all && had != all {
			tr.possible[e.dgram] = e.at
		}
	}
	if n := len(tr.events); n > 0 {
		tr.end = tr.events[n-1].at
	}
	return tr
}

// counts reports whether a run is judged by datagram d, from a time on.
func (t *trace) counts(d uint32, from int64) bool {
	return t.dgrams[d].group < uncounted && t.possible[d] != never && t.possible[d] >= from
}

// ceiling is the bound for a memory, in fragments of completed datagrams.
func (t *trace) ceiling(charge scenario.Charge, memory, from int64) *scenario.Ceiling {
	var (
		number   = make(map[uint32]uint32) // of the good datagrams, among themselves
		frags    []int
		value    []float64
		arrivals []scenario.Arrival
	)
	for _, e := range t.events {
		if !t.counts(e.dgram, from) {
			continue
		}
		n, ok := number[e.dgram]
		if !ok {
			n = uint32(len(frags))
			number[e.dgram] = n
			frags = append(frags, int(t.dgrams[e.dgram].frags))
			value = append(value, float64(t.dgrams[e.dgram].frags))
		}
		arrivals = append(arrivals, scenario.Arrival{At: e.at, Datagram: n, Fragment: uint16(e.frag)})
	}
	return scenario.NewCeiling(arrivals, frags, value, charge, memory, from)
}
