package reasm

import "sync/atomic"

// Design work-queue: a worker evicts whole buckets; the receive path only refuses.
//
//	From:    mail 001 (2014): Linux 3.17 to 4.16.
//	Index:   chained table, a lock for each chain, rehashed when a chain has passed
//	         128 queues, at most every 5 s, under a sequence count.
//	Charge:  batched counter, 130000 bytes a lane.
//	Victim:  bucket order, every queue of a bucket.
//	Evictor: a worker, woken by a fragment that finds memory above Low: 128 buckets or
//	         512 queues a run, from where it stopped. Newcomers are refused above High.
//
//	Add ──> charged > Low? ──> wake the worker ──> [bucket][bucket][bucket] ...
//	   └──> newcomer and charged > High? ──> Refused                └ all of it
//
//	Bound:   High plus the batches: lanes x 130000, and what held queues go on to receive.
//	Locks:   queue.mu, then a chain's lock.
//	Wins:    nobody evicts in the receive path; no list.
//	Loses:   no age: live datagrams go as readily as dead ones; while it rehashes,
//	         everybody waits; batches make small limits meaningless on many lanes.
type workQueue struct {
	plain
	c      *cache
	worker *bucketWorker
}

// bucketWorker is the host's, shared by the namespaces.
type bucketWorker struct {
	h      *Host
	chains *chains
	wanted atomic.Bool // set by lanes above Low, cleared by the worker
	next   uint64      // bucket to go on with; the worker's
	batch  []*queue    // the worker's
}

const (
	bucketsPerRun   = 128
	evictionsPerRun = 512
	deepestChain    = 128
	rehashEvery     = 5e9
)

func workQueueHost(h *Host) {
	w := &bucketWorker{h: h, chains: newChains(h, false, deepestChain)}
	h.index, h.work, h.newAccount = w.chains, w.run, newBatchedAccount
	h.worksFor = w
}

func newWorkQueue(c *cache) design {
	return &workQueue{c: c, worker: c.host.worksFor.(*bucketWorker)}
}

func (d *workQueue) create(*lane, *queue, *Fragment) bool {
	if d.c.room() >= 0 {
		return true
	}
	d.worker.wanted.Store(true)
	return false
}

func (d *workQueue) touch(*lane, *queue) {
	if d.c.excess() > 0 && !d.worker.wanted.Load() {
		d.worker.wanted.Store(true)
	}
}

// run is one slice of work.
func (w *bucketWorker) run(p *party, now int64, _ int) (more bool) {
	if w.chains.deep.Load() {
		w.chains.rehashAfter(now, rehashEvery)
	}
	if !w.wanted.Swap(false) {
		return false
	}
	evicted := 0
	for range bucketsPerRun {
		w.batch = w.chains.batch(w.next, w.batch[:0])
		w.next = (w.next + 1) % chainCount
		w.h.steps.Add(1)
		for _, q := range w.batch {
			q.mu.Lock()
			if q.state == live && q.cache.excess() > 0 {
				p.evictLocked(q)
				evicted++
				more = true
			}
			q.mu.Unlock()
		}
		if evicted >= evictionsPerRun {
			break
		}
	}
	clear(w.batch)
	if more {
		w.wanted.Store(true)
	}
	return more
}
