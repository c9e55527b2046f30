package reasm

import (
	"math"
	"sync"

	"corelane/lru"
)

// Design worth: always accept, then give up what is worth least.
//
//	From:    none of the mails; a study of eviction policies made for this library.
//	Index:   rhmap, lookups without a lock.
//	Charge:  one atomic counter.
//	Victim:  the smallest worth among the longest idle, the longest idle with a hole,
//	         and 16 queues drawn at random. worth.go says what a queue is worth.
//	Evictor: the fragment that finds memory above High, after it was stored; it may
//	         be its own queue that goes. The fragment that completes a datagram is
//	         never refused.
//
//	Add ──> doomed? ──yes──> Refused: the rest of a datagram that was given up
//	           │
//	           no ──> queue ──> complete? ──yes──> deliver, and remember its source
//	                              │
//	                              no ──> charged > High? ──> evict the least worth
//
//	Bound:   High plus one fragment per lane.
//	Locks:   queue.mu, then the policy's lock; the evictor holds none when it locks
//	         its victim.
//	Wins:    with more datagrams in flight than memory holds it completes most of what
//	         can be completed, where the others complete nearly nothing; floods of
//	         every kind, and slow senders beside them.
//	Loses:   one lock for all lanes, twice a fragment; an eviction looks at 18 queues;
//	         a cold slow sender beside a flood of the same size; the first second of
//	         hundreds of new sources is unfair.
//
// What the policy knows of a queue is a copy under the policy's lock, so that
// judging a candidate takes no queue's lock.
type worth struct {
	plain
	c *cache
	s *worthState

	// Guarded by s.mu.
	normal, suspect lru.Global[queue] // by last fragment; suspect: those with a hole
	all             []*queue          // to draw from
	unknown         int64             // bytes of queues whose source is not known
	active          int               // known sources that have queues
}

// worthState is the host's: what was learned is shared by its namespaces, and
// bounded whatever they are sent.
type worthState struct {
	hash func(*Key) uint64
	rand func() uint64

	mu    sync.Mutex // guards the rest, and every worthView
	peers worthPeers
	doom  doomTable
	world learned

	scratch Key // of a source, to be hashed
}

// worthView is what the policy knows of a queue.
type worthView struct {
	linked   bool // in normal or suspect, and in all
	suspect  bool // in suspect
	everHole bool
	seat     bool
	pos      int // in all
	k        int // fragments held
	hint     int // fragments its first one announced; 0 is none
	created  int64
	last     int64 // time of the last stored fragment
	maxGap   int64 // longest time between two of them
	seatFor  int64 // how long a seat holds
	mem      int64 // bytes charged
	peer     *worthPeer
	peerGen  uint32 // of peer when the queue was made; another means it is unknown now
}

func worthHost(h *Host) {
	h.index = newTable(h)
	s := &worthState{hash: h.cfg.Hash, rand: h.cfg.Rand, world: newLearned()}
	if s.hash == nil {
		s.hash = keyedHash()
	}
	if s.rand == nil {
		state := s.hash(&Key{Domain: 1})
		s.rand = func() uint64 { state += 0x9e3779b97f4a7c15; return mix(state) } // under mu
	}
	h.worksFor = s
}

func newWorth(c *cache) design { return &worth{c: c, s: c.host.worksFor.(*worthState)} }

// room ends a batch where after has to act.
func (d *worth) room(*lane) int64 { return d.c.room() }

