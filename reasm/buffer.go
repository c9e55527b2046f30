package reasm

import (
	"math/bits"
	"sync"
)

// buffer is memory of the cache's own: in Copy the datagram being put together,
// or the copy of a fragment that arrived before what precedes it.
type buffer struct {
	b     []byte
	class uint8
}

// Size classes are powers of two: 128 bytes to 128 KiB. The largest holds the
// longest thing IPv4 fragments can describe, 65528+65515 bytes, because Linux
// stores those before it refuses them.
const (
	minClass = 7
	maxClass = 17
)

// bufferPool recycles buffers by class. Each has front bytes more than its
// class, so that headers fit in front of the payload. Safe for concurrent use;
// what is idle belongs to the garbage collector.
type bufferPool struct {
	front int
	pools [maxClass + 1]sync.Pool
}

// get returns a buffer with room for n bytes behind the front.
func (p *bufferPool) get(n int) *buffer {
	class := max(bits.Len(uint(max(n, 1)-1)), minClass)
	if b, ok := p.pools[class].Get().(*buffer); ok {
		return b
	}
	return &buffer{b: make([]byte, p.front+1<<class), class: uint8(class)}
}

func (p *bufferPool) put(b *buffer) {
	p.pools[b.class].Put(b)
}

// room returns how many bytes fit behind the front.
func (b *buffer) room() int { return 1 << b.class }
