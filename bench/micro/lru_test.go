package micro

import (
	"container/list"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"corelane/lru"
)

// lruItem is an object of the size of a small cache entry.
type lruItem struct {
	node    lru.Node[lruItem]
	stamp   atomic.Int64  // what impl=atomic-store stores
	element *list.Element // what impl=container-list needs
	_       [64]byte
}

func lruItems(n int) []*lruItem {
	block := make([]lruItem, n)
	items := make([]*lruItem, n)
	for i := range items {
		items[i] = &block[i]
		items[i].node.Init(items[i])
	}
	return items
}

// lruSubject is what the benchmarks need of an eviction list. The methods are
// called through an interface for every implementation alike.
type lruSubject interface {
	insert(lane int, it *lruItem, tick int64)
	touch(it *lruItem, tick int64)
	evict() *lruItem
}

type lruPerCPU struct{ l *lru.PerCPU[lruItem] }

func newLRUPerCPU(lanes int) lruPerCPU {
	l, err := lru.NewPerCPU[lruItem](lru.Config{Lanes: lanes})
	if err != nil {
		panic(err)
	}
	return lruPerCPU{l}
}

func (s lruPerCPU) insert(lane int, it *lruItem, tick int64) { s.l.Insert(lane, &it.node, tick) }
func (s lruPerCPU) touch(it *lruItem, tick int64)            { s.l.Touch(&it.node, tick) }
func (s lruPerCPU) evict() *lruItem {
	r, _ := s.l.PopOldest()
	return r.Owner
}

type lruGlobal struct{ l lru.Global[lruItem] }

func (s *lruGlobal) insert(_ int, it *lruItem, tick int64) { s.l.Insert(&it.node, tick) }
func (s *lruGlobal) touch(it *lruItem, tick int64)         { s.l.Touch(&it.node, tick) }
func (s *lruGlobal) evict() *lruItem {
	r, _ := s.l.PopOldest()
	return r.Owner
}

// lruContainer is container/list without a lock: a partner for one goroutine.
type lruContainer struct{ l list.List }

func (s *lruContainer) insert(_ int, it *lruItem, _ int64) { it.element = s.l.PushBack(it) }
func (s *lruContainer) touch(it *lruItem, _ int64)         { s.l.MoveToBack(it.element) }
func (s *lruContainer) evict() *lruItem {
	first := s.l.Front()
	if first == nil {
		return nil
	}
	return s.l.Remove(first).(*lruItem)
}

// lruMutexContainer is what most programs have: container/list under a mutex.
type lruMutexContainer struct {
	mu sync.Mutex
	lruContainer
}

func (s *lruMutexContainer) insert(lane int, it *lruItem, tick int64) {
	s.mu.Lock()
	s.lruContainer.insert(lane, it, tick)
	s.mu.Unlock()
}

func (s *lruMutexContainer) touch(it *lruItem, tick int64) {
	s.mu.Lock()
	s.lruContainer.touch(it, tick)
	s.mu.Unlock()
}

func (s *lruMutexContainer) evict() *lruItem {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lruContainer.evict()
}

// lruImpl makes one of the lists to compare. Each run of a benchmark makes its own:
// its ticks start at 0, which a list with a past would take for a clock that
// stepped back.
type lruImpl struct {
	name string
	make func() lruSubject
}

func lruImpls(lanes int) []lruImpl {
	return []lruImpl{
		{"container-list", func() lruSubject { return new(lruContainer) }},
		{"mutex-container-list", func() lruSubject { return new(lruMutexContainer) }},
		{"corelane-global", func() lruSubject { return new(lruGlobal) }},
		{fmt.Sprintf("corelane-percpu-%d", lanes), func() lruSubject { return newLRUPerCPU(lanes) }},
	}
}

// BenchmarkLRUTouchRaw is one touch beside one atomic store to a word of the
// same object, both called directly. tick=new: each touch has a tick of its own,
// the costly case; tick=same: 64 touches share one.
func BenchmarkLRUTouchRaw(b *testing.B) {
	it := lruItems(1)[0]
	l := newLRUPerCPU(2).l
	l.Insert(0, &it.node, 0)
	for _, tick := range []struct {
		name  string
		shift int
	}{{"new", 0}, {"same", 6}} {
		base := it.node.Tick() + 1
		b.Run("tick="+tick.name+"/impl=atomic-store", func(b *testing.B) {
			for i := range b.N {
				it.stamp.Store(int64(i >> tick.shift))
			}
		})
		b.Run("tick="+tick.name+"/impl=corelane-percpu", func(b *testing.B) {
			base = it.node.Tick() + 1
			for i := range b.N {
				l.Touch(&it.node, base+int64(i>>tick.shift))
			}
		})
	}
}

// BenchmarkLRUTouch is a touch of one of n objects in shuffled order, through
// the same interface for all, by one goroutine.
func BenchmarkLRUTouch(b *testing.B) {
	for _, n := range []int{1 << 10, 1 << 17} {
		for _, impl := range lruImpls(2) {
			b.Run(fmt.Sprintf("n=%d/impl=%s", n, impl.name), func(b *testing.B) {
				s, items := impl.make(), lruItems(n)
				for i, it := range items {
					s.insert(i, it, 0)
				}
				shuffleLRU(items)
				b.ResetTimer()
				for i := range b.N {
					s.touch(items[i&(n-1)], int64(i))
				}
			})
		}
	}
}

