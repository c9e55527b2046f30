package reasm

// Design hash-clean: no list; clean the chain one walks anyway.
//
//	From:    mails 002 (option 1) and 004 (age kept, no LRU): "direct hash
//	         cleaning" (2013), given up as too complicated; its code is lost, this
//	         is what the mails say of it.
//	Index:   chained table, a lock for each chain.
//	Charge:  batched counter, 130000 bytes a lane.
//	Victim:  longest idle in the chain that the fragment at hand hashes to.
//	Evictor: that fragment, one queue; a newcomer is refused while memory is above High.
//
//	Add ──> charged > High? ──yes──> chain of its key: [q  q  q] evict the longest idle
//
//	Bound:   High plus the batches: lanes x 130000, and one fragment per lane.
//	Locks:   queue.mu, then a chain's lock.
//	Wins:    no line that all lanes share, no list to keep in order.
//	Loses:   the chain holds two or three queues: the longest idle of so few is often
//	         one that was about to go on, so loss kills live datagrams. A chain holds
//	         queues of all namespaces, and those of neighbours are spared: with many
//	         of them there is nothing to clean, and newcomers are refused (mail 002:
//	         it "interacted badly with netns").
type hashClean struct {
	plain
	c      *cache
	chains *chains
}

func hashCleanHost(h *Host) {
	h.index = newChains(h, false, 0)
	h.newAccount = newBatchedAccount
}

func newHashClean(c *cache) design { return &hashClean{c: c, chains: c.host.index.(*chains)} }

func (d *hashClean) room(*lane) int64 { return d.c.room() }

func (d *hashClean) before(l *lane, f *Fragment) bool {
	if q, key := d.chains.idlest(&f.Key); q != nil {
		l.evictKey(q, &key)
	}
	return true
}

func (d *hashClean) create(*lane, *queue, *Fragment) bool { return d.c.room() >= 0 }
func (d *hashClean) link(l *lane, q *queue)               { q.seen.Store(l.now) }
func (d *hashClean) touch(l *lane, q *queue)              { q.seen.Store(l.now) }
