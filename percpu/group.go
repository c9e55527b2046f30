package percpu

import (
	"fmt"
	"iter"
	"sync/atomic"
	"unsafe"
)

// Group is a fixed number of counters that live side by side, lane by lane: the
// copies that one P writes share lines with each other, and with no other P. A
// counter costs 8 bytes per lane in use, instead of a Counter's 128; the counters
// of a lane are rounded up to 128 bytes together.
//
// Make one with NewGroup. A Group must not be copied; all methods may be called
// at any time by anyone. C1, C2, C6 and C8 apply to each counter by itself; for
// several at one instant see Snapshot.
type Group struct {
	cells *cells // immutable
	n     uint   // immutable
}

// NewGroup makes a group of n counters, all 0, for as many lanes as there are Ps
// now; others cost a little more. It panics unless n >= 1.
func NewGroup(n int) *Group { return NewGroupLanes(n, 0) }

// NewGroupLanes is NewGroup for callers that have lanes of their own; 0 lanes mean
// GOMAXPROCS.
func NewGroupLanes(n, lanes int) *Group {
	if n < 1 || lanes < 0 {
		panic(fmt.Sprintf("percpu: NewGroup of %d counters on %d lanes", n, lanes))
	}
	return &Group{cells: makeCells(n, lanes), n: uint(n)}
}

// Len returns the number of counters.
func (g *Group) Len() int { return int(g.n) }

// Add adds d to counter i. Cost: ID plus one atomic add.
func (g *Group) Add(i int, d int64) {
	lane := pin() // ID, by hand
	unpin()
	g.AddAt(scatter(lane), i, d)
}

// AddAt is Add for callers that know their lane.
func (g *Group) AddAt(lane, i int, d int64) {
	if cell := g.Find(lane, i); cell != nil {
		cell.Add(d)
	} else {
		g.Cell(lane, i).Add(d)
	}
}

// Load returns the sum of counter i. Cost: one load per lane in use.
func (g *Group) Load(i int) int64 {
	g.check(i)
	return g.cells.sum(i)
}

// All yields every counter's index and sum.
func (g *Group) All() iter.Seq2[int, int64] {
	return func(yield func(int, int64) bool) {
		for i := range int(g.n) {
			if !yield(i, g.cells.sum(i)) {
				return
			}
		}
	}
}

// Cell returns the word of counter i on a lane, to build other things on: its
// address never changes, and the group never writes to it by itself.
func (g *Group) Cell(lane, i int) *atomic.Int64 {
	if uint(i) >= g.n {
		g.check(i)
	}
	return word(g.cells.at(lane), uint(i))
}

// Find is Cell for hot paths, where it inlines: nil if the group was not made for
// the lane, or i is out of range.
func (g *Group) Find(lane, i int) *atomic.Int64 {
	if row := g.cells.find(lane); row != nil && uint(i) < g.n {
		return (*atomic.Int64)(unsafe.Add(unsafe.Pointer(row), uint(i)*wordSize)) // word, as the inliner's budget wants it
	}
	return nil
}

// Cells yields the word of counter i on every lane in use.
func (g *Group) Cells(i int) iter.Seq[*atomic.Int64] {
	g.check(i)
	return func(yield func(*atomic.Int64) bool) {
		for row := range g.cells.rows() {
			if !yield(word(row, uint(i))) {
				return
			}
		}
	}
}

// Lanes returns how many lanes have cells, used or about to be.
func (g *Group) Lanes() int { return g.cells.lanes() }

func (g *Group) check(i int) {
	if uint(i) >= g.n {
		panic(fmt.Sprintf("percpu: counter %d of a group of %d", i, g.n))
	}
}
