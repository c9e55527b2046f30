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
	// strained counts accounts that have children and are not calm: every
	// operation reads it, to learn with one load that no ancestor is strained.
	// Written under mu.
	strained atomic.Uint32
	batch    int64 // immutable
	shift    uint8 // immutable: 2^shift is 16*lanes, rounded up to a power of two

	_  cacheline.Pad
	mu sync.Mutex // guards limits, kids, changes of strain states, shelves
	// shelves is replaced under mu, and read by sweeps at any time.
	shelves atomic.Pointer[[]*shelf]
	home    map[*percpu.Group]*shelf    // guarded by mu: the shelf that has these cells
	over    map[*Stock]OverReleaseError // guarded by mu: the first of each account
}

// shelf is a fixed number of accounts and their credit: on each lane the cells of
// all of them lie side by side (8 bytes an account and lane, not a cache line),
// since one lane writes them all. A place on a shelf is never used again: an
// operation that overlaps Close may still write to its cell. A shelf goes when
// all its accounts are closed.
type shelf struct {
	cells    *percpu.Group
	accounts []Stock
	made     atomic.Int32 // accounts in use from the front; grows, under tree.mu
	open     int          // guarded by tree.mu: accounts not closed
}

const (
	defaultBatch = 64 << 10
	firstShelf   = 16 // one line pair on every lane
	laterShelf   = 64
)

func newTree(cfg Config) *tree {
	lanes := cfg.Lanes
	if lanes == 0 {
		lanes = runtime.GOMAXPROCS(0)
	}
	t := &tree{
		batch: cfg.Batch,
		shift: uint8(4 + bits.Len(uint(lanes-1))),
		home:  map[*percpu.Group]*shelf{},
		over:  map[*Stock]OverReleaseError{},
	}
	if t.batch == 0 {
		t.batch = defaultBatch
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
		t.trimLocked(&shelf{cells: percpu.NewGroup(size), accounts: make([]Stock, size)})
		shelves = *t.shelves.Load()
	}
	sh := shelves[len(shelves)-1]
	slot := sh.made.Load()
	s := &sh.accounts[slot]
	s.parent, s.tree, s.cells, s.slot, s.marks = parent, t, sh.cells, slot, makeMarks(cfg.OnMark)
	s.bound.store(cfg.Limits)
	sh.open++
	// PUBLISH memacct.made: the account is complete; a sweep may visit it.
	sh.made.Store(slot + 1)
	if parent != nil {
		t.countKidLocked(parent, +1)
	}
	return s
}

// trimLocked drops the shelves that are used up and closed, and adds one if given.
func (t *tree) trimLocked(add *shelf) {
	var keep []*shelf
	for _, sh := range *t.shelves.Load() {
		if sh.open > 0 || int(sh.made.Load()) < len(sh.accounts) {
			keep = append(keep, sh)
		} else {
			delete(t.home, sh.cells)
		}
	}
	if add != nil {
		keep = append(keep, add)
		t.home[add.cells] = add
	}
	t.shelves.Store(&keep)
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

// countKidLocked adds d to the children of s. strained counts an account only
// while it has some.
func (t *tree) countKidLocked(s *Stock, d int32) {
	had := s.kids > 0
	s.kids += d
	if has := s.kids > 0; has != had && state(s.strain.Load()) != calm {
		t.strained.Add(uint32(d))
	}
}

// countStrainLocked notes that s became calm (-1) or stopped being so (+1).
func (t *tree) countStrainLocked(s *Stock, d int32) {
	if s.kids > 0 {
		t.strained.Add(uint32(d))
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
