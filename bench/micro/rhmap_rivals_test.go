package micro

import (
	"hash/maphash"
	"sync"
	"unsafe"

	"corelane/rhmap"

	xsync3 "github.com/puzpuzpuz/xsync/v3"
	xsync4 "github.com/puzpuzpuz/xsync/v4"
)

// Keys. Rivals get each size both ways: as a struct of narrow fields, as people
// write it, and as an array of words, which is the best a rival can get. A
// Table's keys are words always, with the same bits.
type (
	struct16 struct{ A, B, C, D uint32 }
	struct40 struct{ A, B, C, D, E, F, G, H, I, J uint32 }
	words16  [2]uint64
	words40  [5]uint64
)

// wordsOf and the conversions below spread the number of a key over its bits.
func keyMix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func makeWords16(i uint64) words16 { return words16{keyMix(i), i} }
func makeWords40(i uint64) words40 { return words40{7, 0, keyMix(i), 0, i} }
func makeStruct16(i uint64) struct16 {
	w := makeWords16(i)
	return *(*struct16)(unsafe.Pointer(&w))
}
func makeStruct40(i uint64) struct40 {
	w := makeWords40(i)
	return *(*struct40)(unsafe.Pointer(&w))
}

// object is what every table holds: 96 bytes or a little more, each its own
// allocation, with a Node in it whether the table needs one or not.
type object[W rhmap.Words] struct {
	node  rhmap.Node[W]
	value uint64
	_     [5]uint64
}

// mapSubject is a table under measurement. Each method is one loop over its
// concrete type, so that no rival pays for an interface.
type mapSubject interface {
	loads(order []uint32) uint64 // look up key order[i], add the object's value
	// churn does n times: remove the oldest key, insert a fresh one for its object.
	// With touch it gets the object by removing, reads its value, and writes the
	// value again before it inserts, as one does who uses the objects.
	churn(n int, touch bool) uint64
	store(i int)                        // insert key number i
	walk(read bool) (n int, sum uint64) // visit every element; with read, add the object's value
}

// mapBench holds the keys 0..n-1 and their objects, and the fresh keys of churn.
type mapBench[K comparable, W rhmap.Words] struct {
	key   func(uint64) K
	word  func(uint64) W
	keys  []K
	words []W
	objs  []*object[W]
	next  uint64 // number of the next fresh key
}

func newMapBench[K comparable, W rhmap.Words](n int, key func(uint64) K, word func(uint64) W) *mapBench[K, W] {
	b := &mapBench[K, W]{key: key, word: word, next: uint64(n)}
	for i := range uint64(n) {
		b.keys = append(b.keys, key(i))
		b.words = append(b.words, word(i))
		b.objs = append(b.objs, &object[W]{value: i})
	}
	return b
}

// fresh replaces key i by a fresh one and returns the old and the new.
func (b *mapBench[K, W]) fresh(i int) (old, k K) {
	old, k = b.keys[i], b.key(b.next)
	b.keys[i] = k
	b.next++
	return old, k
}

// mapImpls are the tables compared, in the order of the reports.
var mapImpls = []string{"table", "table-batch", "map", "map-ptr", "xsync4", "xsync3", "sync.Map", "shards64"}

// subject makes an empty table of one kind.
func (b *mapBench[K, W]) subject(impl string) mapSubject {
	switch impl {
	case "table", "table-batch":
		return &tableSubject[K, W]{b: b, batch: impl == "table-batch", refs: make([]rhmap.Ref[object[W]], len(b.objs)),
			t: rhmap.NewTable(func(o *object[W]) *rhmap.Node[W] { return &o.node }, rhmap.Config[W]{})}
	case "map", "map-ptr":
		return &rhSubject[K, W]{b, rhmap.NewMap[K, *object[W]](rhmap.Config[K]{}), impl == "map-ptr"}
	case "xsync4":
		return &xsync4Subject[K, W]{b, xsync4.NewMap[K, *object[W]]()}
	case "xsync3":
		return &xsync3Subject[K, W]{b, xsync3.NewMapOf[K, *object[W]]()}
	case "sync.Map":
		return &syncSubject[K, W]{b, new(sync.Map)}
	case "shards64":
		s := &shardSubject[K, W]{b: b, seed: maphash.MakeSeed()}
		for i := range s.shards {
			s.shards[i].m = map[K]*object[W]{}
		}
		return s
	}
	panic(impl)
}

type tableSubject[K comparable, W rhmap.Words] struct {
	b     *mapBench[K, W]
	t     *rhmap.Table[W, object[W]]
	refs  []rhmap.Ref[object[W]]
	batch bool
	at    int
}

func (s *tableSubject[K, W]) loads(order []uint32) (sum uint64) {
	if !s.batch {
		for _, i := range order {
			sum += s.t.Lookup(&s.b.words[i]).Node.value
		}
		return sum
	}
	var keys [32]W
	var refs [32]rhmap.Ref[object[W]]
	for len(order) > 0 {
		n := min(len(order), len(keys))
		for j, i := range order[:n] {
			keys[j] = s.b.words[i]
		}
		s.t.LookupBatch(keys[:n], refs[:n])
		for j := range n {
			sum += refs[j].Node.value
		}
		order = order[n:]
	}
	return sum
}

