package reasm

import "corelane/rhmap"

// Design walker: a worker with one table walk for life evicts what it meets.
//
//	From:    mail 000, "re-introduce fragments cache worker" (2018, not merged).
//	Index:   rhmap, lookups without a lock.
//	Charge:  one atomic counter.
//	Victim:  table order, from where the walk stands.
//	Evictor: a worker, woken by a newcomer that was refused because memory is above
//	         High: 64 queues a slice, until memory is at Low. It serves whoever asked;
//	         when it is the host that is above its Low, any namespace's queue will do.
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
// that as work, so it spins while memory is above Low with nothing to evict:
// with everything out in datagrams, say. Here it gives up after a lap in vain,
// and a slice has a step bound; Stats.BudgetHit counts when that bites.
type walkerDesign struct {
	plain
	c      *cache
	worker *walkWorker
}

// walkWorker is the host's, shared by the namespaces.
type walkWorker struct {
	wishes
	h      *Host
	walk   *rhmap.Walker[words, queue]
	inVain bool                 // nothing was evicted since the walk last began anew
	refs   [16]rhmap.Ref[queue] // room for what the walk finds next; here, so that a slice of work allocates nothing
}

const (
	evictionsPerSlice = 64
	chainsPerSlice    = 1 << 12
)

func walkerHost(h *Host) {
	t := newTable(h)
	w := &walkWorker{h: h, walk: t.t.Walk()}
	h.index, h.work, h.worksFor = t, w.run, w
}

func newWalker(c *cache) design { return &walkerDesign{c: c, worker: c.host.worksFor.(*walkWorker)} }

func (d *walkerDesign) create(*lane, *queue, *Fragment) bool {
	if d.c.room() >= 0 {
		return true
	}
	d.worker.ask(d.c)
	return false
}

// run is one slice of work.
func (w *walkWorker) run(p *party, _ int64, budget int) (more bool) {
	refs := &w.refs
	evictions := min(evictionsPerSlice, budget)
	for chains := 0; w.left(); chains += len(refs) {
		switch {
		case evictions == 0:
			return true
		case chains >= chainsPerSlice:
			w.h.budgetHit.Add(1)
			return true
		}
		n, on := w.walk.NextBatch(refs[:min(len(refs), evictions)], len(refs))
		w.h.steps.Add(uint64(n))
		for _, r := range refs[:n] {
			if w.evict(p, r) {
				evictions--
				w.inVain = false
			}
		}
		if on {
			continue
		}
		w.walk.Restart()
		if w.inVain {
			w.giveUp()
		}
		w.inVain = !w.inVain
	}
	w.inVain = false
	return false
}

// evict retires a queue of a namespace that is above Low, or whose host is.
func (w *walkWorker) evict(p *party, r rhmap.Ref[queue]) bool {
	q := r.Node
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ref == r && q.state == live && q.cache.excess() > 0 && p.evictLocked(q)
}
