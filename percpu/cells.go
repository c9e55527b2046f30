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
	row    uint // bytes per row; immutable
}

const wordSize = uint(unsafe.Sizeof(atomic.Int64{}))

func makeCells(words int) cells {
	const apart = uint(cacheline.Apart)
	return cells{row: (uint(words)*wordSize + apart - 1) / apart * apart}
}

// at returns the first word of the row of lane, making it if need be.
func (c *cells) at(lane int) *atomic.Int64 {
	if row := c.find(lane); row != nil {
		return row
	}
	c.grow(bits.Len(uint(lane) % maxLanes))
	return c.find(lane)
}

// add adds n to the first word of the row of lane.
func (c *cells) add(lane int, n int64) {
	if row := c.find(lane); row != nil {
		row.Add(n)
		return
	}
	c.at(lane).Add(n)
}

// find returns the first word of the row of lane, nil if no lane of its block was
// ever used.
func (c *cells) find(lane int) *atomic.Int64 {
	l := uint(lane) % maxLanes
	k := bits.Len(l)
	// ACQUIRE percpu.block
	b := c.blocks[k].Load()
	if b == nil {
		return nil
	}
	// The block starts at lane 2^(k-1); clearing that bit leaves the distance.
	return (*atomic.Int64)(unsafe.Add(unsafe.Pointer(b), l&^(1<<k>>1)*c.row))
}

// grow makes block k, unless somebody just did.
func (c *cells) grow(k int) {
	rows := max(1<<k>>1, 1)
	words := make([]atomic.Int64, uint(rows)*c.row/wordSize)
	// PUBLISH percpu.block: the words are zero before anyone can reach them. The
	// loser of the race drops its block unused.
	c.blocks[k].CompareAndSwap(nil, &words[0])
}

// word returns the i-th word from first on. The caller has checked i.
func word(first *atomic.Int64, i uint) *atomic.Int64 {
	return (*atomic.Int64)(unsafe.Add(unsafe.Pointer(first), i*wordSize))
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
				if !yield(word(b, uint(i)*c.row/wordSize)) {
					return
				}
			}
		}
	}
}

// sum adds up word i of every row.
func (c *cells) sum(i int) (n int64) {
	for row := range c.rows() {
		n += word(row, uint(i)).Load()
	}
	return n
}