func (d *worth) create(l *lane, q *queue, f *Fragment) bool {
	s := d.s
	hash := s.hash(&q.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.peers.find(q.key.peer(), q.cache.number, s)
	s.doom.turn(l.now)
	if s.doom.has(hash) {
		// The rest of what was given up. A first fragment is let in again unless
		// its source is one whose fragments overtake each other.
		reordering := s.world.reordering
		if e != nil {
			reordering = e.reordering
		}
		if f.Offset > 0 || reordering > doomedFirst {
			return false
		}
	}
	q.view = worthView{created: l.now, last: l.now}
	v := &q.view
	if e != nil {
		v.peer, v.peerGen = e, e.gen
	}
	if f.Offset == 0 || !f.More {
		v.seat, v.seatFor = true, seatTime(hash)
	}
	return true
}

func (d *worth) link(l *lane, q *queue) {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	v := &q.view
	v.linked, v.pos, v.mem = true, len(d.all), q.charged
	d.all = append(d.all, q)
	d.normal.Insert(&q.node, l.now)
	if e := v.known(); e != nil {
		if e.queues == 0 {
			d.active++
		}
		e.queues++
	}
	d.addMemory(v, v.mem)
	l.hand = hand{q: q, fresh: true}
}

// addMemory counts bytes for the queue's source, or for those that are unknown.
func (d *worth) addMemory(v *worthView, n int64) {
	if e := v.known(); e != nil {
		e.mem += n
	} else {
		d.unknown += n
	}
}

func (d *worth) touch(l *lane, q *queue) {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	v := &q.view
	if l.hand.q != q {
		l.hand = hand{q: q}
	}
	if !v.linked {
		return // chosen by an evictor, who waits for our lock
	}
	if v.k > 0 {
		v.maxGap = max(v.maxGap, l.now-v.last)
	}
	v.k, v.last = int(q.fragments), max(v.last, l.now)
	if v.hint == 0 && q.announced > 0 && q.firstLen > 0 {
		v.hint = int((q.announced + q.firstLen - 1) / q.firstLen)
	}
	d.addMemory(v, q.charged-v.mem)
	v.mem = q.charged
	hole := !q.holes.contiguous()
	v.everHole = v.everHole || hole
	switch {
	case hole == v.suspect:
		d.list(v).Touch(&q.node, l.now)
	default:
		d.list(v).Remove(&q.node)
		v.suspect = hole
		d.list(v).Insert(&q.node, l.now)
	}
}

func (d *worth) list(v *worthView) *lru.Global[queue] {
	if v.suspect {
		return &d.suspect
	}
	return &d.normal
}

func (d *worth) unlink(q *queue, why ending) {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	if !q.view.linked {
		return // it was an evictor's
	}
	switch why {
	case completed:
		d.learn(q)
	case expired:
		d.blame(&q.view, 1)
		d.drop(q)
	default:
		d.drop(q)
	}
}

// drop takes q out of the lists and of its source's books.
func (d *worth) drop(q *queue) {
	v := &q.view
	v.linked = false
	d.list(v).Remove(&q.node)
	last := d.all[len(d.all)-1]
	d.all[v.pos], last.view.pos = last, v.pos
	d.all[len(d.all)-1] = nil
	d.all = d.all[:len(d.all)-1]
	if e := v.known(); e != nil {
		if e.queues--; e.queues == 0 {
			d.active--
		}
	}
	d.addMemory(v, -v.mem)
	v.mem = 0
}

// hand is the queue that a lane's latest fragment went to.
type hand struct {
	q     *queue
	fresh bool // the fragment made it
}

// after evicts until memory is not above High; it runs when a fragment was
// stored, with no lock held.
func (d *worth) after(l *lane) {
	at := l.hand
	l.hand = hand{}
	for d.c.room() < 0 {
		victim, key := d.choose(l, at)
		if victim == nil {
			return
		}
		l.evictKey(victim, &key)
		if victim == at.q {
			at = hand{} // more has to go only if the limit was lowered
		}
	}
}

// choose takes the queue that is worth least out of the lists, for the caller to
// evict; nil if there is none. at is the queue at hand, which goes if nothing is
// worth less.
func (d *worth) choose(l *lane, at hand) (victim *queue, key Key) {
	s := d.s
	s.mu.Lock()
	defer s.mu.Unlock()
	least := math.Inf(1)
	consider := func(q *queue) {
		if q == at.q {
			return
		}
		if w := d.worth(&q.view, l.now); w < least {
			victim, least = q, w
		}
	}
	for _, list := range []*lru.Global[queue]{&d.normal, &d.suspect} {
		if ref, ok := list.Oldest(); ok {
			consider(ref.Owner)
		}
	}
	if n := uint64(len(d.all)); n > 0 {
		for range worthSamples {
			consider(d.all[s.rand()%n])
		}
	}
	// at.q may have retired and live anew since; then it is judged as what it is.
	if q := at.q; q != nil && q.view.linked && q.cache == d.c {
		mine := d.worth(&q.view, l.now)
		if at.fresh && q.view.known() == nil && d.unknown > d.floor() {
			mine *= newcomer
		}
		if victim == nil || least > mine || least == mine && at.fresh {
			victim = q
		}
	}
	if victim == nil {
		return nil, Key{}
	}
	v := &victim.view
	idle := min(1, float64(l.now-v.last)/d.patience(v))
	d.blame(v, idle*idle)
	s.doom.add(s.hash(&victim.key))
	key = victim.key
	d.drop(victim)
	return victim, key
}
