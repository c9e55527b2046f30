package memacct

import (
	"fmt"
	"math"
	"sync/atomic"

	"corelane/internal/invariant"
	"corelane/internal/yield"
	"corelane/percpu"
)

// This file holds what a charge or release does when the credit of its lane does
// not settle it: asking for more, counting exactly, calling credit in, giving up.

// used returns the account's used word: outstanding, plus all credit. See
// account.go. It lies among those of the shelf, away from what every call reads.
func (s *Stock) used() *atomic.Int64 { return &s.shelf.used[s.slot] }

// batch returns how much credit a lane asks for.
func (s *Stock) batch() int64 { return int64(s.keep.Load() / 2) }

func (s *Stock) tryChargeSlow(lane int, n int64) bool {
	checkAmount(n)
	// swept is an account whose credit had been called in, in the strain that word
	// stands for, when we last asked.
	var swept *Stock
	var word uint32
	for {
		full := s.tryCharge(lane, n)
		if full == nil {
			if invariant.Enabled {
				s.shadow.charge(n)
			}
			return true
		}
		if n > full.bound.cap.Load() {
			return false
		}
		now := full.strain.Load()
		if state(now) >= strained && full == swept && now == word {
			return false
		}
		if state(now) < strained {
			full.tighten()
			now = full.strain.Load()
		}
		swept, word = full, now
	}
}

// tryCharge charges n to this account and those above it, and returns nil; or
// returns the one that is shut or would pass its Cap, and changes nothing.
func (s *Stock) tryCharge(lane int, n int64) (full *Stock) {
	if s.strain.Load()&calmMask == 0 && s.fromCredit(s.cell(lane), n) {
		return nil
	}
	return s.tryExact(lane, n)
}

// fromCredit charges n to the credit in cell, asking for a batch more if there is
// not enough. It may fail where an exact charge would not.
func (s *Stock) fromCredit(cell *atomic.Int64, n int64) bool {
	for have := cell.Load(); have >= n; have = cell.Load() {
		if cell.CompareAndSwap(have, have-n) {
			return true
		}
	}
	extra := s.extra(n)
	if extra == 0 || !s.reserve(n+extra) {
		return false
	}
	yield.Point("memacct.stock.reserved")
	s.put(cell, extra)
	s.rose()
	return true
}

// extra returns how much credit to ask for on top of a charge of n: a batch, but
// at most what every lane could take twice over without filling some level. Near
// a cap that is nothing, and every charge is exact.
func (s *Stock) extra(n int64) int64 {
	extra := s.batch()
	for l := s; l != nil; l = l.parent {
		// 2^keepShift is 8*lanes
		extra = min(extra, (l.bound.cap.Load()-l.Used())>>(s.shelf.tree.keepShift-2))
	}
	if extra < n {
		return 0
	}
	return extra
}

// reserve adds n to the used words of all ancestors and then to our own, or
// changes nothing. From the top down, so that at every instant an account counts
// at least what its children count (M2).
func (s *Stock) reserve(n int64) bool {
	if s.parent != nil && !s.parent.reserve(n) {
		return false
	}
	if s.add(n) {
		return true
	}
	if s.parent != nil {
		s.parent.giveBack(n)
	}
	return false
}

// tryExact adds n to our own used word, after charging the parent in whatever way
// the parent likes. The first look keeps an account that is full from disturbing
// the ones above.
func (s *Stock) tryExact(lane int, n int64) (full *Stock) {
	if s.parent != nil {
		if !s.room(s.used().Load(), n) {
			return s
		}
		yield.Point("memacct.stock.looked")
		if full := s.parent.tryCharge(lane, n); full != nil {
			return full
		}
	}
	if !s.add(n) {
		yield.Point("memacct.stock.undo")
		if s.parent != nil {
			s.parent.uncharge(lane, n)
		}
		return s
	}
	if s.strain.Load()&watched != 0 {
		s.rose()
	}
	return nil
}

// add adds n to the used word, unless the account is shut or would pass its Cap.
func (s *Stock) add(n int64) bool {
	for {
		word := s.used().Load()
		if !s.room(word, n) {
			return false
		}
		if s.used().CompareAndSwap(word, word+n) {
			// CROSSED memacct.cap: SetLimits stores the cap, then looks at used.
			if word+n <= s.bound.cap.Load() {
				return true
			}
			s.used().Add(-n)
			return false
		}
	}
}