// churnBatch is churn for one who gets work in batches, as packets come: it warms
// the chains of 16 old keys and 16 new ones, and then works as the others do.
func (s *tableSubject[K, W]) churnBatch(n int, touch bool) (sum uint64) {
	const batch = 16
	var keys [2 * batch]W
	for n > 0 {
		m := min(n, batch)
		for j := range m {
			keys[j] = s.b.objs[(s.at+j)%len(s.refs)].node.Key()
			keys[m+j] = s.b.word(s.b.next)
			s.b.next++
		}
		s.t.Warm(keys[:2*m])
		for j := range m {
			i := s.at
			s.at = (i + 1) % len(s.refs)
			o := s.b.objs[i]
			s.t.Remove(s.refs[i])
			if touch {
				sum += o.value
				o.value = s.b.next
			}
			s.refs[i], _, _ = s.t.InsertUnique(&keys[m+j], o)
		}
		n -= m
	}
	return sum
}

func (s *tableSubject[K, W]) churn(n int, touch bool) (sum uint64) {
	if s.batch {
		return s.churnBatch(n, touch)
	}
	for range n {
		i := s.at
		s.at = (i + 1) % len(s.refs)
		k := s.b.word(s.b.next)
		s.b.next++
		o := s.b.objs[i]
		s.t.Remove(s.refs[i])
		if touch {
			sum += o.value
			o.value = s.b.next
		}
		s.refs[i], _, _ = s.t.InsertUnique(&k, o)
	}
	return sum
}

func (s *tableSubject[K, W]) store(i int) {
	s.refs[i], _, _ = s.t.InsertUnique(&s.b.words[i], s.b.objs[i])
}

func (s *tableSubject[K, W]) walk(read bool) (n int, sum uint64) {
	if s.batch {
		var refs [256]rhmap.Ref[object[W]]
		for w, more := s.t.Walk(), true; more; {
			var got int
			got, more = w.NextBatch(refs[:], len(refs))
			n += got
			if read {
				for _, r := range refs[:got] {
					sum += r.Node.value
				}
			}
		}
		return n, sum
	}
	for w := s.t.Walk(); ; n++ {
		r, ok := w.Next()
		if !ok {
			return n, sum
		}
		if read {
			sum += r.Node.value
		}
	}
}

func (s *tableSubject[K, W]) advance() {
	for s.t.Advance(1 << 20) {
	}
}

func (s *rhSubject[K, W]) advance() {
	for s.m.Advance(1 << 20) {
	}
}

type rhSubject[K comparable, W rhmap.Words] struct {
	b   *mapBench[K, W]
	m   *rhmap.Map[K, *object[W]]
	ptr bool
}

func (s *rhSubject[K, W]) loads(order []uint32) (sum uint64) {
	if s.ptr {
		for _, i := range order {
			o, _ := s.m.LoadPtr(&s.b.keys[i])
			sum += o.value
		}
		return sum
	}
	for _, i := range order {
		o, _ := s.m.Load(s.b.keys[i])
		sum += o.value
	}
	return sum
}

func (s *rhSubject[K, W]) churn(n int, touch bool) (sum uint64) {
	at := int(s.b.next) % len(s.b.keys)
	for range n {
		old, k := s.b.fresh(at)
		o := s.b.objs[at]
		if touch {
			o, _ = s.m.LoadAndDelete(old)
			sum += o.value
			o.value = s.b.next
		} else {
			s.m.Delete(old)
		}
		s.m.Store(k, o)
		at = (at + 1) % len(s.b.keys)
	}
	return sum
}

func (s *rhSubject[K, W]) store(i int) { s.m.Store(s.b.keys[i], s.b.objs[i]) }

func (s *rhSubject[K, W]) walk(read bool) (n int, sum uint64) {
	s.m.Range(func(_ K, o *object[W]) bool {
		n++
		if read {
			sum += o.value
		}
		return true
	})
	return n, sum
}

type xsync4Subject[K comparable, W rhmap.Words] struct {
	b *mapBench[K, W]
	m *xsync4.Map[K, *object[W]]
}

func (s *xsync4Subject[K, W]) loads(order []uint32) (sum uint64) {
	for _, i := range order {
		o, _ := s.m.Load(s.b.keys[i])
		sum += o.value
	}
	return sum
}

func (s *xsync4Subject[K, W]) churn(n int, touch bool) (sum uint64) {
	at := int(s.b.next) % len(s.b.keys)
	for range n {
		old, k := s.b.fresh(at)
		o := s.b.objs[at]
		if touch {
			o, _ = s.m.LoadAndDelete(old)
			sum += o.value
			o.value = s.b.next
		} else {
			s.m.Delete(old)
		}
		s.m.Store(k, o)
		at = (at + 1) % len(s.b.keys)
	}
	return sum
}

