package study

import (
	"math"
	"math/rand/v2"

	"corelane/bench/scenario"
)

// source names the host that a sender, or one datagram of a flood, speaks from.
type source func(i int, r *rand.Rand) uint32

// host is good host i.
func host(i int) uint32 { return 10<<24 + uint32(i) }

func from(h uint32) source { return func(int, *rand.Rand) uint32 { return h } }

// each gives every sender, or datagram, one of n hosts in turn.
func each(first uint32, n int) source {
	return func(i int, _ *rand.Rand) uint32 { return first + uint32(i%n) }
}

// anywhere draws from 128.0.0.0/1, where nobody is good.
func anywhere(_ int, r *rand.Rand) uint32 { return r.Uint32() | 1<<31 }

// streams are senders that fill one link together, each with datagram after
// datagram: the link carries a burst of one, then a burst of another, drawn at
// random. A burst ends with its datagram. They are in full swing at the start:
// each is inside a datagram whose beginning nobody saw.
type streams struct {
	n      int
	from   source
	group  uint8
	size   func(*rand.Rand) int // of a datagram, in fragments
	claim  func(n int) int      // what its first fragment says; nil is the truth
	burst  int
	rate   float64 // bit/s of the link, 1500 bytes a packet
	start  int64
	end    int64
	stopAt int64 // if not 0: from then on only the first keep go on, at the same rate
	keep   int

	loss      scenario.Loss
	jitter    int64   // each packet is late by a random time below it
	duplicate float64 // share of packets that arrive twice, up to max(jitter, 100 µs) later
	order     []int   // in which a datagram's fragments are sent; nil is in order
}

func packets(n int) func(*rand.Rand) int { return func(*rand.Rand) int { return n } }

// heavyTail is a Pareto distribution with exponent 1.1 from 2 on, cut at 44:
// many are small, and most fragments are of large ones.
func heavyTail(r *rand.Rand) int {
	return int(min(max(2*math.Pow(1-r.Float64(), -1/1.1), 2), 44))
}

const wireBytes = 1500

func (s streams) add(t *Traffic) {
	r := t.piece()
	type stream struct {
		dgram     uint32
		next, all int
	}
	all := make([]stream, s.n)
	open := func(i int) {
		n := s.size(r)
		claim := n
		if s.claim != nil {
			claim = s.claim(n)
		}
		all[i] = stream{dgram: t.claim(s.from(i, r), n, claim, s.group), all: n}
	}
	for i := range all {
		open(i)
		all[i].next = r.IntN(all[i].all)
	}
	gap, at := wireBytes*8e9/s.rate, float64(s.start)
	for active := s.n; int64(at) < s.end; {
		if s.stopAt > 0 && int64(at) >= s.stopAt {
			active = s.keep
		}
		i := r.IntN(active)
		x := &all[i]
		for range s.burst {
			s.put(t, r, int64(at), x.dgram, x.next)
			at += gap
			if x.next++; x.next == x.all {
				open(i)
				break
			}
		}
	}
}

// put sends one fragment on its way.
func (s *streams) put(t *Traffic, r *rand.Rand, at int64, dgram uint32, frag int) {
	if s.order != nil {
		frag = s.order[frag]
	}
	if s.loss != nil && s.loss(r) {
		return
	}
	if s.jitter > 0 {
		at += r.Int64N(s.jitter)
	}
	t.send(at, dgram, frag)
	if s.duplicate > 0 && r.Float64() < s.duplicate {
		t.send(at+r.Int64N(max(s.jitter, 100_000)), dgram, frag)
	}
}

// paced is one sender on a slow link: packet after packet, in order, with the
// same time between them.
type paced struct {
	from  uint32
	group uint8
	frags int
	claim int // 0 is the truth
	gap   int64
	start int64
	end   int64
}

// slowGap is the time of 1500 bytes at 512 kbit/s (mail 002).
const slowGap = 1500 * 8 * second / 512_000

func (s paced) add(t *Traffic) {
	t.piece()
	for at := s.start; at < s.end; {
		claim := s.claim
		if claim == 0 {
			claim = s.frags
		}
		d := t.claim(s.from, s.frags, claim, s.group)
		for i := range s.frags {
			if at < s.end {
				t.send(at, d, i)
			}
			at += s.gap
		}
	}
}
