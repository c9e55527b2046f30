package reasm

import "sync/atomic"

// What is learned of a source, or of all, is shares of 1<<16, sizes in sixteenths
// of a fragment, and times in nanoseconds. Each moves towards what it sees by a
// fixed part of the difference, rounded so that it comes to rest: a word that all
// lanes read is written only when it changes.
const (
	half        = 1 << 15
	whole       = 1<<16 - 1
	sizeUnit    = 16 // of a fragment
	sizeClasses = 4  // of datagrams: < 4, < 10, < 24 fragments, and the rest
	tellsPeer   = 4  // a source's record moves by 1/16 of a difference
	tellsWorld  = 6  // that of all by 1/64
	tellsSize   = 3  // a source's size by 1/8
)

// worthWorld is what is known of sources in general. Any lane reads and writes it;
// an update may be lost when two lanes make it at once, and what is left is as
// good an estimate.
type worthWorld struct {
	success atomic.Uint64 // packed: of unknown sources, by size class
	gap     atomic.Int64  // longest gap in a completed datagram; 0 until there was one
	holes   atomic.Uint64 // packed: share of completed datagrams that had a hole once
	size    atomic.Int64  // in 1/256 fragments
}

func (w *worthWorld) init() {
	w.success.Store(everyClass(3 * whole / 10))
	w.size.Store(8 << 8)
	w.holes.Store(everyClass(whole / 10))
}

// usualGap is the gap; until there was one, what is as good as a guess.
func (w *worthWorld) usualGap(turnover int64) int64 {
	if gap := w.gap.Load(); gap > 0 {
		return gap
	}
	return turnover * 5 / 8
}

// typicalSize is the size in units.
func (w *worthWorld) typicalSize() int64 { return w.size.Load() >> 4 }

// everyClass is the same share for all size classes.
func everyClass(share uint64) uint64 { return share * 0x0001_0001_0001_0001 }

func inClass(packed uint64, class uint) uint64 { return packed >> (16 * class) & whole }

// praise raises the share of a size class, by 1/2^tells of what it lacks.
func praise(packed *atomic.Uint64, class, tells uint) {
	old := packed.Load()
	if more := (whole - inClass(old, class)) >> tells; more > 0 {
		packed.Store(old + more<<(16*class))
	}
}

// blame lowers it, by 1/2^tells of what it is, times how, of 1<<16.
func blame(packed *atomic.Uint64, class, tells uint, how uint64) {
	old := packed.Load()
	if less := inClass(old, class) * how >> (16 + tells); less > 0 {
		packed.Store(old - less<<(16*class))
	}
}

// note is praise if something was seen, and else blame.
func note(packed *atomic.Uint64, class, tells uint, seen bool) {
	if seen {
		praise(packed, class, tells)
	} else {
		blame(packed, class, tells, 1<<16)
	}
}

// approach moves a number towards another by 1/2^tells of the difference.
func approach(from, to int64, tells uint) int64 { return from + (to-from)>>tells }

// follow is approach for a word that many read.
func follow(w *atomic.Int64, to int64, tells uint) {
	old := w.Load()
	if now := approach(old, to, tells); now != old {
		w.Store(now)
	}
}

// sizeClass is the class of a size in units.
func sizeClass(size int64) uint {
	switch {
	case size < 4*sizeUnit:
		return 0
	case size < 10*sizeUnit:
		return 1
	case size < 24*sizeUnit:
		return 2
	}
	return 3
}

// learn puts what a complete datagram showed into the records. e is its source's;
// if that is nil it gets one, unless it shall stay unknown.
func (s *worthState) learn(e *worthPeer, mayInsert bool, seen *seen, random uint64) {
	w := &s.world
	if e == nil {
		praise(&w.success, seen.class, tellsWorld)
	}
	if e == nil && mayInsert {
		if e = s.peers.find(seen.source); e == nil {
			e = s.peers.insert(seen.source, random, w)
		}
	}
	if e != nil {
		e.learn(seen)
	}
	tells := uint(tellsWorld)
	gap := w.usualGap(seen.turnover)
	if seen.gap > gap {
		tells = tellsPeer
	}
	if now := max(approach(gap, seen.gap, tells), 1); now != w.gap.Load() {
		w.gap.Store(now)
	}
	follow(&w.size, seen.fragments<<8, tellsWorld)
	note(&w.holes, seen.class, tellsWorld, seen.hole)
}

// seen is what a complete datagram showed.
type seen struct {
	source    uint64 // its source's tag
	class     uint   // it was taken to be of
	fragments int64
	gap       int64 // the longest
	hole      bool  // once
	turnover  int64 // ns
}

func (e *worthPeer) learn(seen *seen) {
	old, gap, size, score := e.record.Load(), e.gap.Load(), e.size(), e.score()
	if score == 0 { // it is new
		size, gap = seen.fragments*sizeUnit, seen.gap
	}
	praise(&e.success, seen.class, tellsPeer)
	// A decaying maximum: a mean is that of small datagrams.
	if now := max(seen.gap, gap-gap>>6); now != e.gap.Load() {
		e.gap.Store(now)
	}
	note(&e.holes, seen.class, tellsPeer, seen.hole)
	size = approach(size, seen.fragments*sizeUnit, tellsSize)
	if now := uint64(size)<<16 | min(score+1, bestScore); now != old {
		e.record.Store(now)
	}
}
