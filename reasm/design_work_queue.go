package reasm

// Design work-queue: a worker evicts whole buckets; the receive path only refuses.
//
//	From:    mail 001 (2014): Linux 3.17 to 4.16.
//	Index:   chained table, a lock for each chain, rehashed when a chain has passed
//	         128 queues, at most every 5 s, under a sequence count.
//	Charge:  batched counter, 130000 bytes a lane.
//	Victim:  bucket order, every queue of a bucket.
//	Evictor: a worker, woken by a fragment that finds memory above Low: 128 buckets or
//	         512 queues a run, from where it stopped, for whoever asked; when it is the
//	         host that is above its Low, any namespace's queue will do. Newcomers are
//	         refused above High.
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
	wishes
	h      *Host
	chains *chains
	next   uint64   // bucket to go on with
	vain   int      // buckets since the last eviction
	batch  []*queue // room for a bucket
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
	d.worker.ask(d.c)
	return false
}

func (d *workQueue) touch(*lane, *queue) {
	if d.c.excess() > 0 {
		d.worker.ask(d.c)
	}
}

// run is one run of the worker.
func (w *bucketWorker) run(p *party, now int64, budget int) (more bool) {
	if w.chains.deep.Load() {
		w.chains.rehashAfter(now, rehashEvery)
	}
	evicted := 0
	for range min(bucketsPerRun, budget) {
		if !w.left() {
			w.vain = 0
			return false
		}
		w.h.steps.Add(1)
		n := w.clean(p, w.next)
		w.next = (w.next + 1) % chainCount
		if n > 0 {
			w.vain = 0
		} else if w.vain++; w.vain > chainCount {
			w.vain = 0
			w.giveUp() // a lap in vain
			return false
		}
		if evicted += n; evicted >= min(evictionsPerRun, budget) {
			break
		}
	}
	return w.left()
}

// clean evicts the queues in a bucket of namespaces above Low, or of all if their
// host is, and returns how many.
func (w *bucketWorker) clean(p *party, bucket uint64) (evicted int) {
	w.batch = w.chains.batch(bucket, w.batch[:0])
	for _, q := range w.batch {
		q.mu.Lock()
		if q.state == live && q.cache.excess() > 0 && p.evictLocked(q) {
			evicted++
		}
		q.mu.Unlock()
	}
	clear(w.batch)
	return evicted
}
