package reasm

import (
	"sync"
	"sync/atomic"
)

// peer counts what one source sends, while the cache holds a queue of it.
type peer struct {
	rid  atomic.Uint32 // fragments seen; the distance of max_dist is a difference of two
	mem  atomic.Int64  // bytes its queues are charged, if the host counts them
	refs int           // queues; guarded by the shard's lock
	key  peerKey
}

// peerKey names a source within a namespace: what the neighbours hear from the
// same address is another one's.
type peerKey struct{ hi, lo, domain, space uint64 }

func (k *Key) peer() peerKey { return peerKey{k.SrcHi, k.SrcLo, k.Domain, k.tag >> nsShift} }

// peers is the table of sources with queues. A peer lives exactly as long as a
// queue refers to it: distances are only ever taken between fragments of one
// queue, so nothing older matters, and a flood of spoofed sources costs no more
// than its queues do.
type peers struct {
	shards [peerShards]peerShard
	pool   sync.Pool
}

const peerShards = 64

type peerShard struct {
	mu sync.Mutex
	m  map[peerKey]*peer
	_  [40]byte
}

func (p *peers) shard(k peerKey) *peerShard {
	h := (k.hi ^ k.lo*0x9e3779b97f4a7c15 ^ k.domain ^ k.space<<nsShift) * 0x9e3779b97f4a7c15
	return &p.shards[h>>58]
}

// acquire returns the peer of k with a reference more.
func (p *peers) acquire(k peerKey) *peer {
	s := p.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == nil {
		s.m = make(map[peerKey]*peer)
	}
	e := s.m[k]
	if e == nil {
		if e, _ = p.pool.Get().(*peer); e == nil {
			e = new(peer)
		}
		e.key = k
		e.rid.Store(0)
		e.mem.Store(0)
		s.m[k] = e
	}
	e.refs++
	return e
}

// release drops a reference, and the peer with the last one.
func (p *peers) release(e *peer) {
	s := p.shard(e.key)
	s.mu.Lock()
	e.refs--
	last := e.refs == 0
	if last {
		delete(s.m, e.key)
	}
	s.mu.Unlock()
	if last {
		p.pool.Put(e)
	}
}

// saw counts a fragment that made no queue, if its source has one.
func (p *peers) saw(k peerKey) {
	s := p.shard(k)
	s.mu.Lock()
	if e := s.m[k]; e != nil {
		e.rid.Add(1)
	}
	s.mu.Unlock()
}

// memory returns what the queues of k's source are charged.
func (p *peers) memory(k peerKey) int64 {
	s := p.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.m[k]; e != nil {
		return e.mem.Load()
	}
	return 0
}

// step counts a fragment of q's source and returns how many there were since
// q's previous one, this one included. Call it with q.mu held.
func (q *queue) step() uint32 {
	rid := q.peer.rid.Add(1)
	dist := rid - q.rid
	q.rid = rid
	return dist
}
