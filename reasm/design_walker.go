package reasm

import (
	"sync/atomic"

	"corelane/rhmap"
)

// Design walker: a worker with one table walk for life evicts what it meets.
//
//	From:    mail 000, "re-introduce fragments cache worker" (2018, not merged).
//	Index:   rhmap, lookups without a lock.
//	Charge:  one atomic counter.
//	Victim:  table order, from where the walk stands.
//	Evictor: a worker, woken by a newcomer that was refused because memory is above
//	         High: 64 queues a slice, until memory is at Low.
//
//	Add ──> newcomer and charged > High? ──> Refused, and wake the worker
//	worker:  ... q  q  q  q ...  one walker, never restarted by a resize
//	              └───────> 64 a slice
//
//	Bound:   High plus what held queues go on to receive.
//	Locks:   queue.mu, then a chain's lock bit; the walk holds none.
//	Wins:    evicts a few at a time, in the background, whatever the table does.
//	Loses:   no age: live datagrams go as readily as dead ones.
//
// The mail's worker restarts its walk at the end of the table without counting
// that as work, so it spins when memory stays above Low with an empty table. Here
// a slice has a step bound, and Stats.BudgetHit counts when it bites.
type walkerDesign struct {
	plain
	c      *cache
	worker *walkWorker
}

// walkWorker is the host's, shared by the namespaces.
type walkWorker struct {
	table  *table
	wanted atomic.Bool // set by lanes that refused, cleared by the worker
	walk   *rhmap.Walker[words, queue]
	idle   int // elements passed since the last eviction or wake-up
}

const (
	evictionsPerSlice = 64
	chainsPerSlice    = 1 << 12
)

func walkerHost(h *Host) {
	t := newTable(h)
	w := &walkWorker{table: t, walk: t.t.Walk()}
	h.index, h.work, h.worksFor = t, w.run(h), w
}

func newWalker(c *cache) design { return &walkerDesign{c: c, worker: c.host.worksFor.(*walkWorker)} }

func (d *walkerDesign) create(*lane, *queue, *Fragment) bool {
	if d.c.room() >= 0 {
		return true
	}
	d.worker.wanted.Store(true)
	return false
}

// run returns the slice of work.
func (w *walkWorker) run(h *Host) func(*party, int64, int) bool {
	return func(p *party, _ int64, _ int) (more bool) {
		if !w.wanted.Swap(false) {
			return false
		}
		var refs [16]rhmap.Ref[queue]
		evicted := 0
		for chains := 0; evicted < evictionsPerSlice; chains += len(refs) {
			if chains >= chainsPerSlice {
				h.budgetHit.Add(1)
				break
			}
			n, on := w.walk.NextBatch(refs[:], len(refs))
			h.steps.Add(uint64(n))
			for _, r := range refs[:n] {
				q := r.Node
				q.mu.Lock()
				if q.ref == r && q.state == live && q.cache.excess() > 0 && p.evictLocked(q) {
					evicted++
				}
				q.mu.Unlock()
			}
			if !on {
				w.walk.Restart()
				if evicted == 0 && n == 0 && w.table.t.Len() == 0 {
					break
				}
			}
		}
		if more = evicted > 0; more {
			w.wanted.Store(true)
		}
		return more
	}
}
