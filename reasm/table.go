package reasm

import (
	"iter"
	"unsafe"

	"corelane/rhmap"
)

// words is a Key as rhmap wants it. The two have the same memory.
type words [6]uint64

func (k *Key) words() *words { return (*words)(unsafe.Pointer(k)) }

var _ [unsafe.Sizeof(words{})]byte = [unsafe.Sizeof(Key{})]byte{}

// table is an rhmap.Table of queues: lookups without a lock, resized in small
// steps, walked meanwhile. A queue is pooled while a late lookup may still hold
// it; the Ref tells its lives apart, and so does the check under its lock.
type table struct {
	t *rhmap.Table[words, queue]
}

func newTable(h *Host) *table {
	cfg := rhmap.Config[words]{}
	if hash := h.cfg.Hash; hash != nil {
		seed := hash(new(Key))
		next := func() uint64 { seed = mix(seed + 1); return seed }
		cfg.Hasher = rhmap.CustomHash(func(s rhmap.Seed, w words) uint64 {
			return mix(hash((*Key)(unsafe.Pointer(&w))) ^ s[0])
		}, next)
	}
	return &table{rhmap.NewTable(func(q *queue) *rhmap.Node[words] { return &q.entry }, cfg)}
}

// mix is the finalizer of MurmurHash3: a bijection of 64 bits.
func mix(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

func (t *table) find(k *Key) *queue { return t.t.Lookup(k.words()).Node }

func (t *table) insert(q *queue) insertion {
	ref, ours, err := t.t.InsertUnique(q.key.words(), q)
	if err != nil {
		panic("reasm: " + err.Error()) // the table has no limit of its own and is never closed
	}
	if !ours {
		return present
	}
	q.ref = ref
	return inserted
}

func (t *table) remove(q *queue) {
	if !t.t.Remove(q.ref) {
		panic("reasm: retired queue is not in the table")
	}
}

func (t *table) batches() iter.Seq[[]*queue] {
	return func(yield func([]*queue) bool) {
		var (
			refs [64]rhmap.Ref[queue]
			qs   [64]*queue
		)
		for w, more := t.t.Walk(), true; more; {
			var n int
			n, more = w.NextBatch(refs[:], len(refs))
			for i, r := range refs[:n] {
				qs[i] = r.Node
			}
			if !yield(qs[:n]) {
				return
			}
		}
	}
}
