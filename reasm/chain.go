package reasm

import (
	"iter"
	"sync"
)

// chains is a table of fixed size with chained queues, as Linux had until 2018:
// one lock for all (global), or one for each chain.
type chains struct {
	hash   func(*Key) uint64
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

func newChains(h *Host, global bool) *chains {
	t := &chains{hash: h.cfg.Hash, global: global}
	if t.hash == nil {
		t.hash = keyedHash()
	}
	return t
}

func (t *chains) lock(at uint64) *sync.Mutex {
	if t.global {
		at = 0
	}
	l := &t.locks[at].Mutex
	l.Lock()
	return l
}

func (t *chains) find(k *Key) *queue {
	h := t.hash(k)
	l := t.lock(h % chainCount)
	q := t.look(k, h)
	l.Unlock()
	return q
}

// look searches the chain of hash h, whose lock the caller holds.
func (t *chains) look(k *Key, h uint64) *queue {
	for q := t.heads[h%chainCount]; q != nil; q = q.chain {
		if q.hash == h && q.key.equal(k) {
			return q
		}
	}
	return nil
}

func (t *chains) insert(q *queue) bool {
	q.hash = t.hash(&q.key)
	at := q.hash % chainCount
	l := t.lock(at)
	defer l.Unlock()
	if t.look(&q.key, q.hash) != nil {
		return false
	}
	q.chain = t.heads[at]
	t.heads[at] = q
	return true
}

func (t *chains) remove(q *queue) {
	at := q.hash % chainCount
	l := t.lock(at)
	defer l.Unlock()
	for p := &t.heads[at]; *p != nil; p = &(*p).chain {
		if *p == q {
			*p, q.chain = q.chain, nil
			return
		}
	}
	panic("reasm: retired queue is not in its chain")
}

func (t *chains) batches() iter.Seq[[]*queue] {
	return func(yield func([]*queue) bool) {
		var qs []*queue
		for at := range uint64(chainCount) {
			qs = qs[:0]
			l := t.lock(at)
			for q := t.heads[at]; q != nil; q = q.chain {
				qs = append(qs, q)
			}
			l.Unlock()
			if !yield(qs) {
				return
			}
		}
	}
}
