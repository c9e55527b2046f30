package reasm

import "corelane/memacct"

// Design worth: give up what is worth least, be it the newcomer.
//
//	From:    none of the mails; a study of eviction policies made for this library.
//	Index:   rhmap, lookups without a lock.
//	Charge:  a stock: each lane counts by itself; exactly, once High was passed,
//	         until an eighth of it is free.
//	Victim:  the smallest worth among 16 queues drawn at random, 4 for a newcomer of
//	         an unknown source. worth.go says what a queue is worth.
//	Evictor: the fragment that finds memory above High, after it was stored; it may
//	         be its own queue that goes. The fragment that completes a datagram is
//	         never refused, and evicts nobody. A newcomer that would have to go
//	         itself is refused before anything is made for it.
//
//	Add ──> new? ──yes──> doomed? ──yes──> Refused: the rest of a datagram that was given up
//	          │              no ──> room, or somebody worth less? ──no──> Refused, and doomed
//	          no                             │ yes: evict
//	          └──────────────> queue <───────┘
//	                             └──> complete? ──yes──> deliver, and remember its source
//	                                     no ──> charged > High? ──> evict the least worth
//
//	Bound:   High plus one fragment per lane, in AddBatch one run.
//	Locks:   queue.mu, then a lane's lock at birth and death only. A candidate is
//	         judged under its own lock, if that is free; the evictor holds none when
//	         it locks its victim.
//	Wins:    with more datagrams in flight than memory holds it completes most of what
//	         can be completed, where the others complete nearly nothing; floods of
//	         every kind, and slow senders beside them.
//	Loses:   an eviction looks at 16 queues, so it costs more than a list's; a cold
//	         slow sender beside a flood of the same size; the first second of hundreds
//	         of new sources is unfair; who forges fragments of a known source makes
//	         the cache keep them for longer than a list would.
//
// There is no list: a touch takes no lock, and of what other lanes read it writes
// its source's books only, a few times a datagram. A queue has a slot on the lane
// that made it, and candidates are drawn from the slots of all lanes
// (worth_lane.go), so it does not matter how datagrams are spread over them.
// Shards by key, the study's other way, would choose as well; but birth and death
// would then write lines of every other lane.
type worth struct {
	plain
	c     *cache
	s     *worthState
	stock *memacct.Stock // the account of c
	lanes []worthLane
	off   parts // rules that are left out; immutable
}

// worthState is the host's: what was learned is shared by its namespaces, and
// bounded whatever they are sent.
type worthState struct {
	hash  func(*Key) uint64 // keyed; immutable
	seed  uint64            // immutable
	peers worthPeers
	doom  doomTable
	world worthWorld
}

// Work is bounded: what a fragment looks at for an eviction, and how many it makes.
const (
	worthSamples    = 16 // 4 miss junk, 32 bring little
	newcomerSamples = 4  // for an unknown newcomer, who may displace junk only
	mostEvictions   = 64 // for one fragment
)

func worthHost(h *Host) {
	h.index = newTable(h)
	h.newAccount = newStockAccount
	s := &worthState{hash: h.cfg.Hash}
	if s.hash == nil {
		s.hash = keyedHash()
	}
	if h.cfg.Rand != nil {
		s.seed = h.cfg.Rand()
	} else {
		s.seed = s.hash(&Key{Domain: 1})
	}
	s.world.init()
	h.worksFor = s
}

func newWorth(c *cache) design {
	d := &worth{c: c, s: c.host.worksFor.(*worthState), stock: c.account.(*memacct.Stock), lanes: make([]worthLane, len(c.lanes))}
	for i := range d.lanes {
		d.lanes[i].random = mix(d.s.seed + uint64(c.number)<<32 + uint64(i))
		d.lanes[i].pace.turnover.Store(firstTurnover)
	}
	return d
}

// room ends a batch where after has to act.
func (d *worth) room(*lane) int64 { return d.c.room() }

// before is asked while memory is above High: other lanes are at work, the limit
// was lowered, or nothing is left to evict.
func (d *worth) before(l *lane, _ *Fragment) bool {
	if d.makeRoom(l, 0, nil) {
		return true
	}
	l.count.event(evNoVictim, 1)
	return false
}

