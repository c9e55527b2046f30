package reasm

import "math/bits"

// Design adaptive: the fuller memory is, the shorter the timeout.
//
//	From:    mail 003, "adaptive fragmentation timeout" (2022, not merged).
//	Index:   rhmap, lookups without a lock.
//	Charge:  one atomic counter, and one for each source.
//	Victim:  whoever expires.
//	Evictor: none; the timeout is fixed when a queue is made, as the greater of
//	         T x (Low - source's memory) / Low and T x (High - memory) / High.
//
//	Add ──> memory >= High, or source's >= Low? ──> Refused, before the lookup
//
//	Bound:   High plus one fragment per lane; Low plus one for each source.
//	Locks:   queue.mu, then a chain's lock bit; a shard of the source table.
//	Wins:    one source that loses fragments cannot take all memory for T.
//	Loses:   the greater of the two: a source that looks idle keeps a long timeout
//	         while memory is nearly full. Near the limit nothing lives long enough to
//	         complete. Spoofed sources have a share each.
//
// A source is remembered while it has a queue, so a flood of spoofed ones costs no
// more than its queues do.
type adaptive struct {
	plain
	c *cache
}

func adaptiveHost(h *Host) {
	h.index = newTable(h)
	h.peerMemory = true
}

func newAdaptive(c *cache) design { return &adaptive{c: c} }

// room asks for every fragment: each source has a limit of its own.
func (d *adaptive) room(*lane) int64 { return -1 }

func (d *adaptive) before(l *lane, f *Fragment) bool {
	return d.c.room() > 0 && d.source(l, f) < d.c.limits.low.Load()
}

// roomOf says in a number what before says yes or no to: it takes a fragment while
// something is left, not when nothing is.
func (d *adaptive) roomOf(q *queue) int64 {
	return min(d.c.room(), d.c.limits.low.Load()-q.peer.mem.Load()) - 1
}

// source returns what the fragment's source is charged. The queue that the lane's
// last fragment went to knows its source: a run of fragments asks no table.
func (d *adaptive) source(l *lane, f *Fragment) int64 {
	if q := l.last; q != nil {
		q.mu.Lock()
		if q.state == live && q.cache == d.c && q.key.equal(&f.Key) {
			defer q.mu.Unlock()
			return q.peer.mem.Load()
		}
		q.mu.Unlock()
	}
	return d.c.host.peers.memory(f.Key.peer())
}

func (d *adaptive) create(_ *lane, q *queue, _ *Fragment) bool {
	high, low := d.c.limits.high.Load(), d.c.limits.low.Load()
	byPeer := share(q.timeout, low-d.c.host.peers.memory(q.key.peer()), low)
	byAll := share(q.timeout, high-d.c.account.Used(), high)
	if h := d.c.host; d.c.number != 0 { // the fuller of the two counts
		high = h.limits.high.Load()
		byAll = min(byAll, share(q.timeout, high-h.account.Used(), high))
	}
	q.timeout = max(byPeer, byAll)
	return true
}

// share is t x part / whole: t at most, and 0 if nothing is left.
func share(t, part, whole int64) int64 {
	if part <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(t), uint64(min(part, whole)))
	q, _ := bits.Div64(hi, lo, uint64(whole))
	return int64(q)
}
