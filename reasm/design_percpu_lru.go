package reasm

import (
	"sync/atomic"

	"corelane/internal/cacheline"
	"corelane/lru"
)

// Design percpu-lru: a list, a lock and a limit for each lane.
//
//	From:    mail 002, "frag LRU list per CPU" (2013); its code is lost, this is
//	         what the mail says of it.
//	Index:   chained table, a lock for each chain.
//	Charge:  per lane, to the lane that made the queue.
//	Victim:  oldest on this lane.
//	Evictor: the fragment that finds its lane above its limit, on its own list.
//
//	lane 0: [old ... new] <= High/2 ──┐
//	lane 1: [old ... new] <= High/2 ──┼── one table, key -> queue
//	lane 2: [old ... new] <= High/2 ──┘
//
//	The limits are per lane, and half as high as the global ones were: the mail
//	made 2 MiB of 4.
//
//	Bound:   lanes x (High/2 plus one fragment): it grows with the machine (the
//	         objection in the mail).
//	Locks:   queue.mu, then a chain's or a lane's lock.
//	Wins:    no shared line, as long as a datagram's fragments stay on one lane.
//	Loses:   a lane that is crowded evicts while its neighbours stand empty; a queue
//	         whose fragments arrive elsewhere charges, and ages on, the lane that made it.
type percpuLRU struct {
	plain
	c    *cache
	used *laneAccount
	list *lru.PerCPU[queue]
}

func percpuLRUHost(h *Host) {
	h.index = newChains(h, false, 0)
	h.newAccount = func(h *Host, parent account, _ Limits) account {
		up, _ := parent.(*laneAccount)
		return &laneAccount{parent: up, lanes: make([]laneWord, h.cfg.Lanes)}
	}
}

func newPerCPULRU(c *cache) design {
	list, err := lru.NewPerCPU[queue](lru.Config{Lanes: c.cfg.Lanes})
	if err != nil {
		panic("reasm: " + err.Error()) // Config.validate allows fewer lanes
	}
	return &percpuLRU{c: c, used: c.account.(*laneAccount), list: list}
}

func (d *percpuLRU) room(l *lane) int64 {
	room := d.c.limits.high.Load()/2 - d.used.lane(l.id)
	if up := d.used.parent; up != nil {
		room = min(room, l.h.limits.high.Load()/2-up.lane(l.id))
	}
	return room
}

func (d *percpuLRU) excess(l *lane) int64 {
	excess := d.used.lane(l.id) - d.c.limits.low.Load()/2
	if up := d.used.parent; up != nil {
		excess = max(excess, up.lane(l.id)-l.h.limits.low.Load()/2)
	}
	return excess
}

func (d *percpuLRU) before(l *lane, _ *Fragment) bool {
	for d.excess(l) > 0 {
		victim, ok := d.list.PopOwn(l.id)
		if !ok {
			return d.room(l) >= 0
		}
		l.evict(victim)
	}
	return true
}

func (d *percpuLRU) link(l *lane, q *queue)    { d.list.Insert(l.id, &q.node, l.now) }
func (d *percpuLRU) touch(l *lane, q *queue)   { d.list.Touch(&q.node, l.now) }
func (d *percpuLRU) unlink(q *queue, _ ending) { d.list.Remove(&q.node) }

// laneAccount is a counter for each lane, added up by whoever asks for the sum.
type laneAccount struct {
	parent *laneAccount
	lanes  []laneWord
}

type laneWord struct {
	n atomic.Int64
	_ [cacheline.Apart - 8]byte
}

func (a *laneAccount) ChargeAt(lane int, n int64) {
	for ; a != nil; a = a.parent {
		a.lanes[lane].n.Add(n)
	}
}

func (a *laneAccount) UnchargeAt(lane int, n int64) { a.ChargeAt(lane, -n) }

func (a *laneAccount) Used() (n int64) {
	for i := range a.lanes {
		n += a.lanes[i].n.Load()
	}
	return n
}

func (a *laneAccount) Exact() (int64, error) { return a.Used(), nil }
func (a *laneAccount) Close() error          { return nil }

func (a *laneAccount) lane(i int) int64 { return a.lanes[i].n.Load() }
