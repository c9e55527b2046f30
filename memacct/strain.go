package memacct

import "corelane/internal/yield"

// The strain word of a Stock says whether credit may lie idle below it:
//
//	state      entered from         by                   leaves when
//	calm       straining, strained  who sees Cap/8 free  refused -> straining
//	straining  calm                 who was refused      cells swept -> strained
//	strained   straining            who swept            Cap/8 free -> calm
//	gone       any                  Shut, Close          never
//
// Above the state the word counts the ancestors that are not calm, so that one
// load tells an operation what it may do: unless all eight low bits are 0, charges
// and releases leave the lanes alone and go to the used words of every level,
// where they are exact. The bits from episode on count episodes, so that a sweep
// which was overtaken by a new episode cannot end it.
//
// CROSSED memacct.put: who puts credit into a cell looks at the strain word
// afterwards, and takes the credit out again unless it is calm; who strains an
// account changes its word and those below it first, and sweeps the cells
// afterwards. One of the two
// sees the other, whatever the order. So once an account is strained, credit
// below it exists only in the hands of operations still running. Were the order
// reversed on either side, credit could lie in a swept cell, and a charge that
// needs it would be refused for as long as the strain lasts.
const (
	calm = iota
	straining
	strained
	gone

	stateMask  = 3
	above      = 4   // one ancestor that is not calm
	calmMask   = 255 // state, and all of those
	wide       = 256 // callers without a lane use their P's; once set, stays
	narrowMask = calmMask | wide
	watched    = 512 // set for good where this account or one above has OnMark
	episode    = 1024

	maxDepth = 60 // so that the ancestors fit in six bits
)

func state(word uint32) uint32 { return word & stateMask }

// tighten strains the account and calls in all credit below it.
func (s *Stock) tighten() {
	word := s.enterStrain()
	if state(word) != straining {
		return
	}
	yield.Point("memacct.stock.sweep")
	s.sweep()
	// Somebody may have relaxed the account, or relaxed and strained it again,
	// while we swept: then this says nothing about the word of now.
	s.strain.CompareAndSwap(word, word-straining+strained)
}

func (s *Stock) enterStrain() (word uint32) {
	s.shelf.tree.mu.Lock()
	defer s.shelf.tree.mu.Unlock()
	word = s.strain.Load()
	if state(word) == calm {
		word = s.strain.Add(episode + straining)
		s.burdenLocked(above)
	}
	return word
}

// relaxMark is the use at which a strained account becomes calm again: low enough
// for all lanes to have their credit back without filling it.
func (s *Stock) relaxMark() int64 {
	c := s.bound.cap.Load()
	return c - c/8
}

// relax ends the strain, if it still lasts.
func (s *Stock) relax() {
	s.shelf.tree.mu.Lock()
	defer s.shelf.tree.mu.Unlock()
	word := s.strain.Load()
	if st := state(word); st != straining && st != strained {
		return
	}
	s.strain.And(^uint32(stateMask))
	s.burdenLocked(-above)
}

// burdenLocked tells the accounts below that this one is not calm any more
// (above), or again (-above).
func (s *Stock) burdenLocked(d int32) {
	if s.shelf.tree.kids[s] == 0 {
		return
	}
	for below := range s.shelf.tree.accounts() {
		if below != s && below.under(s) {
			below.strain.Add(uint32(d))
		}
	}
}

// sweep calls in the credit of this account and of all below it.
func (s *Stock) sweep() {
	for below := range s.shelf.tree.accounts() {
		if below.under(s) {
			below.sweepOwn()
		}
	}
}

func (s *Stock) sweepOwn() {
	if s.front.Load() != 0 {
		s.giveBack(s.front.Swap(0))
	}
	for cell := range s.shelf.cells.Cells(int(s.slot)) {
		if cell.Load() != 0 {
			s.giveBack(cell.Swap(0))
		}
	}
}

func (s *Stock) under(top *Stock) bool {
	for l := s; l != nil; l = l.parent {
		if l == top {
			return true
		}
	}
	return false
}
