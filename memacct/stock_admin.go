package memacct

// This file holds what is done to a Stock rarely: reading it exactly, changing
// its limits, ending it.

// Used implements Account: outstanding bytes, plus the credit of all lanes. It
// never under-reports (M3).
func (s *Stock) Used() int64 { return held(s.used().Load()) }

// AboveHigh implements Account. It may say so up to Slack early, never late.
func (s *Stock) AboveHigh() bool { return s.Used() > s.bound.high.Load() }

// AboveLow implements Account. It may say so up to Slack too long.
func (s *Stock) AboveLow() bool { return s.Used() > s.bound.low.Load() }

// Exact implements Account: it calls in all idle credit, and returns what is then
// in use. Charges and releases that run meanwhile may be included, and so may the
// credit they have in hand; it never under-reports. An over-release below the
// account is reported until the account is closed.
func (s *Stock) Exact() (int64, error) {
	err := s.Drain()
	return s.Used(), err
}

// Drain gives the idle credit of the account and of all below it back, at every
// level: what an owner of 10,000 quiet accounts does now and then.
func (s *Stock) Drain() error {
	s.sweep()
	return s.shelf.tree.overBelow(s)
}

// Idle returns the credit that lies in lanes now, here and below, without
// touching it. Used - Idle estimates what Exact would say.
func (s *Stock) Idle() (n int64) {
	for below := range s.shelf.tree.accounts() {
		if below.under(s) {
			n += below.front.Load()
			for cell := range below.shelf.cells.Cells(int(below.slot)) {
				n += cell.Load()
			}
		}
	}
	return n
}

// Slack returns the most that Idle can be: two batches for each lane in use, and
// two for callers without a lane, of this account and of all below it.
func (s *Stock) Slack() (n int64) {
	for below := range s.shelf.tree.accounts() {
		if below.under(s) {
			n += int64(below.shelf.cells.Lanes()+1) * int64(below.keep.Load())
		}
	}
	return n
}

// Limits implements Account.
func (s *Stock) Limits() Limits {
	s.shelf.tree.mu.Lock()
	defer s.shelf.tree.mu.Unlock()
	return s.limitsLocked()
}

// limitsLocked returns the limits in force; a nil account has none.
func (s *Stock) limitsLocked() Limits {
	l := noLimits
	for up := s; up != nil; up = up.parent {
		l = l.within(up.bound.load())
	}
	return l
}

// SetLimits implements Account. Credit that lies idle when the cap falls below
// what is in use is called in first, so no charge that begins after SetLimits
// returned passes the new cap on it (M6).
func (s *Stock) SetLimits(l Limits) error {
	if err := s.storeLimits(l); err != nil {
		return err
	}
	// CROSSED memacct.cap: reserve adds to used, then looks at the cap.
	if s.Used() > l.Cap {
		s.tighten()
	}
	s.sweepOwn() // a lower High means a smaller batch: no lane may hold more
	if word := s.strain.Load(); state(word) != calm {
		s.fell(word, s.Used()) // a higher Cap may be reason to relax
	}
	return nil
}

func (s *Stock) storeLimits(l Limits) error {
	s.shelf.tree.mu.Lock()
	defer s.shelf.tree.mu.Unlock()
	if err := l.check(s.parent.limitsLocked()); err != nil {
		return err
	}
	s.bindLocked(l)
	return nil
}

// Shut implements Account.
func (s *Stock) Shut() {
	s.shelf.tree.mu.Lock()
	s.goneLocked()
	s.shelf.tree.mu.Unlock()
	lower(s.used(), shut)
	s.sweep()
}

// goneLocked puts the account into its last strain state.
func (s *Stock) goneLocked() {
	word := s.strain.Load()
	for !s.strain.CompareAndSwap(word, word|gone) { // tighten may end a sweep here
		word = s.strain.Load()
	}
	if state(word) == calm {
		s.burdenLocked(above)
	}
}

// Close implements Account. The error may also be an *OverReleaseError.
func (s *Stock) Close() error {
	if err := s.beginClose(); err != nil {
		return err
	}
	s.sweepOwn()
	word, ok := lower(s.used(), closed)
	if !ok {
		return nil
	}
	left := held(word)
	if s.parent != nil {
		s.parent.giveBack(left)
	}
	over := s.endClose()
	if left != 0 {
		return &LeftoverError{left}
	}
	return over
}

func (s *Stock) beginClose() error {
	s.shelf.tree.mu.Lock()
	defer s.shelf.tree.mu.Unlock()
	if s.shelf.tree.kids[s] != 0 {
		return errHasChildren
	}
	s.goneLocked()
	return nil
}

// endClose takes a closed account out of the tree's books.
func (s *Stock) endClose() error {
	t := s.shelf.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.parent != nil {
		if t.kids[s.parent]--; t.kids[s.parent] == 0 {
			delete(t.kids, s.parent)
		}
	}
	if s.shelf.open--; s.shelf.open == 0 {
		t.trimLocked(nil)
	}
	over, known := t.over[s]
	delete(t.over, s)
	if !known {
		return nil
	}
	return &over
}
