package reasm

import (
	"iter"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
)

// chains is a table of fixed size with chained queues, as Linux had until 2018:
// one lock for all (global), or one for each chain. It is rehashed under a fresh
// secret now and then; whoever looks a key up meanwhile waits, for a sequence
// count says that its chain may be the wrong one. That is the table's fault, and
// it is kept: under attack a rehash stops everybody (RE-L1).
//
// The count is read before and after a chain's lock is taken, and nobody touches
// a chain but under its lock, so this sequence lock has no data race.
type chains struct {
	hash   func(*Key) uint64
	global bool // one lock for all chains
	limit  int  // longest chain that takes another queue; 0 means any

	// seq is odd while a rehash runs. Written by rehash, one at a time; read by all.
	seq    atomic.Uint64
	secret atomic.Uint64 // written by rehash while seq is odd
	deep   atomic.Bool   // a chain was at its limit; set by insert, cleared by rehash

	last  int64 // time of the last rehash; the worker's
	locks [chainCount]struct {
		sync.Mutex
		_ [56]byte
	}
	// heads[i] and the chain behind it are guarded by locks[i], or locks[0] if global.
	heads [chainCount]*queue
}

// chainCount is INETFRAGS_HASHSZ of Linux 3.9 to 4.16.
const chainCount = 1 << 10

func newChains(h *Host, global bool, limit int) *chains {
	t := &chains{hash: h.cfg.Hash, global: global, limit: limit, last: math.MinInt64}
	if t.hash == nil {
		t.hash = keyedHash()
	}
	return t
}

// lock locks the chain of a hash and returns its number.
func (t *chains) lock(hash uint64) (at uint64, l *sync.Mutex) {
	for {
		seq := t.seq.Load()
		at = mix(hash^t.secret.Load()) % chainCount
		l = t.mutex(at)
		l.Lock()
		// ACQUIRE rehash: an even count that has not moved means that the secret
		// above was the one the chains are built with, and that a rehash which
		// begins now waits for this lock before it touches the chain.
		if seq&1 == 0 && t.seq.Load() == seq {
			return at, l
		}
		l.Unlock()
		runtime.Gosched()
	}
}

func (t *chains) mutex(at uint64) *sync.Mutex {
	if t.global {
		at = 0
	}
	return &t.locks[at].Mutex
}

func (t *chains) find(k *Key) *queue {
	hash := t.hash(k)
	at, l := t.lock(hash)
	q, _ := t.look(at, k, hash)
	l.Unlock()
	return q
}

// look searches a chain, whose lock the caller holds, and counts what it passed.
func (t *chains) look(at uint64, k *Key, hash uint64) (q *queue, passed int) {
	for q = t.heads[at]; q != nil; q = q.chain {
		if q.hash == hash && q.key.equal(k) {
			return q, passed
		}
		passed++
	}
	return nil, passed
}

func (t *chains) insert(q *queue) insertion {
	q.hash = t.hash(&q.key)
	at, l := t.lock(q.hash)
	defer l.Unlock()
	switch old, passed := t.look(at, &q.key, q.hash); {
	case old != nil:
		return present
	case t.limit > 0 && passed >= t.limit:
		t.deep.Store(true)
		return full
	}
	q.chain = t.heads[at]
	t.heads[at] = q
	return inserted
}

func (t *chains) remove(q *queue) {
	at, l := t.lock(q.hash)
	defer l.Unlock()
	for p := &t.heads[at]; *p != nil; p = &(*p).chain {
		if *p == q {
			*p, q.chain = q.chain, nil
			return
		}
	}
	panic("reasm: retired queue is not in its chain")
}

// idlest returns the queue in k's chain that was touched longest ago, but for
// k's own and those of other namespaces, with its key; nil if there is none. It
// may be gone when this returns.
func (t *chains) idlest(k *Key) (victim *queue, key Key) {
	at, l := t.lock(t.hash(k))
	defer l.Unlock()
	for q := t.heads[at]; q != nil; q = q.chain {
		if q.key.tag>>nsShift == k.tag>>nsShift && !q.key.equal(k) && (victim == nil || q.seen.Load() < victim.seen.Load()) {
			victim, key = q, q.key
		}
	}
	return victim, key
}

// batch appends the queues of chain number at to qs.
func (t *chains) batch(at uint64, qs []*queue) []*queue {
	l := t.mutex(at)
	l.Lock()
	defer l.Unlock()
	for q := t.heads[at]; q != nil; q = q.chain {
		qs = append(qs, q)
	}
	return qs
}

// batches runs under the host's stepMu or while a walk may miss what moves: a
// rehash meanwhile may hide a queue from it, or show it twice.
func (t *chains) batches() iter.Seq[[]*queue] {
	return func(yield func([]*queue) bool) {
		var qs []*queue
		for at := range uint64(chainCount) {
			if qs = t.batch(at, qs[:0]); !yield(qs) {
				return
			}
		}
	}
}

// rehash spreads the queues anew. Only one goroutine at a time may call it.
func (t *chains) rehash(secret uint64) {
	t.seq.Add(1)
	t.secret.Store(secret)
	t.deep.Store(false)
	for at := range uint64(chainCount) {
		l := t.mutex(at)
		l.Lock()
		q := t.heads[at]
		t.heads[at] = nil
		l.Unlock()
		for q != nil {
			next := q.chain
			to := mix(q.hash^secret) % chainCount
			l := t.mutex(to)
			l.Lock()
			q.chain = t.heads[to]
			t.heads[to] = q
			l.Unlock()
			q = next
		}
	}
	// PUBLISH rehash: every queue is in the chain that the secret says.
	t.seq.Add(1)
}

// rehashAfter rehashes if the last time was interval ago or longer, or it has
// never been asked before, in which case that begins now.
func (t *chains) rehashAfter(now, interval int64) bool {
	if t.last == math.MinInt64 {
		t.last = now
	}
	if now-t.last < interval {
		return false
	}
	t.last = now
	t.rehash(mix(t.secret.Load() + t.hash(new(Key)) + 1))
	return true
}
