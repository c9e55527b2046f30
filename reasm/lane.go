package reasm

import (
	"math"

	"corelane/internal/cacheline"
	"corelane/lru"
)

// lane is one stream of fragments. Its plain fields belong to the goroutine that
// is using it; count is read by others.
type lane struct {
	party
	c     *cache
	id    int
	now   int64     // latest time seen
	size  int       // payload of the last datagram completed
	last  *queue    // where the previous fragment went; a hint, checked under its lock
	spare []retired // room for the next retired
	full  bool      // the design evicts after a fragment, and could not make room
	count counters
	_     cacheline.Pad
}

// party is whoever may retire queues: a lane, or the goroutine in Step. It
// collects what must be done after all locks are dropped.
type party struct {
	h       *Host
	own     *counters // the lane's; nil: those of the queue's namespace
	retired []retired
	evicted int32 // queues since the last Result
}

// retired is a queue that this party retired, and has to free.
type retired struct {
	q       *queue
	expired bool
	now     int64
}

// Add has a named result because a variable would be copied into it at the end, in
// wider pieces than it was written in, which stalls for some 5 ns.
func (l *lane) Add(now int64, f *Fragment) (r Result) {
	l.now = max(l.now, now)
	f.Key.enter(l.c.number)
	if q := l.admit(f, &r); q != nil {
		l.take(q, f, &r)
		q.mu.Unlock()
	}
	l.count.verdict(r.Verdict, 1)
	if r.Verdict == Held && l.c.after != nil && l.c.room() < 0 {
		l.full = !l.c.after.after(l)
	}
	r.Evicted, l.evicted = l.evicted, 0
	l.settle()
	return r
}

// take takes f into q, whose lock the caller holds.
func (l *lane) take(q *queue, f *Fragment, r *Result) {
	pinned := l.store(q, f, r)
	if r.Verdict == Held {
		l.c.charge(q, pinned)
		l.c.design.touch(l, q)
		if q.complete() {
			l.finish(q, r)
		}
	}
}

// admit returns the queue for f, locked and alive, or nil and the verdict.
func (l *lane) admit(f *Fragment, r *Result) *queue {
	if f.Verdict != Held {
		r.Verdict, r.Problem = f.Verdict, f.problem
		if !l.c.cfg.Quirks.EmptyQueue6 || !f.problem.Due || f.Verdict != BadLength && f.Verdict != OffsetTooLarge {
			return nil
		}
		return l.emptyQueue(f, r)
	}
	if !l.hasRoom(f) {
		r.Verdict = l.refusal()
		return nil
	}
	return l.find(f, r)
}

// hasRoom reports whether memory is not above High, or the design made room. A
// design that evicts afterwards is asked only if that was in vain.
func (l *lane) hasRoom(f *Fragment) bool {
	d := l.c.design
	if l.c.after != nil && !l.full || d.room(l) >= 0 {
		return true
	}
	l.full = !d.before(l, f)
	return !l.full
}

// refusal is the verdict on what there was no room for: what is delivered and
// not released keeps a closed cache full.
func (l *lane) refusal() Verdict {
	if l.c.closed.Load() {
		return Closed
	}
	return Refused
}

// emptyQueue makes the queue that Linux leaves behind for an IPv6 fragment it
// answers with a parameter problem.
func (l *lane) emptyQueue(f *Fragment, r *Result) *queue {
	if !l.hasRoom(f) {
		*r = Result{Verdict: l.refusal()}
		return nil
	}
	saved := *r
	q := l.find(f, r)
	if q == nil {
		return nil
	}
	q.mu.Unlock()
	*r = saved
	return nil
}

// find returns the live queue of f's key, locked; it makes one if there is none.
// nil means that f was judged already.
func (l *lane) find(f *Fragment, r *Result) *queue {
	if q := l.last; q != nil {
		q.mu.Lock()
		if q.state == live && q.key.equal(&f.Key) && q.cache == l.c && !l.stale(q) {
			return q
		}
		q.mu.Unlock()
	}
	for {
		q := l.h.index.find(&f.Key)
		if q == nil {
			q, again := l.create(f, r)
			if again {
				continue // another lane was first
			}
			l.last = q
			return q
		}
		q.mu.Lock()
		switch {
		case q.state != live || !q.key.equal(&f.Key):
			q.mu.Unlock() // it retired in between, and has left the table
		case q.cache != l.c:
			// This namespace is closed, and another one has its number by now.
			q.mu.Unlock()
			r.Verdict = Closed
			return nil
		case l.stale(q):
			l.dropStale(q)
			q.mu.Unlock()
			r.Restarted = true
		default:
			l.last = q
			return q
		}
	}
}