// BenchmarkLRUTouchParallel is the same by GOMAXPROCS goroutines, each on
// objects of its own.
func BenchmarkLRUTouchParallel(b *testing.B) {
	const n = 1 << 10
	for _, impl := range lruImpls(8)[1:] {
		b.Run(fmt.Sprintf("n=%d/impl=%s", n, impl.name), func(b *testing.B) {
			s := impl.make()
			var lane atomic.Int64
			b.RunParallel(func(pb *testing.PB) {
				mine := int(lane.Add(1))
				items := lruItems(n)
				for _, it := range items {
					s.insert(mine, it, 0)
				}
				for i := 0; pb.Next(); i++ {
					s.touch(items[i&(n-1)], int64(i))
				}
			})
		})
	}
}

// BenchmarkLRUEvict takes the oldest of n objects out and links it again as the
// newest. touched=0 is a flood of objects used once; touched=1 touches one
// random object between two evictions, so that nine of ten objects have been
// touched when their turn comes (the touch is part of the time, for all). With
// tick=fine each eviction has a tick of its own, the hardest case; with
// tick=coarse 64 share one, as a millisecond does at 64 thousand a second.
func BenchmarkLRUEvict(b *testing.B) {
	for _, n := range []int{1 << 10, 1 << 17} {
		for _, load := range []struct {
			name    string
			touched int
			shift   int
		}{
			{"touched=0/tick=fine", 0, 0},
			{"touched=1/tick=fine", 1, 0},
			{"touched=1/tick=coarse", 1, 6},
		} {
			for _, impl := range lruImpls(8) {
				b.Run(fmt.Sprintf("n=%d/%s/impl=%s", n, load.name, impl.name), func(b *testing.B) {
					s, items := impl.make(), lruItems(n)
					for i, it := range items {
						s.insert(i&7, it, int64(i>>load.shift))
					}
					shuffleLRU(items)
					evictLoop(b, s, items, load.touched, load.shift)
				})
			}
		}
	}
}

// evictLoop turns the list over twice before it measures, so that with touches
// most nodes that come up have been touched.
func evictLoop(b *testing.B, s lruSubject, items []*lruItem, touched, shift int) {
	op := int64(len(items))
	step := func(i int) {
		op++
		tick := op >> shift
		if touched > 0 {
			s.touch(items[i&(len(items)-1)], tick)
		}
		s.insert(i&7, s.evict(), tick)
	}
	for i := range 2 * len(items) {
		step(i)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		step(i)
	}
}

// BenchmarkLRUEvictParallel evicts and links again from GOMAXPROCS goroutines,
// each inserting on its own lane. rule=oldest is the oldest of all, so the
// goroutines meet on the lane that has it; batch=32 asks for that many at once;
// rule=own is the 2013 rule, in which they never meet. The time is per object.
func BenchmarkLRUEvictParallel(b *testing.B) {
	const n, lanes = 1 << 14, 8
	type evictor func(s lruSubject, lane int, into []*lruItem) int
	run := func(name string, impl lruImpl, batch int, evict evictor) {
		b.Run(fmt.Sprintf("n=%d/%s/batch=%d/impl=%s", n, name, batch, impl.name), func(b *testing.B) {
			s := impl.make()
			for i, it := range lruItems(n) {
				s.insert(i%lanes, it, int64(i))
			}
			var lane atomic.Int64
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				var (
					mine = int(lane.Add(1)) % lanes
					now  = int64(n)
					held = make([]*lruItem, batch)
					left = 0
				)
				for pb.Next() {
					if left == 0 {
						left = evict(s, mine, held)
					}
					left--
					now++
					s.insert(mine, held[left], now)
				}
				for left > 0 { // a part of a batch
					left--
					s.insert(mine, held[left], now)
				}
			})
		})
	}
	one := func(s lruSubject, _ int, into []*lruItem) int {
		into[0] = s.evict()
		return 1
	}
	impls := lruImpls(lanes)
	percpu := impls[3]
	for _, impl := range impls[1:] {
		run("rule=oldest", impl, 1, one)
	}
	run("rule=oldest", percpu, 32, func(s lruSubject, _ int, into []*lruItem) int {
		var refs [32]lru.Ref[lruItem]
		got := s.(lruPerCPU).l.PopBatch(refs[:], lru.Any)
		for i, r := range refs[:got] {
			into[i] = r.Owner
		}
		return got
	})
	run("rule=own", percpu, 1, func(s lruSubject, lane int, into []*lruItem) int {
		r, ok := s.(lruPerCPU).l.PopOwn(lane)
		if !ok {
			r, _ = s.(lruPerCPU).l.PopOldest() // this goroutine's lane is new
		}
		into[0] = r.Owner
		return 1
	})
}

func shuffleLRU(items []*lruItem) {
	rnd := rand.New(rand.NewPCG(1, 2))
	rnd.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
}
