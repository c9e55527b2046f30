package reasm

import "corelane/lru"

// Design global-lru: one list of all queues, the least recently updated goes.
//
//	From:    what mails 001, 002 and 004 start from: Linux 2.6 to 3.8.
//	Index:   chained table under one lock, rehashed every 10 minutes.
//	Charge:  one atomic counter.
//	Victim:  least recently updated.
//	Evictor: the fragment that finds memory above High evicts down to Low, then goes on.
//
//	Add ──> charged > High? ──yes──> evict [oldest ... ] until <= Low
//	              │                       │
//	              └───────────────────────┴──> table ──> queue ──> newest end of the list
//
//	Bound:   High plus one fragment per lane.
//	Locks:   queue.mu, then the table's or the list's lock; the evictor holds none
//	         when it locks its victim.
//	Wins:    never stuck: dead queues are the oldest and leave first.
//	Loses:   every fragment of every flow takes the same two locks; with more
//	         datagrams in flight than memory holds, each evicts the one that was
//	         about to go on, and nobody completes; a fast flood ages a slow sender out.
type globalLRU struct {
	plain
	c    *cache
	list lru.Global[queue]
}

func globalLRUHost(h *Host) {
	chains := newChains(h, true, 0)
	h.index = chains
	h.work = func(_ *party, now int64, _ int) bool { chains.rehashAfter(now, reseedEvery); return false }
}

// reseedEvery is Linux's ipfrag_secret_interval.
const reseedEvery = 600e9

func newGlobalLRU(c *cache) design { return &globalLRU{c: c} }

func (d *globalLRU) room(*lane) int64 { return d.c.room() }

func (d *globalLRU) before(l *lane, _ *Fragment) bool {
	for d.c.excess() > 0 {
		victim, ok := d.list.PopOldest()
		if !ok {
			return d.c.room() >= 0 // the rest is out in datagrams, or a neighbour's
		}
		l.evict(victim)
	}
	return true
}

func (d *globalLRU) link(l *lane, q *queue)    { d.list.Insert(&q.node, l.now) }
func (d *globalLRU) touch(l *lane, q *queue)   { d.list.Touch(&q.node, l.now) }
func (d *globalLRU) unlink(q *queue, _ ending) { d.list.Remove(&q.node) }
