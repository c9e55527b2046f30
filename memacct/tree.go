package memacct

import (
	"iter"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"

	"corelane/internal/cacheline"
	"corelane/percpu"
)

// tree is what the stocks of one hierarchy share.
type tree struct {
	lanes     int   // immutable
	keep      int64 // immutable: two batches, before High limits them
	keepShift uint8 // immutable: 2^keepShift is 8*lanes, rounded up

	mu sync.Mutex // guards limits, kids, strain states, shelves
	// shelves is replaced under mu, and read by sweeps at any time.
	shelves atomic.Pointer[[]*shelf]
	kids    map[*Stock]int              // guarded by mu: children not closed, of those that have some
	over    map[*Stock]OverReleaseError // guarded by mu: the first of each account
}

// shelf is a fixed number of accounts and their credit: on each lane the cells of
// all of them lie side by side (8 bytes an account and lane, not a cache line),
// since one lane writes them all. A place on a shelf is never used again: an
// operation that overlaps Close may still write to its cell. A shelf goes when
// all its accounts are closed.
type shelf struct {
	tree  *tree          // immutable
	cells *percpu.Group  // immutable
	used  []atomic.Int64 // immutable slice: a word for each account, written by refills and exact calls
	// marks: nil -> those of the accounts, once, under tree.mu; an account's own
	// are set before anybody has it.
	marks atomic.Pointer[[]*marks]

	_        cacheline.Pad // the above is read by every operation
	accounts []Stock
	made     atomic.Int32 // accounts in use from the front; grows, under tree.mu
	open     int          // guarded by tree.mu: accounts not closed
}

const (
	defaultBatch = 64 << 10
	maxBatch     = 1 << 30
	firstShelf   = 16 // one line pair on every lane
	laterShelf   = 80 // with the allocator's size classes, less is wasted than with 64
)

func newTree(cfg Config) *tree {
	lanes := cfg.Lanes
	if lanes == 0 {
		lanes = runtime.GOMAXPROCS(0)
	}
	t := &tree{
		lanes:     lanes,
		keep:      2 * cfg.Batch,
		keepShift: uint8(3 + bits.Len(uint(lanes-1))),
		kids:      map[*Stock]int{},
		over:      map[*Stock]OverReleaseError{},
	}
	if t.keep == 0 {
		t.keep = 2 * defaultBatch
	}
	t.shelves.Store(new([]*shelf))
	return t
}

// addLocked places a new account on the last shelf.
func (t *tree) addLocked(parent *Stock, cfg Config) *Stock {
	shelves := *t.shelves.Load()
	if n := len(shelves); n == 0 || int(shelves[n-1].made.Load()) == len(shelves[n-1].accounts) {
		size := laterShelf
		if n == 0 {
			size = firstShelf
		}
		t.trimLocked(&shelf{
			tree: t, cells: percpu.NewGroupLanes(size, t.lanes),
			used: make([]atomic.Int64, size), accounts: make([]Stock, size),
		})
		shelves = *t.shelves.Load()
	}
	sh := shelves[len(shelves)-1]
	slot := sh.made.Load()
	s := &sh.accounts[slot]
	s.parent, s.shelf, s.slot = parent, sh, slot
	s.bindLocked(cfg.Limits)
	if parent != nil {
		t.kids[parent]++
		word := parent.strain.Load()
		s.strain.Store(word & (calmMask&^stateMask | watched))
		if state(word) != calm {
			s.strain.Add(above)
		}
	}
	if cfg.OnMark != nil {
		s.strain.Or(watched)
		if sh.marks.Load() == nil {
			all := make([]*marks, len(sh.accounts))
			sh.marks.Store(&all)
		}
		(*sh.marks.Load())[slot] = &marks{notify: cfg.OnMark}
	}
	sh.open++
	// PUBLISH memacct.made: the account is complete; a sweep may visit it.
	sh.made.Store(slot + 1)
	return s
}

// trimLocked drops the shelves that are used up and closed, and adds one if given.
func (t *tree) trimLocked(add *shelf) {
	var keep []*shelf
	for _, sh := range *t.shelves.Load() {
		if sh.open > 0 || int(sh.made.Load()) < len(sh.accounts) {
			keep = append(keep, sh)
		}
	}
	if add != nil {
		keep = append(keep, add)
	}
	t.shelves.Store(&keep)
}

// marks returns the marks of s, nil without OnMark.
func (s *Stock) marks() *marks {
	if all := s.shelf.marks.Load(); all != nil {
		return (*all)[s.slot]
	}
	return nil
}

// bindLocked sets the limits, and what follows from them.
func (s *Stock) bindLocked(l Limits) {
	s.bound.store(l)
	t := s.shelf.tree
	s.keep.Store(uint32(min(t.keep, l.High>>t.keepShift)))
}

// accounts yields every account of the tree, closed ones too.
func (t *tree) accounts() iter.Seq[*Stock] {
	return func(yield func(*Stock) bool) {
		for _, sh := range *t.shelves.Load() {
			// ACQUIRE memacct.made
			for i := range sh.made.Load() {
				if !yield(&sh.accounts[i]) {
					return
				}
			}
		}
	}
}

func (t *tree) noteOver(s *Stock, released, charged int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.over[s]; !known {
		t.over[s] = OverReleaseError{Released: released, Charged: charged}
	}
}

// overBelow returns the over-release noted for s, or for an account below it.
func (t *tree) overBelow(s *Stock) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for at, over := range t.over {
		if at.under(s) {
			return &over
		}
	}
	return nil
}
