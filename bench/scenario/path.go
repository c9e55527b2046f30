package scenario

import "math/rand/v2"

// Path is what happens to packets between sender and receiver. The zero Path
// delivers everything in order.
type Path struct {
	Loss Loss
	// Jitter delays each packet by a random time below it, in nanoseconds, so
	// that packets less than that apart may change places.
	Jitter int64
	// Duplicate is the probability that a packet arrives twice; the copy comes
	// up to max(Jitter, 100 µs) later.
	Duplicate float64
}

// Loss decides which packets are lost. Nil loses none.
type Loss func(*rand.Rand) bool

// Bernoulli loses each packet with probability p, independently.
func Bernoulli(p float64) Loss {
	return func(r *rand.Rand) bool { return r.Float64() < p }
}

// GilbertElliott loses packets in bursts: the path is good or bad, changes from
// good to bad with probability toBad and back with toGood at each packet, and
// loses packets with probability lossGood or lossBad (Gilbert 1960, Elliott
// 1963). It has a state: each piece of traffic needs its own.
//
// The mean loss is (toGood*lossGood + toBad*lossBad) / (toGood + toBad).
func GilbertElliott(toBad, toGood, lossGood, lossBad float64) Loss {
	bad := false
	return func(r *rand.Rand) bool {
		change, lost := toBad, lossGood
		if bad {
			change = toGood
		}
		if r.Float64() < change {
			bad = !bad
		}
		if bad {
			lost = lossBad
		}
		return r.Float64() < lost
	}
}

// draw decides the fate of one packet: lost, or late by some time, and perhaps
// followed by a copy so much later.
func (p *Path) draw(r *rand.Rand) (lost bool, late, again int64) {
	if p.Loss != nil && p.Loss(r) {
		return true, 0, 0
	}
	if p.Jitter > 0 {
		late = r.Int64N(p.Jitter)
	}
	if p.Duplicate > 0 && r.Float64() < p.Duplicate {
		again = 1 + r.Int64N(max(p.Jitter, 100_000))
	}
	return false, late, again
}
