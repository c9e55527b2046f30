package reasm

import "sync"

// index is how a design finds a queue by its key. Its locks are leaves: they are
// taken with a queue's lock held, and no queue's lock is taken under them.
type index interface {
	// find returns the queue with this key, or nil. It may have been retired
	// when the caller locks it, but then it has left the index, so that another
	// find makes progress.
	find(k *Key, hash uint64) *queue
	// insert adds q, whose lock the caller holds, and returns it; or returns the
	// queue that already has the key.
	insert(q *queue) *queue
	// remove takes q out. Only the party that retires q calls it, under q's lock.
	remove(q *queue)
	// batch appends to qs the queues of some places of the table, starting at
	// cursor, and returns where to go on; next is 0 after the last place.
	batch(cursor int, qs []*queue) (next int, _ []*queue)
}

// chains is a table of fixed size with chained queues, as Linux had until 2018:
// one lock for all (global), or one for each chain.
type chains struct {
	global bool
	locks  [chainCount]struct {
		sync.Mutex
		_ [56]byte
	}
	// heads[i] and the chain behind it are guarded by locks[i], or locks[0] if global.
	heads [chainCount]*queue
}

// chainCount is INETFRAGS_HASHSZ of Linux 3.9 to 4.16.
const chainCount = 1 << 10

func newChains(global bool) *chains { return &chains{global: global} }

func (t *chains) lock(at uint64) *sync.Mutex {
	if t.global {
		at = 0
	}
	l := &t.locks[at].Mutex
	l.Lock()
	return l
}

func (t *chains) find(k *Key, hash uint64) *queue {
	at := hash % chainCount
	defer t.lock(at).Unlock()
	return t.look(at, k, hash)
}

func (t *chains) look(at uint64, k *Key, hash uint64) *queue {
	for q := t.heads[at]; q != nil; q = q.chain {
		if q.hash == hash && q.key.equal(k) {
			return q
		}
	}
	return nil
}

func (t *chains) insert(q *queue) *queue {
	at := q.hash % chainCount
	defer t.lock(at).Unlock()
	if old := t.look(at, &q.key, q.hash); old != nil {
		return old
	}
	q.chain = t.heads[at]
	t.heads[at] = q
	return q
}

func (t *chains) remove(q *queue) {
	at := q.hash % chainCount
	defer t.lock(at).Unlock()
	for p := &t.heads[at]; *p != nil; p = &(*p).chain {
		if *p == q {
			*p, q.chain = q.chain, nil
			return
		}
	}
	panic("reasm: retired queue is not in its chain")
}

func (t *chains) batch(cursor int, qs []*queue) (int, []*queue) {
	defer t.lock(uint64(cursor)).Unlock()
	for q := t.heads[cursor]; q != nil; q = q.chain {
		qs = append(qs, q)
	}
	return (cursor + 1) % chainCount, qs
}
