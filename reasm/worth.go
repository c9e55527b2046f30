package reasm

import (
	"math"
	"math/bits"
)

// What a queue is worth: the chance that it completes, times what completing it
// brings, over the memory and time that still takes; less if its source has more
// than its share, and next to nothing if it has been idle for longer than its
// source ever was, or has a hole though its source never reorders.
//
// The constants were chosen by measurement, in a study of 40 scenarios; none of
// them assumes a rate.
const (
	worthSamples = 16    // 4 miss junk, 32 bring little
	overdueAfter = 4     // times the longest gap known
	overdue      = 0.001 // junk, the most idle first
	bestJunk     = 0.01  // a lottery seat: junk, but the best of it
	newcomer     = 0.009 // an unknown newcomer may displace junk only
	leastChance  = 0.01  // of completing, whatever the record
	mostUnknown  = 0.5   // chance of an unknown source, at most
	leastHole    = 0.01  // of a queue with a hole, whatever the record
	doomedFirst  = 0.1   // share of reordered datagrams above which a doomed first fragment stays out
	bonusKnown   = 8     // at most, for a known source far below its share
	floorTime    = 1e9   // ns that an unknown queue may use the floor
	firstSeat    = 1e6   // ns; seats last this, or twice, four times ... 512 times it
	seatOctaves  = 9     // each holds half as many as the one before, for twice as long
	exactBelow   = 3     // fragments; from there on worth is rounded up to a power of two
	liedBy       = 44    // fragments more than it has, for a first fragment that lied
	sizeClasses  = 4     // of datagrams: < 4, < 10, < 24 fragments, and the rest
)

// learned is what the policy knows of sources in general.
type learned struct {
	success    [sizeClasses]float64 // of unknown sources, by size class
	gap        float64              // longest gap in a completed datagram, ns
	size       float64              // fragments
	reordering float64              // share of datagrams that had a hole once
}

func newLearned() learned {
	return learned{success: [sizeClasses]float64{0.3, 0.3, 0.3, 0.3}, gap: 1e6, size: 8, reordering: 0.1}
}

// floor is how many bytes the unknown may hold, of any worth: the only way for a
// new source to get known when memory is full of live queues.
func (d *worth) floor() int64 { return d.c.limits.high.Load() / 32 }

// patience is how long a queue may be idle before it counts as overdue.
func (d *worth) patience(v *worthView) float64 {
	gap := d.s.world.gap
	if e := v.known(); e != nil {
		gap = e.gap
	}
	return overdueAfter * max(gap, float64(v.maxGap), 1)
}

// size is how many fragments the datagram has, by announcement or by record.
func (d *worth) size(v *worthView) float64 {
	if v.hint > 0 {
		return float64(v.hint)
	}
	if e := v.known(); e != nil {
		return e.size
	}
	return d.s.world.size
}

func sizeClass(n float64) int {
	switch {
	case n < 4:
		return 0
	case n < 10:
		return 1
	case n < 24:
		return 2
	}
	return 3
}

func (d *worth) worth(v *worthView, now int64) float64 {
	w := d.exactWorth(v, now)
	if v.k < exactBelow {
		return w
	}
	// Up to a power of two: inside an octave the choice is random. Ranked exactly,
	// a whole cohort of datagrams would be given up at once, in waves.
	const mantissa = 1<<52 - 1
	return math.Float64frombits((math.Float64bits(w) + mantissa) &^ mantissa)
}

func (d *worth) exactWorth(v *worthView, now int64) float64 {
	var (
		world = &d.s.world
		e     = v.known()
		k     = max(float64(v.k), 1)
		n     = d.size(v)
		class = sizeClass(n)
		high  = float64(d.c.limits.high.Load())
		idle  = float64(now - v.last)
	)
	if v.hint > 0 && v.k >= v.hint {
		n = k + liedBy
	}
	n = max(n, k+1)
	rest := n * float64(v.mem) / k // memory the whole datagram will take
	chance, reordering := min(world.success[class], mostUnknown), world.reordering
	if e != nil {
		chance, reordering = e.success[class], e.reordering
	}
	w := max(chance, leastChance) * 2 * n / ((n - k) * (n + k))
	if v.suspect {
		w *= max(reordering, leastHole)
	}
	share := high / float64(d.active+1)
	if e != nil {
		w *= min(share/(float64(e.mem-v.mem)+rest), bonusKnown)
	} else {
		w *= min(max(share, high/4)/(float64(d.unknown-v.mem)+rest), 1)
		if d.unknown <= d.floor() && now-v.created < floorTime {
			return max(w, 1)
		}
	}
	switch patience := d.patience(v); {
	case idle <= patience:
		if e != nil && v.k == 1 { // of new ones the older loses
			w *= 1 - idle/(2*patience)
		}
	case v.seat && v.k == 1 && idle < float64(v.seatFor):
		w *= bestJunk
	default:
		w *= overdue * (patience / idle) * (patience / idle)
	}
	return w
}

// blame lowers the record of a queue's source, for a queue given up; how says how
// surely it would not have completed, 0 to 1.
func (d *worth) blame(v *worthView, how float64) {
	class := sizeClass(d.size(v))
	if e := v.known(); e != nil {
		e.success[class] -= e.success[class] * how / 16
	} else {
		u := &d.s.world.success[class]
		*u -= *u * how / 64
	}
}

// learn takes a complete queue out of the lists, and what it shows into the
// records.
func (d *worth) learn(q *queue) {
	var (
		v     = &q.view
		world = &d.s.world
		class = sizeClass(d.size(v))
		gap   = float64(v.maxGap)
		n     = float64(q.fragments)
		hole  = 0.0
	)
	if v.everHole || !q.holes.contiguous() {
		hole = 1
	}
	e := v.known()
	d.drop(q)
	if e == nil {
		world.success[class] += (1 - world.success[class]) / 64
		if e = d.s.peers.find(q.key.peer(), q.cache.number, d.s); e == nil {
			e = d.s.peers.insert(q.key.peer(), q.cache.number, d)
		}
	}
	if e != nil {
		if e.score == 0 {
			e.gap, e.size = gap, n
		}
		e.score = min(e.score+1, bestScore)
		e.success[class] += (1 - e.success[class]) / 16
		e.gap = max(gap, e.gap*63/64) // a decaying maximum: a mean is that of small datagrams
		e.size += (n - e.size) / 8
		e.reordering += (hole - e.reordering) / 16
	}
	if gap > world.gap {
		world.gap += (gap - world.gap) / 16
	} else {
		world.gap += (gap - world.gap) / 64
	}
	world.size += (n - world.size) / 64
	world.reordering += (hole - world.reordering) / 64
}

// seatTime draws how long a lottery seat lasts: every octave of time holds the
// same memory, so a slow sender has the same chance as a fast one.
func seatTime(hash uint64) int64 {
	return firstSeat << min(bits.TrailingZeros64(^hash), seatOctaves)
}
