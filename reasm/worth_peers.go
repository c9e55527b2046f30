package reasm

import (
	"sync"
	"sync/atomic"
)

// worthPeers remembers which sources complete datagrams: a fixed number of
// places, two of them for each source. Only a completed datagram makes an entry,
// so spoofed sources have none.
type worthPeers struct {
	// nil -> the table, once, with the first datagram that completes.
	// PUBLISH worth.peers, ACQUIRE worth.peers
	at atomic.Pointer[[peerPlaces]worthPeer]
	mu sync.Mutex // of whoever gives a place to another source
}

const (
	peerPlaces = 1 << 10
	bestScore  = 60
	wearsOff   = 97 // octave x log2(1.3)
)

// worthPeer is a source and its record. Any lane reads and writes it. Its books
// (uses, memory) are exact; of the record an update may be lost when two lanes
// make it at once, and what is left is as good an estimate.
type worthPeer struct {
	tag    atomic.Uint64 // keyed hash of the source, 0 if free; changes only while taken
	uses   atomic.Uint64 // taken | how often it was taken | queues
	memory atomic.Int64  // bytes its queues are charged, about

	success atomic.Uint64 // packed: share of datagrams that completed, by size class
	holes   atomic.Uint64 // packed: share of those that had a hole once, by size class
	gap     atomic.Int64  // decaying maximum of the longest gap in one, ns
	record  atomic.Uint64 // packed: size<<16 | score
}

const (
	taken     = 1 << 63 // the place changes its owner
	queueBits = 24
	queueMask = 1<<queueBits - 1
)

// find returns the record of the source with that tag, nil if it has none.
func (p *worthPeers) find(tag uint64) *worthPeer {
	at := p.at.Load()
	if at == nil {
		return nil
	}
	if e := &at[tag%peerPlaces]; e.tag.Load() == tag {
		return e
	}
	if e := &at[tag>>32%peerPlaces]; e.tag.Load() == tag {
		return e
	}
	return nil
}

// acquire counts a queue for the source with that tag, unless the place is
// somebody else's by now. As long as it has queues it stays that source's. first
// means that it had none.
func (e *worthPeer) acquire(tag uint64) (ok, first bool) {
	for {
		uses := e.uses.Load()
		if uses&taken != 0 || e.tag.Load() != tag {
			return false, false
		}
		// The count of owners in uses makes this fail if the tag has changed.
		if e.uses.CompareAndSwap(uses, uses+1) {
			return true, uses&queueMask == 0
		}
	}
}

// release takes back an acquire. last means that no queue is left.
func (e *worthPeer) release() (last bool) { return e.uses.Add(^uint64(0))&queueMask == 0 }

// insert makes an entry for a source that completed a datagram; nil if the two
// that live there have completed too many, or have queues.
func (p *worthPeers) insert(tag, random uint64, world *worthWorld) *worthPeer {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.at.Load()
	if at == nil {
		at = new([peerPlaces]worthPeer)
		p.at.Store(at)
	}
	e, other := &at[tag%peerPlaces], &at[tag>>32%peerPlaces]
	if e.tag.Load() == tag {
		return e // another lane was first
	}
	if e.tag.Load() != 0 && (other.tag.Load() == 0 || other.score() < e.score()) {
		e = other
	}
	// The one with the lesser record wears off: a point of score with the chance
	// 1.3^-score, so the slower the better it is.
	if score := e.score(); e.tag.Load() != 0 && score > 0 {
		if 64*octave-log2(random|1) < int64(score)*wearsOff {
			return nil
		}
		e.record.Add(^uint64(0))
		if score > 1 {
			return nil
		}
	}
	uses := e.uses.Load()
	if uses&queueMask != 0 || !e.uses.CompareAndSwap(uses, uses|taken) {
		return nil
	}
	e.tag.Store(tag)
	e.success.Store(everyClass(half))
	e.holes.Store(world.holes.Load())
	e.gap.Store(0)
	e.record.Store(0)
	e.uses.Store((uses&^queueMask + 1<<queueBits) &^ taken)
	return e
}

func (e *worthPeer) score() uint64 { return e.record.Load() & 0xffff }

// size is in units.
func (e *worthPeer) size() int64 { return int64(e.record.Load() >> 16) }