func (s *xsync4Subject[K, W]) store(i int) { s.m.Store(s.b.keys[i], s.b.objs[i]) }

func (s *xsync4Subject[K, W]) walk(read bool) (n int, sum uint64) {
	s.m.Range(func(_ K, o *object[W]) bool {
		n++
		if read {
			sum += o.value
		}
		return true
	})
	return n, sum
}

type xsync3Subject[K comparable, W rhmap.Words] struct {
	b *mapBench[K, W]
	m *xsync3.MapOf[K, *object[W]]
}

func (s *xsync3Subject[K, W]) loads(order []uint32) (sum uint64) {
	for _, i := range order {
		o, _ := s.m.Load(s.b.keys[i])
		sum += o.value
	}
	return sum
}

func (s *xsync3Subject[K, W]) churn(n int, touch bool) (sum uint64) {
	at := int(s.b.next) % len(s.b.keys)
	for range n {
		old, k := s.b.fresh(at)
		o := s.b.objs[at]
		if touch {
			o, _ = s.m.LoadAndDelete(old)
			sum += o.value
			o.value = s.b.next
		} else {
			s.m.Delete(old)
		}
		s.m.Store(k, o)
		at = (at + 1) % len(s.b.keys)
	}
	return sum
}

func (s *xsync3Subject[K, W]) store(i int) { s.m.Store(s.b.keys[i], s.b.objs[i]) }

func (s *xsync3Subject[K, W]) walk(read bool) (n int, sum uint64) {
	s.m.Range(func(_ K, o *object[W]) bool {
		n++
		if read {
			sum += o.value
		}
		return true
	})
	return n, sum
}

type syncSubject[K comparable, W rhmap.Words] struct {
	b *mapBench[K, W]
	m *sync.Map
}

func (s *syncSubject[K, W]) loads(order []uint32) (sum uint64) {
	for _, i := range order {
		o, _ := s.m.Load(s.b.keys[i])
		sum += o.(*object[W]).value
	}
	return sum
}

func (s *syncSubject[K, W]) churn(n int, touch bool) (sum uint64) {
	at := int(s.b.next) % len(s.b.keys)
	for range n {
		old, k := s.b.fresh(at)
		o := s.b.objs[at]
		if touch {
			x, _ := s.m.LoadAndDelete(old)
			o = x.(*object[W])
			sum += o.value
			o.value = s.b.next
		} else {
			s.m.Delete(old)
		}
		s.m.Store(k, o)
		at = (at + 1) % len(s.b.keys)
	}
	return sum
}

func (s *syncSubject[K, W]) store(i int) { s.m.Store(s.b.keys[i], s.b.objs[i]) }

func (s *syncSubject[K, W]) walk(read bool) (n int, sum uint64) {
	s.m.Range(func(_, o any) bool {
		n++
		if read {
			sum += o.(*object[W]).value
		}
		return true
	})
	return n, sum
}

// shardSubject is what people write by hand: 64 plain maps, an RWMutex each.
type shardSubject[K comparable, W rhmap.Words] struct {
	b      *mapBench[K, W]
	seed   maphash.Seed
	shards [64]struct {
		mu sync.RWMutex
		m  map[K]*object[W]
		_  [64]byte
	}
}

func (s *shardSubject[K, W]) loads(order []uint32) (sum uint64) {
	for _, i := range order {
		k := s.b.keys[i]
		sh := &s.shards[maphash.Comparable(s.seed, k)>>58]
		sh.mu.RLock()
		o := sh.m[k]
		sh.mu.RUnlock()
		sum += o.value
	}
	return sum
}

func (s *shardSubject[K, W]) set(k K, o *object[W]) {
	sh := &s.shards[maphash.Comparable(s.seed, k)>>58]
	sh.mu.Lock()
	sh.m[k] = o
	sh.mu.Unlock()
}

func (s *shardSubject[K, W]) churn(n int, touch bool) (sum uint64) {
	at := int(s.b.next) % len(s.b.keys)
	for range n {
		old, k := s.b.fresh(at)
		sh := &s.shards[maphash.Comparable(s.seed, old)>>58]
		o := s.b.objs[at]
		sh.mu.Lock()
		if touch {
			o = sh.m[old]
		}
		delete(sh.m, old)
		sh.mu.Unlock()
		if touch {
			sum += o.value
			o.value = s.b.next
		}
		s.set(k, o)
		at = (at + 1) % len(s.b.keys)
	}
	return sum
}

func (s *shardSubject[K, W]) store(i int) { s.set(s.b.keys[i], s.b.objs[i]) }

func (s *shardSubject[K, W]) walk(read bool) (n int, sum uint64) {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.RLock()
		for _, o := range sh.m {
			n++
			if read {
				sum += o.value
			}
		}
		sh.mu.RUnlock()
	}
	return n, sum
}
