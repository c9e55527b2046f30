package reasm

import (
	"sync"
	"sync/atomic"

	"corelane/internal/cacheline"
)

// worthView is what the policy notes about a queue, besides what the queue knows.
// Guarded by the queue's lock, but for at.
type worthView struct {
	peer    *worthPeer // record of its source; nil if that is unknown
	hash    uint64     // of its key
	source  uint64     // tag of its source
	last    int64      // time of the last touch
	gap     int64      // longest time between two
	counted int64      // bytes charged, as they stand in its source's books
	hint    int32      // fragments its first one announced; 0 is none
	life    uint32     // counts the lives of the queue
	hole    bool       // it had one when it was touched
	seat    bool
	at      int32 // its slot; guarded by the lock of its lane
}

// worthLane is what belongs to the queues that one lane made.
type worthLane struct {
	mu sync.Mutex // of whoever links or unlinks a queue of this lane
	// size is how many slots are in use. Written under mu, read by anyone.
	size atomic.Int32
	// slots are replaced under mu when they grow or shrink. A slot is written
	// under mu, and read by anyone: whoever finds a queue locks it, and looks.
	// PUBLISH worth.slots, ACQUIRE worth.slots
	slots atomic.Pointer[[]atomic.Pointer[queue]]

	// Sums over all lanes say what is true; a lane's own may be below 0, because a
	// source may have queues of several.
	active  atomic.Int64 // known sources that have queues
	unknown atomic.Int64 // bytes of queues whose source is not known

	pace worthPace

	_ cacheline.Pad

	// Of the goroutine that uses the lane.
	random   uint64
	newcomer worthView // admitted, and not linked yet
	scratch  Key       // of the newcomer's source
	_        cacheline.Pad
}

const fewSlots = 64

// push gives q a slot. The caller holds q's lock.
func (n *worthLane) push(q *queue) {
	n.mu.Lock()
	size := int(n.size.Load())
	slots := n.slots.Load()
	if slots == nil || size == len(*slots) {
		slots = n.resize(max(2*size, fewSlots))
	}
	q.view.at = int32(size)
	(*slots)[size].Store(q)
	n.size.Store(int32(size) + 1)
	n.mu.Unlock()
}

// pull takes q's slot back. The caller holds q's lock.
func (n *worthLane) pull(q *queue) {
	n.mu.Lock()
	size := int(n.size.Load()) - 1
	slots := n.slots.Load()
	if last := (*slots)[size].Load(); last != q {
		(*slots)[q.view.at].Store(last)
		last.view.at = q.view.at
	}
	n.size.Store(int32(size))
	// Nil, so that what is idle in a pool can be given to the collector.
	(*slots)[size].Store(nil)
	if len(*slots) > fewSlots && size < len(*slots)/4 {
		n.resize(len(*slots) / 2)
	}
	n.mu.Unlock()
}

// resize moves to that many slots. The caller holds mu.
func (n *worthLane) resize(to int) *[]atomic.Pointer[queue] {
	slots := make([]atomic.Pointer[queue], to)
	if old := n.slots.Load(); old != nil {
		for i := range n.size.Load() {
			slots[i].Store((*old)[i].Load())
		}
	}
	n.slots.Store(&slots)
	return &slots
}

// at returns the queue in slot i, nil if there is none any more.
func (n *worthLane) at(i int) *queue {
	slots := n.slots.Load()
	if slots == nil || i >= len(*slots) {
		return nil
	}
	return (*slots)[i].Load()
}

// next is the lane's next random number (Steele, Lea, Flood 2014: SplitMix64).
func (n *worthLane) next() uint64 {
	n.random += 0x9e3779b97f4a7c15
	return mix(n.random)
}

// victim is a queue that somebody chose, and in which life.
type victim struct {
	q     *queue
	life  uint32
	worth int64
}

// choose returns the queue that is worth least of a few drawn at random: one out
// of each of as many equal parts of all queues, so that no lane has to be
// asked twice. It judges each under its lock; one that is locked is getting a
// fragment, and not a candidate. It holds no lock when it returns.
func (d *worth) choose(l *lane, s *scene, samples int64) (least victim) {
	own := &d.lanes[l.id]
	least.worth = tooMuch
	lane, before := 0, int64(0) // queues of the lanes before lane
	for part := range samples {
		from, to := part*s.queues/samples, (part+1)*s.queues/samples
		pick := from
		if width := uint64(max(to-from, 1)); width > 1 {
			pick += int64(own.next() >> 32 * width >> 32)
		}
		for lane < len(d.lanes)-1 {
			size := int64(d.lanes[lane].size.Load()) // once: it may grow meanwhile, past pick
			if pick-before < size {
				break
			}
			before += size
			lane++
		}
		q := d.lanes[lane].at(int(pick - before))
		if q == nil || !q.mu.TryLock() {
			continue
		}
		if q.state == live && q.cache == d.c {
			if w := s.judge(q, l.now); w < least.worth {
				least = victim{q, q.view.life, w}
			}
		}
		q.mu.Unlock()
	}
	return least
}

// judge is what a queue is worth. The caller holds its lock.
func (s *scene) judge(q *queue, now int64) int64 {
	c := q.candidate(now)
	return s.worth(&c)
}

// candidate is q as it is judged. The caller holds its lock.
func (q *queue) candidate(now int64) candidate {
	v := &q.view
	return candidate{
		peer: v.peer, hash: v.hash, fragments: int64(q.fragments), hint: int64(v.hint),
		memory: q.charged, counted: v.counted,
		age: now - q.created, idle: now - v.last, gap: v.gap,
		hole: !q.holes.contiguous(), seat: v.seat,
	}
}
