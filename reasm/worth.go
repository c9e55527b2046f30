package reasm

import "math/bits"

// What a queue is worth: the chance that it completes, times what completing it
// brings, over the memory and time that still takes; less if its source has more
// than its share, and next to nothing if it has been idle for longer than its
// source ever was, or has a hole though its source never reorders.
//
// The constants were chosen by measurement, in a study of 40 scenarios; none of
// them assumes a rate.
const (
	overdueAfter = 4              // times the longest gap known
	leastShare   = 656            // of 1<<16, 1 %: chance and reordering are at least that
	doomedFirst  = whole / 10     // share of reordered datagrams above which a doomed first fragment stays out
	mostBonus    = 3 * octave     // factor 8, at most, for a known source far below its share
	unknownPart  = 4              // the unknown together may have a quarter
	secondChance = 8              // one of so many is let in all the same
	floorPart    = 32             // a 32nd is theirs whatever it is worth
	floorTurns   = 10             // for 2^10 turnovers, each
	seatPart     = 16             // seats last a 16th of a turnover,
	seatOctaves  = 9              // or twice, four times ... 512 times that
	exactBelow   = 3              // fragments; from there on worth is rounded up to a power of two
	liedBy       = 44             // fragments more than it has, for a first fragment that lied
	tooMuch      = int64(1) << 62 // a worth above all
)

// candidate is a queue, or a newcomer, as it is judged.
type candidate struct {
	peer      *worthPeer // nil is unknown
	hash      uint64     // of its key
	fragments int64      // held
	hint      int64      // fragments its first one announced; 0 is none
	memory    int64      // charged
	counted   int64      // of that, in its source's books
	age, idle int64
	gap       int64 // longest between two of its fragments
	hole      bool
	seat      bool // it began with a first or a last fragment
}

// scene is what the candidates of one choice are judged in.
type scene struct {
	queues    int64  // in all lanes
	unknown   int64  // bytes that those of unknown sources are charged
	floor     int64  // bytes that they may have
	success   uint64 // of the unknown, packed
	holes     uint64 // packed
	gap, size int64
	off       parts

	turnover            int64 // ns
	share, unknownShare int64 // log2 of bytes
}

func newScene(w *worthWorld, high, queues, unknown, active, turnover int64, off parts) scene {
	high = max(high, 1)
	share := high / (max(active, 0) + 1)
	return scene{
		off: off, queues: queues, turnover: turnover, unknown: unknown, floor: high / floorPart,
		success: w.success.Load(), gap: w.usualGap(turnover), size: w.typicalSize(), holes: w.holes.Load(),
		share: log2(uint64(max(share, 1))), unknownShare: log2(uint64(max(share, high/unknownPart, 1))),
	}
}

// expected is how large a datagram will be, by announcement or by record.
func expected(e *worthPeer, hint, typical int64) int64 {
	if hint > 0 {
		return hint * sizeUnit
	}
	if e != nil {
		return e.size()
	}
	return typical
}

// patience is how long a candidate may be idle before it counts as overdue.
func (s *scene) patience(c *candidate) int64 {
	gap := s.gap
	if c.peer != nil {
		gap = c.peer.gap.Load()
	}
	return overdueAfter * max(gap, c.gap, 1)
}

// worth is log2 of what a candidate is worth; see octave.
func (s *scene) worth(c *candidate) int64 {
	w := s.exactWorth(c)
	if c.fragments < exactBelow || s.off.off(withoutOctaves) {
		return w
	}
	// Inside an octave the choice is random. Ranked exactly, a whole cohort of
	// datagrams would be given up at once, in waves.
	return (w + octave - 1) &^ (octave - 1)
}

func (s *scene) exactWorth(c *candidate) int64 {
	var (
		size        = expected(c.peer, c.hint, s.size)
		class       = s.off.class(size)
		held        = max(c.fragments, 1) * sizeUnit
		chance      = min(inClass(s.success, class), half)
		reordering  = inClass(s.holes, class)
		share, most = s.unknownShare, int64(0)
		others      = s.unknown
		patience    = s.patience(c)
	)
	if c.peer != nil {
		chance = inClass(c.peer.success.Load(), class)
		reordering = inClass(c.peer.holes.Load(), class)
		share, most, others = s.share, mostBonus, c.peer.memory.Load()
	}
	if c.hint > 0 && c.fragments >= c.hint {
		size = held + liedBy*sizeUnit
	}
	size = max(size, held+sizeUnit)
	// The chance, times 2n / (n-k)(n+k) for k fragments of n.
	w := log2(max(chance, leastShare)) - 16*octave
	if !s.off.off(withoutValue) {
		w += log2(2*sizeUnit) + log2(uint64(size)) - log2(uint64(size-held)) - log2(uint64(size+held))
	}
	if c.hole && !s.off.off(withoutHole) {
		w += log2(max(reordering, leastShare)) - 16*octave
	}
	// The share, over what the source has besides and what this will take.
	if !s.off.off(withoutShare) {
		uses := others - c.counted + mulDiv(size, c.memory, held)
		w += min(share-log2(uint64(max(uses, 1))), most)
	}
	if c.peer == nil && s.unknown <= s.floor && c.age>>floorTurns < s.turnover && !s.off.off(withoutFloor) {
		return max(w, 0)
	}
	switch {
	case s.off.off(withoutIdle):
	case c.idle <= patience:
		if c.peer != nil && c.fragments == 1 && !s.off.off(withoutTie) { // of new ones the older loses
			w += log2(uint64(2*patience-c.idle)) - log2(uint64(2*patience))
		}
	case c.seat && !s.off.off(withoutSeats) && c.fragments == 1 && c.idle>>seatOctave(c.hash) < s.turnover/seatPart:
		w += log100th // junk, but the best of it
	default: // junk, the most idle first
		w += log1000th + 2*(log2(uint64(patience))-log2(uint64(c.idle)))
	}
	return w
}

// newcomerWorth is worth for a fragment that has no queue: of an unknown source it
// may displace junk only, once these have what the floor grants them.
func (s *scene) newcomerWorth(c *candidate) int64 {
	w := s.worth(c)
	if c.peer == nil && s.unknown+c.memory > s.floor && !s.off.off(withoutJunk) {
		w += log9in1K
	}
	return w
}

// guilt says how surely a candidate that was given up would not have completed,
// 0 to 1<<16.
func (s *scene) guilt(c *candidate) uint64 {
	patience := s.patience(c)
	if c.idle >= patience {
		return 1 << 16
	}
	idle := uint64(mulDiv(max(c.idle, 0), 1<<16, patience))
	return idle * idle >> 16
}

// mulDiv is a*b/c, or tooMuch if that is too much; for numbers that are not negative.
func mulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi != 0 {
		return tooMuch
	}
	return int64(min(lo/uint64(c), uint64(tooMuch)))
}

// seatOctave says for how long a lottery seat lasts: a 16th of a turnover times two
// to the power of it. Every octave of time holds the same memory, so a slow sender has
// the same chance as a fast one.
func seatOctave(hash uint64) int { return min(bits.TrailingZeros64(^hash), seatOctaves) }
