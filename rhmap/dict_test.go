package rhmap

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"

	"corelane/internal/invariant"
)

// long asks for the longer forms of some tests: CORELANE_LONG=1 go test ./rhmap.
var long = os.Getenv("CORELANE_LONG") != ""

// dict is what Map and Table have in common, so that one suite tests both.
type dict interface {
	insert(k, v uint64) (old uint64, inserted bool)
	lookup(k uint64) (v uint64, ok bool)
	remove(k uint64) (v uint64, ok bool)
	walk() dictWalk
	core() *core
}

type dictWalk interface {
	next() (k, v uint64, ok bool)
}

// hashes are good and hostile hash functions of one word.
var hashes = map[string]func(Seed, uint64) uint64{
	"good":     func(s Seed, k uint64) uint64 { return mix(s[0] ^ mix(k^s[1])) },
	"constant": func(Seed, uint64) uint64 { return 0x1234 << 40 },
	"top4":     func(s Seed, k uint64) uint64 { return mix(s[0]^k) &^ (1<<60 - 1) },
	"low8":     func(s Seed, k uint64) uint64 { return mix(s[0]^k) >> 56 },
	"ordered":  func(_ Seed, k uint64) uint64 { return k << 52 },
}

var hashNames = []string{"good", "constant", "top4", "low8", "ordered"}

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// counter draws the hash keys 1, 2, 3 ...
func counter() func() uint64 {
	var n atomic.Uint64
	return func() uint64 { return n.Add(1) }
}

var dicts = []string{"map", "table"}

func newDict(kind, hash string) dict {
	if kind == "map" {
		return &mapDict{m: NewMap[uint64, uint64](Config[uint64]{Hasher: CustomHash(hashes[hash], counter())})}
	}
	h := hashes[hash]
	return newTableDict(Config[word1]{Hasher: CustomHash(func(s Seed, k word1) uint64 { return h(s, k[0]) }, counter())})
}

type mapDict struct{ m *Map[uint64, uint64] }

func (d *mapDict) insert(k, v uint64) (uint64, bool) {
	old, loaded := d.m.LoadOrStore(k, v)
	return old, !loaded
}
func (d *mapDict) lookup(k uint64) (uint64, bool) { return d.m.Load(k) }
func (d *mapDict) remove(k uint64) (uint64, bool) { return d.m.LoadAndDelete(k) }
func (d *mapDict) core() *core                    { return &d.m.core }
func (d *mapDict) walk() dictWalk                 { return mapDictWalk{d.m.Walk()} }

type mapDictWalk struct{ w *MapWalker[uint64, uint64] }

func (w mapDictWalk) next() (k, v uint64, ok bool) { return w.w.Next() }

type word1 [1]uint64

// item is an object of a Table, pooled: val may change only while nobody has it,
// or under mu.
type item struct {
	mu   sync.Mutex
	key  uint64 // under mu
	val  uint64 // under mu
	node Node[word1]
}

func itemNode(i *item) *Node[word1] { return &i.node }

// tableDict uses a Table as the fragment cache does: nodes come from a pool that
// gives back the one returned last, each under a lock of its own.
type tableDict struct {
	t    *Table[word1, item]
	mu   sync.Mutex
	pool []*item
}

func newTableDict(cfg Config[word1]) *tableDict { return &tableDict{t: NewTable(itemNode, cfg)} }

func (d *tableDict) get() *item {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := len(d.pool); n > 0 {
		it := d.pool[n-1]
		d.pool = d.pool[:n-1]
		return it
	}
	return new(item)
}

func (d *tableDict) put(it *item) {
	d.mu.Lock()
	d.pool = append(d.pool, it)
	d.mu.Unlock()
}

func (d *tableDict) insert(k, v uint64) (uint64, bool) {
	it := d.get()
	it.mu.Lock()
	it.key, it.val = k, v
	it.mu.Unlock()
	for {
		ref, inserted, err := d.t.InsertUnique(&word1{k}, it)
		if err != nil {
			panic(err)
		}
		if inserted {
			return v, true
		}
		if v, ok := d.read(ref, k); ok {
			d.put(it)
			return v, false
		}
	}
}

// read locks what ref names and reads it, unless it is gone.
func (d *tableDict) read(ref Ref[item], k uint64) (uint64, bool) {
	ref.Node.mu.Lock()
	defer ref.Node.mu.Unlock()
	if !d.t.Live(ref) {
		return 0, false
	}
	if ref.Node.key != k {
		panic(fmt.Sprintf("looked for %d, found %d", k, ref.Node.key))
	}
	return ref.Node.val, true
}

