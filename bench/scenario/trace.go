package scenario

import (
	"cmp"
	"math"
	"slices"
)

// trace is a finished mix: what arrives, in order, and what that makes possible.
// It is immutable, and shared by the runs of a variant.
type trace struct {
	events []event
	dgrams []datagram
	// last[dgram.slot+frag] is the last event that brings the fragment, none if
	// it never arrives.
	last []int32
	// possible[dgram] is the earliest time at which every fragment of it has
	// arrived, never if some fragment does not.
	possible []int64
	end      int64 // time of the last event
}

const (
	none  = -1
	never = math.MaxInt64
)

// build makes the trace of a variant.
func (v *Variant) build(seed uint64) *trace {
	m := &Mix{seed: seed}
	v.Traffic(m)
	return m.trace()
}

func (m *Mix) trace() *trace {
	byTime := func(a, b event) int { return cmp.Compare(a.at, b.at) }
	if !slices.IsSortedFunc(m.events, byTime) {
		slices.SortStableFunc(m.events, byTime)
	}
	t := &trace{
		events:   m.events,
		dgrams:   m.dgrams,
		last:     make([]int32, m.slots),
		possible: make([]int64, len(m.dgrams)),
	}
	for i := range t.last {
		t.last[i] = none
	}
	arrived := make([]uint16, len(m.dgrams)) // different fragments so far
	for i := range t.possible {
		t.possible[i] = never
	}
	for i := range t.events {
		e := &t.events[i]
		at := &t.last[t.dgrams[e.dgram].slot+uint32(e.frag)]
		if *at == none {
			arrived[e.dgram]++
			if int(arrived[e.dgram]) == t.dgrams[e.dgram].frags() {
				t.possible[e.dgram] = e.at
			}
		}
		*at = int32(i)
	}
	if n := len(t.events); n > 0 {
		t.end = t.events[n-1].at
	}
	return t
}

// counts reports whether datagram d is one that a run from that time on is
// judged by: it is good, and can complete.
func (t *trace) counts(d int, from int64) bool {
	return t.dgrams[d].group != Noise && t.possible[d] != never && t.possible[d] >= from
}