// stale reports whether q is past its timeout or too old to be joined.
func (l *lane) stale(q *queue) bool {
	if l.now <= q.created {
		return false
	}
	return l.now >= q.deadline || l.c.cfg.MaxAge > 0 && l.now-q.created > int64(l.c.cfg.MaxAge)
}

func (l *lane) dropStale(q *queue) {
	if l.now >= q.deadline {
		l.retire(q, evExpired, l.now)
	} else {
		l.retire(q, evTooOld, l.now)
	}
}

// create makes the queue of f's key and returns it locked. again means that the
// key is in the table by now; nil that f was judged.
func (l *lane) create(f *Fragment, r *Result) (q *queue, again bool) {
	c := l.c
	switch {
	case c.closed.Load():
		r.Verdict = Closed
		return nil, false
	case f.end() == f.Offset:
		r.Verdict = ZeroLength // it would discard the queue it makes
		if c.host.peers != nil {
			c.host.peers.saw(f.Key.peer())
		}
		return nil, false
	case !c.design.admit(l, f):
		r.Verdict = Refused
		return nil, false
	}
	q = l.h.take()
	q.mu.Lock()
	q.cache, q.key, q.lane, q.created, q.last = c, f.Key, l.id, l.now, l.now
	q.timeout = c.timeout(f.Key.Family())
	if !c.design.create(l, q, f) {
		r.Verdict = Refused
		return l.unmake(q), false
	}
	q.state = live
	if in := l.h.index.insert(q); in != inserted {
		r.Verdict = Refused // if full
		return l.unmake(q), in == present
	}
	if c.closed.Load() {
		// CROSSED close/insert: see cache.Close. Nothing may be charged any more.
		l.h.index.remove(q)
		r.Verdict = Closed
		return l.unmake(q), false
	}
	l.count.event(evMade, 1)
	q.charged = queueRecord
	if fn := c.cfg.Charge.Queue; fn != nil {
		q.charged = fn(f)
	}
	q.base = q.charged
	c.account.ChargeAt(q.lane, q.charged)
	if h := l.h; h.peers != nil && (h.peerMemory || f.Key.Family() == IPv4) {
		q.peer = h.peers.acquire(f.Key.peer())
		if h.peerMemory {
			q.peer.mem.Add(q.charged)
		}
	}
	l.h.wheels[q.lane].set(q, later(l.now, q.timeout))
	c.design.link(l, q)
	return q, false
}

// unmake gives up a queue that nobody has seen alive, and returns nil.
func (l *lane) unmake(q *queue) *queue {
	q.state = idle
	q.mu.Unlock()
	l.h.queues.Put(q)
	return nil
}

// store judges f and keeps it if it is Held. It returns the bytes newly pinned,
// which are not charged yet. The caller holds q's lock.
func (l *lane) store(q *queue, f *Fragment, r *Result) (pinned int64) {
	c := l.c
	if c.cfg.MaxDist > 0 && q.peer != nil && f.Key.Family() == IPv4 && int64(q.step()) > int64(c.cfg.MaxDist) && q.fragments > 0 {
		l.restart(q, evTooFar)
		r.Restarted = true
	}
	if r.Verdict = q.judge(f, &c.cfg.Quirks); r.Verdict != Held {
		switch {
		case r.Verdict == Overlap && f.Key.Family() == LoWPAN:
			// RFC 4944 5.3: what was held is discarded, and a fresh reassembly starts
			// with the newcomer.
			l.restart(q, evConflict)
			r.Verdict, r.Restarted = Held, true
		case r.Verdict.killed():
			l.retire(q, numEvents, l.now)
			return 0
		default:
			return 0
		}
	}
	maps := q.note(f, l.now, &c.cfg.Quirks)
	if c.cfg.Mode == Borrow {
		pinned = q.keep(f)
	} else {
		guess := 0
		if q.grows(f) {
			guess = l.guess() // which reads what others write
		}
		pinned = q.copyIn(f, &l.h.buffers, guess)
	}
	if fn := c.cfg.Charge.Fragment; fn != nil {
		return fn(f)
	}
	pinned += maps
	if f.Offset == 0 && len(q.hdr) > len(q.hdrBuf) {
		pinned += int64(cap(q.hdr))
	}
	return pinned
}

// guess is how large a datagram may become, for its buffer: as large as the last
// one, as long as memory is plentiful. Else buffers grow by doubling, so that a
// flood of first fragments pins little more than it sent.
func (l *lane) guess() int {
	if l.c.account.Used() < l.c.limits.low.Load()/2 {
		return l.size
	}
	return 0
}