func (d *tableDict) lookup(k uint64) (uint64, bool) {
	for {
		ref := d.t.Lookup(&word1{k})
		if !ref.Ok() {
			return 0, false
		}
		if v, ok := d.read(ref, k); ok {
			return v, true
		}
	}
}

func (d *tableDict) remove(k uint64) (uint64, bool) {
	for {
		ref := d.t.Lookup(&word1{k})
		if !ref.Ok() {
			return 0, false
		}
		ref.Node.mu.Lock()
		v := ref.Node.val
		ok := d.t.Remove(ref)
		ref.Node.mu.Unlock()
		if ok {
			d.put(ref.Node)
			return v, true
		}
	}
}

func (d *tableDict) core() *core    { return &d.t.core }
func (d *tableDict) walk() dictWalk { return tableDictWalk{d, d.t.Walk()} }

type tableDictWalk struct {
	d *tableDict
	w *Walker[word1, item]
}

func (w tableDictWalk) next() (k, v uint64, ok bool) {
	for {
		ref, ok := w.w.Next()
		if !ok {
			return 0, 0, false
		}
		ref.Node.mu.Lock()
		k, v, live := ref.Node.key, ref.Node.val, w.d.t.Live(ref)
		ref.Node.mu.Unlock()
		if live {
			return k, v, true
		}
	}
}

// tableBatchWalk walks by NextBatch, room elements at a time.
type tableBatchWalk struct {
	d    *tableDict
	w    *Walker[word1, item]
	room int
	out  [200]Ref[item]
	refs []Ref[item] // those of out that have not come yet
}

func (w *tableBatchWalk) next() (k, v uint64, ok bool) {
	for more := true; ; {
		for len(w.refs) > 0 {
			r := w.refs[0]
			w.refs = w.refs[1:]
			r.Node.mu.Lock()
			k, v, live := r.Node.key, r.Node.val, w.d.t.Live(r)
			r.Node.mu.Unlock()
			if live {
				return k, v, true
			}
		}
		if !more {
			return 0, 0, false
		}
		var n int
		n, more = w.w.NextBatch(w.out[:w.room], 100)
		w.refs = w.out[:n]
	}
}

// check verifies, while nobody uses the table, what is promised of its shape: B1
// to B5, every entry in the chain of its hash, and the count.
func (c *core) check() error {
	seen := map[any]bool{}
	total := 0
	v := c.cur.Load()
	nv := v.next.Load()
	if nv == retired {
		return fmt.Errorf("cur has been left")
	}
	for ruling, w := range []*version{v, nv} {
		if w == nil {
			continue
		}
		for i := range w.buckets() {
			h0 := w.start(i)
			b := w.bucket(h0)
			if b == nil {
				continue
			}
			m := b.meta.Load()
			if m&(locked|parked) != 0 {
				return fmt.Errorf("chain %d is locked", i)
			}
			if ruling == 1 && m&gone != 0 {
				return fmt.Errorf("chain %d of the next version is gone", i)
			}
			if m&gone != 0 {
				continue // not ruling
			}
			hops, last := 0, b
			for o := b; o != nil; o = o.next.Load() {
				last = o
				m := o.meta.Load()
				for s := range slotsPer {
					e, tag := o.entry(s), byte(m>>(8*s))
					if (e != nil) != (tag != 0) {
						return fmt.Errorf("B1: slot %d of chain %d: entry %v, tag %x", s, i, e, tag)
					}
					if e == nil {
						continue
					}
					h := c.hash(&w.hashKey, e)
					if w.index(h) != i || byte(h&0x7f|0x80) != tag {
						return fmt.Errorf("an entry of hash %x stands in chain %d with tag %x", h, i, tag)
					}
					if seen[e] {
						return fmt.Errorf("B2: an entry stands in two slots")
					}
					seen[e] = true
					total++
				}
				hops++
			}
			if last != b && used(last.meta.Load()) == 0 {
				return fmt.Errorf("B4: chain %d ends in an empty bucket", i)
			}
			if int32(hops-1) > w.longest.Load() {
				return fmt.Errorf("chain %d has %d buckets, longest says %d", i, hops, w.longest.Load())
			}
		}
	}
	if total != c.count() {
		return fmt.Errorf("R5: %d entries, count %d", total, c.count())
	}
	if invariant.Enabled && c.limits.max > 0 && c.total.Load() != int64(total) {
		return fmt.Errorf("R8: %d entries, reserved %d", total, c.total.Load())
	}
	return nil
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, seed)) }
