package percpu

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"corelane/internal/yield"
)

// Snapshot is a fixed number of counters that can be read, or drained, at one
// instant: a reader never sees the packets of a moment with the bytes of another,
// and never a total that was not the total at some time.
//
// Make one with NewSnapshot. A Snapshot must not be copied; all methods may be
// called at any time by anyone. A counter costs 16 bytes per lane in use, rounded
// up to 128 together. C1, C5, C6 and C8 apply.
//
// # How
//
// Every counter has two words on each lane, and gen says which one is hot:
//
//	gen     2g      2g+1       2(g+1)     2(g+1)+1
//	hot     g&1     g&1        (g+1)&1    (g+1)&1
//	reader  -       reads the  reads the  ...
//	                cold       word that
//	                words      was hot
//
// A writer loads gen, adds to the hot word, and loads gen again. A reader sets
// the low bit, reads the cold words, moves to the next generation (the instant of
// the snapshot), and reads the words that were hot until then. The sum is right
// if everything it includes began before that instant, and everything it misses
// ended after:
//
//   - a writer that sees the same generation twice has added to a hot word before
//     the instant, and the reader reads it after: included;
//   - a writer of generation g that adds to its word after the instant is included
//     or not; it began before and ends after, so either is right;
//   - a writer so late that its word was cold when it added sees another
//     generation afterwards. CROSSED percpu.snapshot: it adds and then loads gen;
//     the reader sets the low bit and then reads the cold words. So either the
//     reader saw the add, or the writer sees the bit, and it waits for the instant
//     before it returns.
//
// Only such writers ever wait, and only for a reader between two steps.
type Snapshot struct {
	gen    atomic.Uint64 // 2*generation, +1 while a reader reads cold words; written under mu
	cells  *cells        // immutable; words 2i and 2i+1 are counter i, the last two count AddAlls inside
	n      uint          // immutable
	lane0  *atomic.Int64 // immutable: the row that serves until the Snapshot is spread
	spread Spread

	mu      sync.Mutex // held by readers
	drained []int64    // guarded by mu: what Swap has returned so far
}

// NewSnapshot makes n counters, all 0. It panics unless n >= 1.
func NewSnapshot(n int) *Snapshot {
	if n < 1 {
		panic(fmt.Sprintf("percpu: NewSnapshot of %d counters", n))
	}
	cs := makeCells(2*n+2, 0)
	return &Snapshot{cells: cs, n: uint(n), lane0: cs.first, drained: make([]int64, n)}
}

// Len returns the number of counters.
func (s *Snapshot) Len() int { return int(s.n) }

// Add adds d to counter i. Cost: as Counter.Add, and two loads.
func (s *Snapshot) Add(i int, d int64) {
	if uint(i) >= s.n {
		s.outOfRange(i)
	}
	if !s.spread.Wide() {
		gen := s.gen.Load()
		w := word(s.lane0, 2*uint(i)+uint(gen>>1&1))
		if old := w.Load(); w.Add(d) != old+d {
			s.spread.Meet()
		}
		if s.gen.Load()>>1 != gen>>1 {
			s.late()
		}
		return
	}
	lane := pin() // ID, and AddAt, by hand
	unpin()
	lane = scatter(lane)
	row := s.cells.find(lane)
	if row == nil {
		row = s.cells.at(lane)
	}
	gen := s.gen.Load()
	word(row, 2*uint(i)+uint(gen>>1&1)).Add(d)
	if s.gen.Load()>>1 != gen>>1 {
		s.late()
	}
}

// AddAt is Add for callers that know their lane.
func (s *Snapshot) AddAt(lane, i int, d int64) {
	if uint(i) >= s.n {
		s.outOfRange(i)
	}
	row := s.cells.find(lane)
	if row == nil {
		row = s.cells.at(lane)
	}
	gen := s.gen.Load()
	yield.Point("percpu.snapshot.add")
	word(row, 2*uint(i)+uint(gen>>1&1)).Add(d)
	yield.Point("percpu.snapshot.added")
	if s.gen.Load()>>1 != gen>>1 {
		s.late()
	}
}

// late ends an Add whose generation has passed: while a reader reads cold words
// it waits for the instant of that snapshot.
func (s *Snapshot) late() {
	for gen := s.gen.Load(); gen&1 == 1 && s.gen.Load() == gen; {
		runtime.Gosched()
	}
}

// AddAll adds deltas[i] to each counter i, all at the same instant. There may be
// fewer deltas than counters. Unlike Add, it can hold up a reader, while it runs.
func (s *Snapshot) AddAll(deltas []int64) { s.AddAllAt(s.spread.Lane(), deltas) }

// AddAllAt is AddAll for callers that know their lane.
func (s *Snapshot) AddAllAt(lane int, deltas []int64) {
	if uint(len(deltas)) > s.n {
		s.outOfRange(len(deltas) - 1)
	}
	row := s.cells.at(lane)
	for {
		gen := s.gen.Load()
		hot := uint(gen >> 1 & 1)
		inside := word(row, 2*s.n+hot)
		inside.Add(1)
		yield.Point("percpu.snapshot.inside")
		// CROSSED percpu.snapshot.inside: we enter, then look whether the
		// generation is still hot; the reader moves on, then looks who is inside.
		// One of the two steps back.
		if s.gen.Load()>>1 == gen>>1 {
			for i, d := range deltas {
				if d != 0 {
					word(row, 2*uint(i)+hot).Add(d)
				}
			}
			inside.Add(-1)
			return
		}
		inside.Add(-1)
	}
}

// Read writes all counters as of one instant to dst, which it grows if need be,
// and returns it. They count from the last Swap on. Cost: readers take turns; two
// loads per counter and lane in use.
func (s *Snapshot) Read(dst []int64) []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.readLocked(dst)
}

// Swap is Read, and starts all counters from 0 at the same instant. What it
// returns and what later calls return adds up to all that was ever added.
func (s *Snapshot) Swap(dst []int64) []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	dst = s.readLocked(dst)
	for i, n := range dst {
		s.drained[i] += n
	}
	return dst
}

func (s *Snapshot) readLocked(dst []int64) []int64 {
	dst = append(dst[:0], s.drained...)
	for i := range dst {
		dst[i] = -dst[i]
	}
	gen := s.gen.Add(1) >> 1
	yield.Point("percpu.snapshot.cold")
	s.collect(dst, uint(gen+1)&1)
	yield.Point("percpu.snapshot.turn")
	s.gen.Add(1)
	hot := uint(gen & 1)
	for row := range s.cells.rows() {
		for word(row, 2*s.n+hot).Load() != 0 {
			runtime.Gosched()
		}
	}
	s.collect(dst, hot)
	return dst
}

// collect adds one word of every counter, on all lanes, to dst.
func (s *Snapshot) collect(dst []int64, which uint) {
	for row := range s.cells.rows() {
		for i := range dst {
			dst[i] += word(row, 2*uint(i)+which).Load()
		}
	}
}

func (s *Snapshot) outOfRange(i int) {
	panic(fmt.Sprintf("percpu: counter %d of a snapshot of %d", i, s.n))
}
