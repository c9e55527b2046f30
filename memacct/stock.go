package memacct

import (
	"fmt"
	"sync/atomic"

	"corelane/internal/invariant"
	"corelane/internal/yield"
	"corelane/percpu"
)

// Stock is an account with a hard cap whose charges mostly touch one word of
// their own lane. A lane holds credit: bytes that were counted at every level
// beforehand, and that it may hand out and take back by itself.
//
//	           lane 0   lane 1   lane 2
//	credit       [c0]     [c1]     [c2]      charge: c -= n      uncharge: c += n
//	               \       |       /         refill: used += batch at every level
//	account      used = outstanding + c0 + c1 + c2 + credit in hands
//	                       |
//	namespace    used >= sum of its children's
//	                       |
//	host         used >= sum of its children's
//
// Make one with NewStock. Guarantees M1 to M9. Cost: an uncontended
// compare-and-swap per call; about every Batch bytes of growth or shrinkage of a
// lane, one atomic operation per level. An account that was refused becomes
// strained (strain.go): then it is that atomic operation per level for every
// call, until an eighth of its Cap is free again.
//
// Size: 80 bytes, and 8 for each lane in use; accounts of a tree are packed 64
// together. A tree starts with 1.5 KiB and 128 bytes per lane.
type Stock struct {
	shadow              // empty without -tags invariants
	used   atomic.Int64 // a used word: see account.go; outstanding, plus all credit
	bound  bounds
	parent *Stock        // immutable; nil at the root
	tree   *tree         // immutable
	cells  *percpu.Group // immutable; shared with the accounts of the same shelf
	marks  *marks        // immutable; nil without OnMark
	slot   int32         // immutable: which of cells' counters holds our credit
	kids   int32         // guarded by tree.mu: children not closed
	strain atomic.Uint32 // see strain.go
	spread percpu.Spread
}

var _ Account = (*Stock)(nil)