// charge changes what q is charged.
func (c *cache) charge(q *queue, n int64) {
	q.charged += n
	if q.peer != nil && c.host.peerMemory {
		q.peer.mem.Add(n)
	}
	if n >= 0 {
		c.account.ChargeAt(q.lane, n)
	} else {
		c.account.UnchargeAt(q.lane, -n)
	}
}

// finish retires a complete queue: it becomes the caller's Datagram, or what was
// put together is no packet. The fragment that completed it is the last in bufs.
func (l *lane) finish(q *queue, r *Result) {
	if r.Verdict = q.judgeComplete(); r.Verdict != Complete {
		if n := len(q.bufs); n > 0 {
			q.bufs[n-1] = Buffer{} // not kept: it is still the caller's
			q.bufs = q.bufs[:n-1]
		}
		l.retire(q, numEvents, l.now)
		return
	}
	l.leave(q, completed)
	l.size = int(q.end)
	if pinned := q.gather(&l.h.buffers); l.c.cfg.Charge.Fragment == nil {
		l.c.charge(q, pinned)
	}
	r.Datagram = q.deliver()
}

// restart empties q and gives it a new life with the fragment at hand, as Linux
// does when max_dist is passed (evTooFar), and 6LoWPAN at a conflict (evConflict).
func (l *lane) restart(q *queue, ev event) {
	c := l.c
	l.count.event(ev, 1)
	c.charge(q, q.base-q.charged)
	// What it held leaves in a queue of its own, to be freed without the lock.
	old := l.h.take()
	old.buf, q.buf = q.buf, nil
	old.bufs, q.bufs = q.bufs, old.bufs
	old.cells, q.cells = q.cells, old.cells
	l.retired = append(l.retired, retired{q: old})
	size, df := q.maxSize, q.maxDF
	q.forget()
	if ev == evTooFar && c.cfg.Quirks.SizesSurviveRestart {
		q.maxSize, q.maxDF = size, df
	}
	q.created = l.now
	l.h.wheels[q.lane].set(q, later(l.now, q.timeout))
	c.design.restart(l, q)
}

// leave takes a live queue out of everything that knows it. The caller holds its
// lock, and owns it from here on.
func (p *party) leave(q *queue, why ending) {
	q.state = idle
	q.cache.design.unlink(q, why)
	p.h.index.remove(q)
	p.h.wheels[q.lane].stop(q)
	if q.peer != nil {
		if p.h.peerMemory {
			q.peer.mem.Add(-q.charged)
		}
		p.h.peers.release(q.peer)
		q.peer = nil
	}
	p.counters(q).event(evRetired, 1)
}

func (p *party) counters(q *queue) *counters {
	if p.own != nil {
		return p.own
	}
	return &q.cache.late
}

// retire takes a live queue out of the cache and gives up what it held; ev says
// why, numEvents that a verdict does. The caller holds its lock. Its memory is
// freed when the party settles.
func (p *party) retire(q *queue, ev event, now int64) {
	p.leave(q, ev.ending())
	q.cache.account.UnchargeAt(q.lane, q.charged)
	if ev != numEvents {
		p.counters(q).event(ev, 1)
	}
	p.retired = append(p.retired, retired{q: q, expired: ev == evExpired, now: now})
}

// evict retires the victim of a list unless somebody else did, and reports
// whether it did. No lock is held.
func (p *party) evict(victim lru.Ref[queue]) bool {
	q := victim.Owner
	q.mu.Lock()
	defer q.mu.Unlock()
	return victim.Current() && p.evictLocked(q)
}

// evictKey is evict for a queue that was found with a key.
func (p *party) evictKey(q *queue, k *Key) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.key.equal(k) && p.evictLocked(q)
}

// evictLocked retires q, if it lives, to make room.
func (p *party) evictLocked(q *queue) bool {
	if q.state != live {
		return false
	}
	p.retire(q, evEvicted, 0)
	p.evicted++
	return true
}

// settle frees what a lane retired, with no lock held.
func (l *lane) settle() {
	if len(l.retired) == 0 {
		return
	}
	rs := l.retired
	l.retired, l.spare = l.spare, nil // a hook may use this lane again
	l.h.settle(rs)
	clear(rs)
	l.spare = rs[:0]
}

func (c *cache) timeout(fam Family) int64 {
	switch fam {
	case IPv4:
		return int64(c.cfg.Timeout4)
	case IPv6:
		return int64(c.cfg.Timeout6)
	}
	return int64(c.cfg.TimeoutLoWPAN)
}

// later is now + d, or the end of time.
func later(now, d int64) int64 {
	if now > math.MaxInt64-d {
		return math.MaxInt64
	}
	return now + d
}