func (s *Stock) room(word, n int64) bool { return word >= 0 && word <= s.bound.cap.Load()-n }

// force adds n at every level, whatever the limits.
func (s *Stock) force(n int64) {
	for l := s.parent; l != nil; l = l.parent {
		l.used().Add(n)
	}
	if base(s.used().Add(n)) == closed {
		for l := s; l != nil; l = l.parent {
			l.used().Add(-n)
		}
		panic(fmt.Sprintf("memacct: charge of %d bytes on a closed account", n))
	}
	if invariant.Enabled {
		s.shadow.charge(n)
	}
	s.rose()
}

func (s *Stock) unchargeSlow(lane int, n int64) {
	checkAmount(n)
	if invariant.Enabled {
		s.shadow.uncharge(s, n)
	}
	s.uncharge(lane, n)
}

// uncharge is the way back of tryCharge.
func (s *Stock) uncharge(lane int, n int64) {
	if s.strain.Load()&calmMask == 0 {
		s.put(s.cell(lane), n)
		return
	}
	if n = s.subtract(n); s.parent != nil && n != 0 {
		s.parent.uncharge(lane, n)
	}
}

// trim brings a cell down to what it may hold: to one batch, not two, or the next
// release would come here again; to nothing while the account is not calm.
//
//go:noinline
func (s *Stock) trim(cell *atomic.Int64) {
	yield.Point("memacct.stock.trim")
	for {
		have := cell.Load()
		left := min(have, s.batch())
		if s.strain.Load()&calmMask != 0 {
			left = 0
		}
		if cell.CompareAndSwap(have, left) {
			s.giveBack(have - left)
			// The account may have been strained since we looked, and the cell
			// swept before we wrote: look again, as after every put.
			if left == 0 || s.strain.Load()&calmMask == 0 {
				return
			}
		}
	}
}

// giveBack takes n off this account and then off its ancestors: from the bottom
// up, so that none ever counts less than its children.
func (s *Stock) giveBack(n int64) {
	for l := s; l != nil && n != 0; l = l.parent {
		n = l.subtract(n)
	}
}

// subtract takes n off the used word and returns how much that was: more than the
// account counts cannot be taken off it, and must not be taken off the others.
func (s *Stock) subtract(n int64) int64 {
	word := s.used().Add(-n)
	if word < 0 {
		n = s.subtractSlow(word, n)
	}
	if strain := s.strain.Load(); strain&(stateMask|watched) != 0 {
		s.fell(strain, held(word))
	}
	return n
}

// subtractSlow looks at a used word that became negative: the account is shut, or
// too much was given back.
func (s *Stock) subtractSlow(word, n int64) int64 {
	in := held(word)
	if in >= 0 {
		return n
	}
	over := min(-in, n)
	s.used().Add(over)
	if base(word) != closed {
		s.shelf.tree.noteOver(s, n, n+in)
	}
	return n - over
}

// fell ends a strain that is not needed any more, and tells about marks that a
// release has crossed.
func (s *Stock) fell(strain uint32, used int64) {
	if st := state(strain); (st == straining || st == strained) && used <= s.relaxMark() {
		s.relax()
	}
	if strain&watched != 0 {
		if m := s.marks(); m != nil {
			m.fell(used, s.bound.low.Load())
		}
	}
}

// rose tells about marks that a charge has crossed.
func (s *Stock) rose() {
	for l := s; l != nil && l.strain.Load()&watched != 0; l = l.parent {
		if m := l.marks(); m != nil {
			m.rose(l.Used(), l.bound.high.Load())
		}
	}
}

// noLane stands for the lane of a caller who has none.
const noLane = math.MinInt

// cell returns the credit of lane.
func (s *Stock) cell(lane int) *atomic.Int64 {
	if lane == noLane {
		if s.strain.Load()&wide == 0 {
			return &s.front
		}
		lane = percpu.ID()
	}
	return s.shelf.cells.Cell(lane, int(s.slot))
}

// meet notes that two charges met on the front cell. Once that is common the
// account is wide: callers without a lane use that of their P.
func (s *Stock) meet() {
	s.spread.Meet()
	if s.spread.Wide() {
		s.strain.Or(wide)
		s.giveBack(s.front.Swap(0))
	}
}
