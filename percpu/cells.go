package percpu

import (
	"iter"
	"math/bits"
	"runtime"
	"sync/atomic"
	"unsafe"

	"corelane/internal/cacheline"
)

// maxLanes bounds the directory. Lanes beyond it share the cells of lower ones,
// which costs speed and nothing else.
const maxLanes = 1024

// cells is an array of rows of words, one row per lane, that grows and never
// moves. The lanes that were expected when it was made have their rows in one
// piece, since that is the shortest way from a lane to its row. The others have
// them in blocks that are made when needed; block k has the lanes with k bits:
//
//	        first         block 3   block 4          block 10
//	lanes   0 1 2 3     | 4 5 6 7 | 8 ... 15 | ... | 512 ... 1023
//
// So GOMAXPROCS may change as it likes (C6): a lane beyond n costs a few
// nanoseconds more. Rows are multiples of cacheline.Apart bytes, and aligned to
// it, so two lanes never share a line.
type cells struct {
	first *atomic.Int64 // immutable: the row of lane 0
	n     uint          // immutable: a power of two
	row   uint          // bytes per row; immutable
	// blocks: nil -> first word of the block, once; by whoever needs it first.
	blocks [11]atomic.Pointer[atomic.Int64]
}

const wordSize = uint(unsafe.Sizeof(atomic.Int64{}))

// makeCells makes rows of some words for lanes 0 .. lanes-1 and up to the next
// power of two; 0 means GOMAXPROCS.
func makeCells(words, lanes int) *cells {
	if lanes <= 0 {
		lanes = runtime.GOMAXPROCS(0)
	}
	const apart = uint(cacheline.Apart)
	n := uint(1) << bits.Len(uint(min(lanes, maxLanes)-1))
	c := &cells{n: n, row: (uint(words)*wordSize + apart - 1) / apart * apart}
	c.first = c.makeRows(c.n)
	return c
}

// makeRows makes zeroed rows; that many words are aligned as far as they are long.
func (c *cells) makeRows(rows uint) *atomic.Int64 {
	words := make([]atomic.Int64, rows*c.row/wordSize)
	if uintptr(unsafe.Pointer(&words[0]))%cacheline.Apart != 0 {
		words = make([]atomic.Int64, (rows+1)*c.row/wordSize)
		skip := -uintptr(unsafe.Pointer(&words[0])) % cacheline.Apart / uintptr(wordSize)
		words = words[skip:]
	}
	return &words[0]
}

// find returns the first word of the row of an expected lane, nil for others.
func (c *cells) find(lane int) *atomic.Int64 {
	if l := uint(lane); l < c.n {
		return (*atomic.Int64)(unsafe.Add(unsafe.Pointer(c.first), l*c.row))
	}
	return nil
}

// at returns the first word of the row of any lane, making it if need be.
func (c *cells) at(lane int) *atomic.Int64 {
	l := uint(lane) % maxLanes
	if l < c.n {
		return word(c.first, l*c.row/wordSize)
	}
	k := bits.Len(l)
	// ACQUIRE percpu.block
	b := c.blocks[k].Load()
	if b == nil {
		// PUBLISH percpu.block: the words are zero before anyone can reach them.
		// The loser of the race drops its block unused.
		c.blocks[k].CompareAndSwap(nil, c.makeRows(blockRows(k)))
		b = c.blocks[k].Load()
	}
	// The block starts at lane 2^(k-1); clearing that bit leaves the distance.
	return word(b, l&^(1<<k>>1)*c.row/wordSize)
}

func blockRows(k int) uint { return max(uint(1)<<k>>1, 1) }

// word returns the i-th word from first on. The caller has checked i.
func word(first *atomic.Int64, i uint) *atomic.Int64 {
	return (*atomic.Int64)(unsafe.Add(unsafe.Pointer(first), i*wordSize))
}

// lanes counts the rows that exist.
func (c *cells) lanes() int {
	n := c.n
	for k := range c.blocks {
		if c.blocks[k].Load() != nil {
			n += blockRows(k)
		}
	}
	return int(n)
}

// rows yields the first word of every row that exists, lowest lane first.
func (c *cells) rows() iter.Seq[*atomic.Int64] {
	return func(yield func(*atomic.Int64) bool) {
		for i := range c.n {
			if !yield(word(c.first, i*c.row/wordSize)) {
				return
			}
		}
		for k := range c.blocks {
			b := c.blocks[k].Load()
			if b == nil {
				continue
			}
			for i := range blockRows(k) {
				if !yield(word(b, i*c.row/wordSize)) {
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