// admit judges a newcomer. What it finds out is kept for link.
func (d *worth) admit(l *lane, f *Fragment) bool {
	v := d.view(l, f)
	if d.doomed(l, v, f) {
		l.count.event(evDoomed, 1)
		return false
	}
	d.came(l)
	need := d.cost(f)
	if d.fits(l, need) {
		return true
	}
	if d.makeRoom(l, need, &candidate{
		peer: v.peer, hash: v.hash, fragments: 1, hint: int64(v.hint), memory: need, hole: f.Offset > 0, seat: v.seat,
	}) {
		return true
	}
	d.s.doom.add(v.hash, l.now)
	l.count.event(evOutbid, 1)
	return false
}

// fits reports whether that much can be charged as it is. What lanes keep for
// themselves counts as used until a charge is refused.
func (d *worth) fits(l *lane, need int64) bool {
	if d.c.room() >= need {
		return true
	}
	if !d.stock.TryChargeAt(l.id, need) {
		return false
	}
	d.stock.UnchargeAt(l.id, need)
	return true
}

// view is what is known of a newcomer.
func (d *worth) view(l *lane, f *Fragment) *worthView {
	own, k := &d.lanes[l.id], &f.Key
	from := Key{SrcHi: k.SrcHi, SrcLo: k.SrcLo, Domain: k.Domain, tag: k.tag >> nsShift << nsShift}
	v := &own.newcomer
	source := v.source
	if !own.scratch.equal(&from) || source == 0 { // often it is the same as before
		own.scratch = from
		source = d.s.hash(&own.scratch) | 1
	}
	*v = worthView{hash: d.s.hash(k), source: source, last: l.now, seat: f.Offset == 0 || !f.More}
	if !d.off.off(withoutPeers) {
		v.peer = d.s.peers.find(v.source)
	}
	if f.Offset == 0 && k.Family() != LoWPAN {
		d.announce(v, f.udpLength(), f.end())
	}
	return v
}

// announce notes how many fragments there will be, by the length of all and of the
// first.
func (d *worth) announce(v *worthView, length, first uint32) {
	if v.hint == 0 && length > 0 && first > 0 && !d.off.off(withoutHint) {
		v.hint = int32((length + first - 1) / first)
	}
}

// doomed reports whether a newcomer is the rest of what was given up. A first
// fragment is let in again unless its source is one whose fragments overtake each
// other; and even then one of a few, so that a source which only looks like that,
// because somebody forges its names, can show that it is not.
func (d *worth) doomed(l *lane, v *worthView, f *Fragment) bool {
	if !d.s.doom.has(v.hash, l.now, d.lanes[l.id].pace.turnover.Load()) || d.off.off(withoutDoom) {
		return false
	}
	holes := &d.s.world.holes
	if v.peer != nil {
		holes = &v.peer.holes
	}
	return f.Offset > 0 || inClass(holes.Load(), d.class(v)) > doomedFirst && d.lanes[l.id].next()%secondChance != 0
}

// cost is about what a newcomer will be charged.
func (d *worth) cost(f *Fragment) int64 {
	n := queueRecord + bufferRecord + int64(len(f.Packet))
	if fn := d.c.cfg.Charge.Queue; fn != nil {
		n += fn(f) - queueRecord
	}
	if fn := d.c.cfg.Charge.Fragment; fn != nil {
		n += fn(f) - bufferRecord - int64(len(f.Packet))
	}
	return n
}

func (d *worth) link(l *lane, q *queue) {
	own, v := &d.lanes[l.id], &q.view
	life := v.life + 1
	*v = own.newcomer
	v.life = life
	if v.peer != nil {
		ok, first := v.peer.acquire(v.source)
		switch {
		case !ok:
			v.peer = nil
		case first:
			own.active.Add(1)
		}
	}
	own.push(q)
}

// count writes into the books of q's source that q is charged that much.
func (d *worth) count(q *queue, charged int64) {
	v := &q.view
	n := charged - v.counted
	v.counted = charged
	if v.peer != nil {
		v.peer.memory.Add(n)
	} else {
		d.lanes[q.lane].unknown.Add(n)
	}
}