// NewStock makes an account, a child of parent unless that is nil. A child uses
// its root's Batch and Lanes.
//
// Batch is what a lane asks for in excess when its credit runs out, and half of
// what it keeps at most; 0 means 64 KiB, the size of the largest datagram: a
// batch smaller than what a lane allocates and frees again in one go loses all
// of the gain (measured: 4 KiB costs ten times 64 KiB). It is cut down to
// High/(16*Lanes), so that an eighth of High bounds all idle credit (Slack).
func NewStock(parent *Stock, cfg Config) (*Stock, error) {
	if cfg.Batch < 0 || cfg.Lanes < 0 {
		return nil, fmt.Errorf("memacct: a stock with a batch of %d on %d lanes", cfg.Batch, cfg.Lanes)
	}
	var t *tree
	if parent != nil {
		t = parent.tree
	} else {
		t = newTree(cfg)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if parent != nil && state(parent.strain.Load()) == gone {
		return nil, errParentShut
	}
	if err := cfg.Limits.check(parent.limitsLocked()); err != nil {
		return nil, err
	}
	return t.addLocked(parent, cfg), nil
}

// Child is NewStock with s as the parent.
func (s *Stock) Child(cfg Config) (Account, error) {
	c, err := NewStock(s, cfg)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// TryCharge is TryChargeAt for callers without a lane of their own: they share
// lane 0 until they get in each other's way, and use percpu.ID from then on.
func (s *Stock) TryCharge(n int64) bool { return s.TryChargeAt(s.spread.Lane(), n) }

// Charge is ChargeAt in the way of TryCharge.
func (s *Stock) Charge(n int64) { s.ChargeAt(s.spread.Lane(), n) }

// Uncharge is UnchargeAt in the way of TryCharge.
func (s *Stock) Uncharge(n int64) { s.UnchargeAt(s.spread.Lane(), n) }

// TryChargeAt implements Account. It refuses only after all idle credit below the
// account that stands in the way was called in (M7).
func (s *Stock) TryChargeAt(lane int, n int64) bool {
	if s.strain.Load()&stateMask|s.tree.strained.Load() == 0 && uint64(n) <= Unlimited {
		if cell := s.cells.Find(lane, int(s.slot)); cell != nil {
			for have := cell.Load(); have >= n; have = cell.Load() {
				if cell.CompareAndSwap(have, have-n) {
					if invariant.Enabled {
						s.shadow.charge(n)
					}
					return true
				}
				s.spread.Meet()
			}
		}
	}
	return s.tryChargeSlow(lane, n)
}

// UnchargeAt implements Account. A lane keeps what it gets back, up to twice its
// batch, for the charges to come.
func (s *Stock) UnchargeAt(lane int, n int64) {
	if invariant.Enabled {
		s.shadow.uncharge(s, n)
	}
	if s.strain.Load()&stateMask|s.tree.strained.Load() == 0 && uint64(n) <= Unlimited {
		if cell := s.cells.Find(lane, int(s.slot)); cell != nil {
			keep := s.keep()
			for have := cell.Load(); have+n <= keep; have = cell.Load() {
				if cell.CompareAndSwap(have, have+n) {
					// CROSSED memacct.put: see strain.go.
					if s.strain.Load()&stateMask|s.tree.strained.Load() != 0 {
						s.settle(cell)
					}
					return
				}
				s.spread.Meet()
			}
		}
	}
	s.unchargeSlow(lane, n)
}

// ChargeAt implements Account: TryChargeAt, and past the limits where that is
// refused.
func (s *Stock) ChargeAt(lane int, n int64) {
	if s.TryChargeAt(lane, n) {
		return
	}
	s.force(n)
	if invariant.Enabled {
		s.shadow.charge(n)
	}
}

// keep returns how much credit a lane keeps at most.
func (s *Stock) keep() int64 { return 2 * s.batch() }

// batch returns how much credit a lane asks for.
func (s *Stock) batch() int64 { return min(s.tree.batch, s.bound.high.Load()>>s.tree.shift) }

func (s *Stock) tryChargeSlow(lane int, n int64) (ok bool) {
	checkAmount(n)
	if invariant.Enabled {
		defer func() {
			if ok {
				s.shadow.charge(n)
			}
		}()
	}
	// swept is an account whose credit had been called in, in the strain that
	// word stands for, before reserve was asked.
	swept, word := s.tight()
	for {
		if tight, _ := s.tight(); tight == nil && s.fromCredit(lane, n) {
			return true
		}
		full := s.reserve(n)
		if full == nil {
			s.rose()
			return true
		}
		now := full.strain.Load()
		if full == swept && now == word && state(now) >= strained || n > full.bound.cap.Load() {
			return false
		}
		full.tighten()
		swept, word = full, full.strain.Load()
	}
}

// fromCredit charges n to the credit of lane, asking for a batch more if there is
// not enough. It may fail where an exact charge would not.
func (s *Stock) fromCredit(lane int, n int64) bool {
	cell := s.cells.Cell(lane, int(s.slot))
	for have := cell.Load(); have >= n; have = cell.Load() {
		if cell.CompareAndSwap(have, have-n) {
			return true
		}
	}
	extra := s.extra(n)
	if extra == 0 || s.reserve(n+extra) != nil {
		return false
	}
	yield.Point("memacct.stock.reserved")
	s.put(cell, extra)
	s.rose()
	return true
}

// put adds n to the credit in cell, or gives back what the lane may not keep.
func (s *Stock) put(cell *atomic.Int64, n int64) {
	for {
		have := cell.Load()
		left := have + n
		if left > s.keep() {
			// Down to one batch at most, not to the brim: the next release would
			// come here again.
			left = min(have, s.batch())
		}
		if cell.CompareAndSwap(have, left) {
			yield.Point("memacct.stock.put")
			s.settle(cell) // CROSSED memacct.put: see strain.go.
			s.giveBack(have + n - left)
			return
		}
	}
}

// force adds n at every level, whatever the limits.
func (s *Stock) force(n int64) {
	for l := s.parent; l != nil; l = l.parent {
		l.used.Add(n)
	}
	if base(s.used.Add(n)) == closed {
		for l := s; l != nil; l = l.parent {
			l.used.Add(-n)
		}
		panic(fmt.Sprintf("memacct: charge of %d bytes on a closed account", n))
	}
	s.rose()
}

func (s *Stock) unchargeSlow(lane int, n int64) {
	checkAmount(n)
	if tight, _ := s.tight(); tight != nil {
		s.giveBack(n)
		return
	}
	s.put(s.cells.Cell(lane, int(s.slot)), n)
}

// extra returns how much credit to ask for on top of a charge of n: a batch, but
// at most what every lane could take twice over without filling some level. Near
// a cap that is nothing, and every charge is exact.
func (s *Stock) extra(n int64) int64 {
	extra := s.batch()
	for l := s; l != nil; l = l.parent {
		// 2*lanes = 2^(shift-3)
		extra = min(extra, (l.bound.cap.Load()-l.Used())>>(s.tree.shift-3))
	}
	if extra < n {
		return 0
	}
	return extra
}

// reserve adds n to the ancestors and then to this account, and returns nil; or
// returns the one that is shut or would pass its Cap, and changes nothing. As
// Atomic.reserve.
func (s *Stock) reserve(n int64) (full *Stock) {
	if !s.room(s.used.Load(), n) {
		return s
	}
	if s.parent != nil {
		if full := s.parent.reserve(n); full != nil {
			return full
		}
	}
	for {
		word := s.used.Load()
		if !s.room(word, n) {
			if s.parent != nil {
				s.parent.giveBack(n)
			}
			return s
		}
		if s.used.CompareAndSwap(word, word+n) {
			// CROSSED memacct.cap: SetLimits stores the cap, then looks at used.
			if word+n > s.bound.cap.Load() {
				s.giveBack(n)
				return s
			}
			return nil
		}
	}
}

func (s *Stock) room(word, n int64) bool { return word >= 0 && word <= s.bound.cap.Load()-n }

// giveBack takes n off this account and then off its ancestors: from the bottom
// up, so that none ever counts less than its children. More than the account
// counts cannot be taken off it, and is not taken off the others.
func (s *Stock) giveBack(n int64) {
	if n == 0 {
		return
	}
	for l := s; l != nil && n > 0; l = l.parent {
		word := l.used.Add(-n)
		in := held(word)
		if in < 0 && l == s {
			over := min(-in, n)
			l.used.Add(over)
			if base(word) != closed {
				l.tree.noteOver(l, n, n+in)
			}
			n -= over
		}
		if st := state(l.strain.Load()); (st == straining || st == strained) && in <= l.relaxMark() {
			l.relax()
		}
		if l.marks != nil {
			l.marks.fell(l.Used(), l.bound.low.Load())
		}
	}
}

// rose tells about marks that a charge has crossed.
func (s *Stock) rose() {
	for l := s; l != nil; l = l.parent {
		if l.marks != nil {
			l.marks.rose(l.Used(), l.bound.high.Load())
		}
	}
}
