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
// Make one with NewStock. Guarantees M1 to M9. Cost: an uncontended atomic
// operation per call; about every Batch bytes of growth or shrinkage of a lane,
// one per level on shared words. An account that stood in the way of a charge is
// strained (strain.go) until an eighth of its Cap is free again: it then counts
// every charge on its shared word, and so does all below it, while accounts
// above still give from their lanes.
//
// Size: 72 bytes, and 8 for each lane in use; accounts of a tree are packed 80
// together. A tree starts with 1.5 KiB and 128 bytes per lane.
type Stock struct {
	shadow // empty without -tags invariants
	bound  bounds
	parent *Stock        // immutable; nil at the root
	shelf  *shelf        // immutable: where the used word and the credit of the lanes are
	front  atomic.Int64  // credit of callers without a lane, until they get in each other's way
	slot   int32         // immutable: which of the shelf's words are ours
	keep   atomic.Uint32 // how much credit a lane keeps at most: two batches; set with bound
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
// High/(16*Lanes), so that an eighth of High bounds all idle credit (Slack), and
// may be 1 GiB at most.
func NewStock(parent *Stock, cfg Config) (*Stock, error) {
	if cfg.Batch < 0 || cfg.Batch > maxBatch || cfg.Lanes < 0 {
		return nil, fmt.Errorf("memacct: a stock with a batch of %d (at most %d) on %d lanes", cfg.Batch, maxBatch, cfg.Lanes)
	}
	var t *tree
	if parent != nil {
		t = parent.shelf.tree
	} else {
		t = newTree(cfg)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	depth := 0
	for l := parent; l != nil; l = l.parent {
		depth++
	}
	if depth >= maxDepth {
		return nil, fmt.Errorf("memacct: more than %d stocks within each other", maxDepth)
	}
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

// TryCharge is TryChargeAt for callers without a lane of their own: they share one
// cell until they get in each other's way, and use the lane percpu.ID from then on.
func (s *Stock) TryCharge(n int64) bool {
	if s.strain.Load()&narrowMask == 0 && !invariant.Enabled {
		// A negative n is a large one here; credit is never negative.
		if have := s.front.Load(); uint64(have) >= uint64(n) && s.front.CompareAndSwap(have, have-n) {
			return true
		}
	}
	return s.tryChargeAnywhere(n)
}

//go:noinline
func (s *Stock) tryChargeAnywhere(n int64) bool {
	if s.strain.Load()&wide != 0 {
		return s.TryChargeAt(percpu.ID(), n)
	}
	if s.strain.Load()&narrowMask == 0 && s.front.Load() >= n {
		s.meet() // there was enough, so somebody was faster
	}
	return s.tryChargeSlow(noLane, n)
}

// Charge is ChargeAt in the way of TryCharge.
func (s *Stock) Charge(n int64) {
	if !s.TryCharge(n) {
		s.force(n)
	}
}

// Uncharge is UnchargeAt in the way of TryCharge.
func (s *Stock) Uncharge(n int64) {
	if s.strain.Load()&narrowMask == 0 && uint64(n) <= Unlimited && !invariant.Enabled {
		// put, by hand: a call less is a fifth of the cost.
		if s.front.Add(n) > int64(s.keep.Load()) || s.strain.Load()&calmMask != 0 {
			s.trim(&s.front)
		}
		return
	}
	s.unchargeAnywhere(n)
}

//go:noinline
func (s *Stock) unchargeAnywhere(n int64) {
	if s.strain.Load()&wide != 0 {
		s.UnchargeAt(percpu.ID(), n)
	} else {
		s.unchargeSlow(noLane, n)
	}
}

// TryChargeAt implements Account. It refuses only after all idle credit below the
// account that stands in the way was called in (M7).
func (s *Stock) TryChargeAt(lane int, n int64) bool {
	if s.strain.Load()&calmMask == 0 && !invariant.Enabled {
		if cell := s.shelf.cells.Find(lane, int(s.slot)); cell != nil {
			if have := cell.Load(); uint64(have) >= uint64(n) && cell.CompareAndSwap(have, have-n) {
				return true
			}
		}
	}
	return s.tryChargeSlow(lane, n)
}

// ChargeAt implements Account: TryChargeAt, and past the limits where that is
// refused.
func (s *Stock) ChargeAt(lane int, n int64) {
	if !s.TryChargeAt(lane, n) {
		s.force(n)
	}
}

// UnchargeAt implements Account. A lane keeps what it gets back, up to twice its
// batch, for the charges to come.
func (s *Stock) UnchargeAt(lane int, n int64) {
	if s.strain.Load()&calmMask == 0 && uint64(n) <= Unlimited && !invariant.Enabled {
		if cell := s.shelf.cells.Find(lane, int(s.slot)); cell != nil {
			if cell.Add(n) > int64(s.keep.Load()) || s.strain.Load()&calmMask != 0 { // put, by hand
				s.trim(cell)
			}
			return
		}
	}
	s.unchargeSlow(lane, n)
}

// put adds n to the credit in cell, unless the lane has enough or may have none.
// CROSSED memacct.put: see strain.go.
func (s *Stock) put(cell *atomic.Int64, n int64) {
	now := cell.Add(n)
	yield.Point("memacct.stock.put")
	if now > int64(s.keep.Load()) || s.strain.Load()&calmMask != 0 {
		s.trim(cell)
	}
}