func (d *worth) touch(l *lane, q *queue) {
	v := &q.view
	v.gap = max(v.gap, l.now-v.last)
	v.last = max(v.last, l.now)
	if !q.holes.contiguous() {
		v.hole = true
	}
	d.announce(v, q.announced, q.firstLen)
	// Many write the books, so they may be a quarter behind.
	if n := q.charged - v.counted; n > v.counted/4 {
		d.count(q, q.charged)
	}
}

func (d *worth) restart(l *lane, q *queue) {
	v := &q.view
	v.last, v.gap, v.hint, v.hole = l.now, 0, 0, false
	d.count(q, q.charged)
}

func (d *worth) unlink(q *queue, why ending) {
	v := &q.view
	d.lanes[q.lane].pull(q)
	switch why {
	case completed:
		d.announce(v, q.announced, q.firstLen) // a batch may complete what it began
		d.s.learn(v.peer, !d.off.off(withoutPeers), &seen{
			source: v.source, class: d.class(v), fragments: int64(q.fragments),
			gap: max(v.gap, q.last-v.last), hole: v.hole || q.holes.disordered(), turnover: d.lanes[q.lane].pace.turnover.Load(),
		}, mix(v.hash^uint64(q.last)))
	case expired:
		d.blame(v, 1<<16)
	}
	d.count(q, 0)
	if v.peer != nil && v.peer.release() {
		d.lanes[q.lane].active.Add(-1)
	}
}

// class is the size class that a queue is taken to be of.
func (d *worth) class(v *worthView) uint {
	return d.off.class(expected(v.peer, int64(v.hint), d.s.world.typicalSize()))
}

// blame lowers the record of a queue's source; how says how surely the queue would
// not have completed, 0 to 1<<16.
func (d *worth) blame(v *worthView, how uint64) {
	if v.peer != nil {
		blame(&v.peer.success, d.class(v), tellsPeer, how)
	} else {
		blame(&d.s.world.success, d.class(v), tellsWorld, how)
	}
}

// after evicts until memory is not above High; it runs when a fragment was stored
// that did not complete its datagram, with no lock held.
func (d *worth) after(l *lane) (ok bool) {
	for range mostEvictions {
		if d.c.room() >= 0 {
			return true
		}
		s := d.scene(l)
		least := d.choose(l, &s, worthSamples)
		if q := l.last; q != nil { // where the fragment went
			q.mu.Lock()
			if q.state == live && q.cache == d.c {
				if w := s.judge(q, l.now); least.q == nil || w <= least.worth {
					least = victim{q, q.view.life, w}
				}
			}
			q.mu.Unlock()
		}
		if least.q == nil {
			return false
		}
		d.evict(l, &s, least)
	}
	return d.c.room() >= 0
}

// makeRoom evicts until memory is not above High, and that many bytes more can be
// charged: for them, only what is worth less than the newcomer.
func (d *worth) makeRoom(l *lane, need int64, newcomer *candidate) bool {
	samples := int64(worthSamples)
	if newcomer != nil && newcomer.peer == nil {
		samples = newcomerSamples
	}
	for range mostEvictions {
		if d.c.room() >= need {
			return true
		}
		s := d.scene(l)
		least := d.choose(l, &s, samples)
		if least.q == nil || newcomer != nil && d.c.room() >= 0 && least.worth >= s.newcomerWorth(newcomer) {
			return false
		}
		d.evict(l, &s, least)
	}
	return d.c.room() >= need
}

// evict gives a victim up, unless it is gone already.
func (d *worth) evict(l *lane, s *scene, v victim) {
	q := v.q
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.state != live || q.cache != d.c || q.view.life != v.life {
		return
	}
	c := q.candidate(l.now)
	d.blame(&q.view, s.guilt(&c))
	d.s.doom.add(q.view.hash, l.now)
	l.evictLocked(q)
}

// scene is what the candidates of a choice are judged in, now.
func (d *worth) scene(l *lane) scene {
	var queues, active, unknown int64
	for i := range d.lanes {
		n := &d.lanes[i]
		queues += int64(n.size.Load())
		active += n.active.Load()
		unknown += n.unknown.Load()
	}
	return newScene(&d.s.world, d.c.limits.high.Load(), queues, unknown, active, d.lanes[l.id].pace.turnover.Load(), d.off)
}
