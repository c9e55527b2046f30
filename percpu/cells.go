package percpu

import (
	"iter"
	"math/bits"
	"sync/atomic"
	"unsafe"

	"corelane/internal/cacheline"
)

// maxLanes bounds the directory. Lanes beyond it share the cells of lower ones,
// which costs speed and nothing else.
const maxLanes = 1024

// cells is an array of rows of words, one row per lane, that grows and never
// moves. Block k holds the rows of the lanes whose number has k bits:
//
//	k      0   1   2     3         4              10
//	lanes  0 | 1 | 2 3 | 4 5 6 7 | 8 ... 15 | ... | 512 ... 1023
//
// so a lane finds its row with two loads, whatever GOMAXPROCS is and was (C6).
// Rows are multiples of cacheline.Apart bytes, and blocks are aligned to it, so
// two lanes never share a line.
type cells struct {
	// blocks: nil -> first word of the block, once; by whoever needs it first.
	blocks [11]atomic.Pointer[atomic.Int64]
	row    uintptr // bytes per row; immutable
}

const wordSize = unsafe.Sizeof(atomic.Int64{})

func makeCells(words int) cells {
	return cells{row: (uintptr(words)*wordSize + cacheline.Apart - 1) &^ (cacheline.Apart - 1)}
}

// at returns the first word of the row of lane.
func (c *cells) at(lane int) *atomic.Int64 {
	l := uint(lane) % maxLanes
	k := bits.Len(l)
	// ACQUIRE percpu.block
	b := c.blocks[k].Load()
	if b == nil {
		b = c.grow(k)
	}
	// The block starts at lane 2^(k-1); clearing that bit leaves the distance.
	return (*atomic.Int64)(unsafe.Add(unsafe.Pointer(b), uintptr(l&^(1<<k>>1))*c.row))
}

// grow makes block k, or finds that somebody just did.
//
//go:noinline
func (c *cells) grow(k int) *atomic.Int64 {
	rows := max(1<<k>>1, 1)
	words := make([]atomic.Int64, uintptr(rows)*c.row/wordSize)
	// PUBLISH percpu.block: the words are zero before anyone can reach them. The
	// loser of the race drops its block unused.
	if c.blocks[k].CompareAndSwap(nil, &words[0]) {
		return &words[0]
	}
	return c.blocks[k].Load()
}

// word returns word i of a row that starts at first. The caller has checked i.
func word(first *atomic.Int64, i int) *atomic.Int64 {
	return (*atomic.Int64)(unsafe.Add(unsafe.Pointer(first), uintptr(i)*wordSize))
}

// lanes counts the rows that exist.
func (c *cells) lanes() (n int) {
	for k := range c.blocks {
		if c.blocks[k].Load() != nil {
			n += max(1<<k>>1, 1)
		}
	}
	return n
}

// rows yields the first word of every row that exists, lowest lane first.
func (c *cells) rows() iter.Seq[*atomic.Int64] {
	return func(yield func(*atomic.Int64) bool) {
		for k := range c.blocks {
			b := c.blocks[k].Load()
			if b == nil {
				continue
			}
			for i := range max(1<<k>>1, 1) {
				if !yield((*atomic.Int64)(unsafe.Add(unsafe.Pointer(b), uintptr(i)*c.row))) {
					return
				}
			}
		}
	}
}

// sum adds up word i of every row.
func (c *cells) sum(i int) (n int64) {
	for row := range c.rows() {
		n += word(row, i).Load()
	}
	return n
}
