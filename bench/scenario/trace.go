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
	// possible[dgram] is the earliest time at which every fragment of it has
	// arrived, never if some fragment does not.
	possible []int64
	// last[slot[dgram]+frag] is the last event that brings a fragment of a
	// datagram that is possible.
	slot []uint32
	last []int32
	end  int64 // time of the last event
}

const never = math.MaxInt64

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
		events: m.events, dgrams: m.dgrams,
		possible: make([]int64, len(m.dgrams)), slot: make([]uint32, len(m.dgrams)),
	}
	for d := range t.possible {
		t.possible[d] = never
	}
	arrived := make([]uint64, len(m.dgrams)) // bit f: fragment f
	slots := uint32(0)
	for i := range t.events {
		e := &t.events[i]
		had := arrived[e.dgram]
		arrived[e.dgram] |= 1 << e.frag
		n := t.dgrams[e.dgram].frags()
		if all := uint64(1)<<n - 1; arrived[e.dgram] == all && had != all {
			t.possible[e.dgram] = e.at
			t.slot[e.dgram] = slots
			slots += uint32(n)
		}
	}
	t.last = make([]int32, slots)
	for i := range t.events {
		if e := &t.events[i]; t.possible[e.dgram] != never {
			t.last[t.slot[e.dgram]+uint32(e.frag)] = int32(i)
		}
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
