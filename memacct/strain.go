package memacct

import (
	"sync/atomic"

	"corelane/internal/yield"
)

// The strain word of a Stock says whether credit may lie idle below it:
//
//	state      entered from       by                       leaves when
//	calm       straining, strained  who sees Cap/8 free     refused -> straining
//	straining  calm               who was refused          all cells swept -> strained
//	strained   straining          who swept                Cap/8 free -> calm
//	gone       any                Shut, Close              never
//
// The upper bits count the episodes, so that a sweep which was overtaken by a new
// episode cannot end it. Outside calm, charges and releases below the account
// leave the lanes alone and go to the used words of every level, where they are
// exact.
//
// CROSSED memacct.put: who puts credit into a cell looks at the strain words
// afterwards, and takes the credit out again unless all are calm; who strains an
// account changes its word first, and sweeps the cells afterwards. One of the two
// sees the other, whatever the order. So once an account is strained, credit
// below it exists only in the hands of operations still running. Were the order
// reversed on either side, credit could lie in a swept cell, and a charge that
// needs it would be refused for as long as the strain lasts.
const (
	calm = iota
	straining
	strained
	gone

	stateMask = 3
	episode   = 4
)

func state(word uint32) uint32 { return word & stateMask }

// tight returns the first account from here up that is not calm, and its word.
func (s *Stock) tight() (*Stock, uint32) {
	for l := s; l != nil; l = l.parent {
		if word := l.strain.Load(); state(word) != calm {
			return l, word
		}
	}
	return nil, 0
}

// settle is what follows every put into a cell.
func (s *Stock) settle(cell *atomic.Int64) {
	if tight, _ := s.tight(); tight != nil {
		s.giveBack(cell.Swap(0))
	}
}

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
	s.tree.mu.Lock()
	defer s.tree.mu.Unlock()
	word = s.strain.Load()
	if state(word) == calm {
		word += episode + straining
		s.strain.Store(word)
		s.tree.countStrainLocked(s, +1)
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
	s.tree.mu.Lock()
	defer s.tree.mu.Unlock()
	word := s.strain.Load()
	if st := state(word); st != straining && st != strained {
		return
	}
	s.strain.Store(word &^ stateMask)
	s.tree.countStrainLocked(s, -1)
}

// sweep calls in the credit of this account and of all below it.
func (s *Stock) sweep() {
	for below := range s.tree.accounts() {
		if below.under(s) {
			below.sweepOwn()
		}
	}
}

func (s *Stock) sweepOwn() {
	for cell := range s.cells.Cells(int(s.slot)) {
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
