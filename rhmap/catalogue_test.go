package rhmap

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
)

// Bugs that other tables had, by the ids of the project's catalogue, each as the
// shortest scenario that would show it here. Those not listed have tests of their
// own: W7 and W8 in window_test.go; W12, W14 in walk_test.go; L13, R12, R15 and R18
// in map_test.go and layout_test.go. Two cannot occur: no method returns with a
// lock held (R16), and no pointer carries a tag (R19).

// settleAll finishes the resize in progress.
func settleAll(c *core) {
	for c.advance(64) {
	}
}

// drain returns how often each key came in the rest of a walk.
func drain(w dictWalk) map[uint64]int {
	seen := map[uint64]int{}
	for {
		k, _, ok := w.next()
		if !ok {
			return seen
		}
		seen[k]++
	}
}

func fillDict(kind, hash string, n uint64) dict {
	d := newDict(kind, hash)
	for k := range n {
		d.insert(k, k)
	}
	return d
}

// onOrdered makes a dict whose hash is k<<52, settled at 2^bits buckets.
func onOrdered(kind string, bits int, keys ...uint64) dict {
	d := newDict(kind, "ordered")
	for d.core().cur.Load().bits() < bits {
		d.core().forceResize(true)
		settleAll(d.core())
	}
	for _, k := range keys {
		d.insert(k, k)
	}
	return d
}

func TestCatalogueOfWalks(t *testing.T) {
	each := func(name string, f func(t *testing.T, kind string)) {
		for _, kind := range dicts {
			t.Run("case=HM-"+name+"/impl="+kind, func(t *testing.T) { f(t, kind) })
		}
	}
	each("W1", func(t *testing.T, kind string) { // CVE-2026-64563: the element under the cursor goes, the table grows
		d := fillDict(kind, "good", 300)
		w := d.walk()
		gone, _, _ := w.next()
		d.remove(gone)
		d.core().forceResize(true)
		settleAll(d.core())
		seen := drain(w)
		require.Zero(t, seen[gone])
		require.Len(t, seen, 299)
	})
	each("W2", func(t *testing.T, kind string) { // removal or insertion in the chain under the cursor
		d := fillDict(kind, "constant", 4)
		w := d.walk()
		a, _, _ := w.next()
		b, _, _ := w.next()
		d.remove(a)
		d.insert(77, 77)
		seen := drain(w)
		delete(seen, 77)
		require.Len(t, seen, 2)
		require.Zero(t, seen[a]+seen[b])
	})
	each("W4", func(t *testing.T, kind string) { // the table shrinks under a cursor inside what becomes one chain
		for at := range 32 {
			d := onOrdered(kind, 5)
			for k := range uint64(4096) {
				if k%64 < 3 {
					d.insert(k, k)
				}
			}
			w := d.walk()
			seen := map[uint64]int{}
			for range at * 6 {
				k, _, ok := w.next()
				require.True(t, ok)
				seen[k]++
			}
			for range 2 { // 32 -> 16 -> 8 buckets, the second one half done: W5
				d.core().forceResize(false)
				d.core().advance(3)
				k, _, ok := w.next()
				if ok {
					seen[k]++
				}
				settleAll(d.core())
			}
			for k, n := range drain(w) {
				seen[k] += n
			}
			for k := range uint64(4096) {
				want := 0
				if k%64 < 3 {
					want = 1
				}
				require.Equal(t, want, seen[k], "key %d, shrunk after %d", k, at*6)
			}
		}
	})
	each("W6", func(t *testing.T, kind string) { // a cursor beyond the end of the smaller table
		d := onOrdered(kind, 4, 1, 2000, 3000, 4000)
		w := d.walk()
		w.next()
		for d.core().forceResize(false) {
			settleAll(d.core())
		}
		require.Len(t, drain(w), 3)
	})
	each("W9", func(t *testing.T, kind string) { // removed and inserted again elsewhere in the chain: once, unless a new stay
		d := fillDict(kind, "constant", 20)
		for k := range uint64(6) {
			d.remove(k)
		}
		w := d.walk()
		first, _, _ := w.next()
		for k := uint64(6); k < 20; k++ {
			if k != first {
				d.remove(k)
				d.insert(k, k+100)
			}
		}
		for k, n := range drain(w) {
			require.Equal(t, 1, n, "key %d", k) // W10
			require.NotEqual(t, first, k)
		}
	})
	each("W11", func(t *testing.T, kind string) { // no ghosts after a resize during the walk
		d := fillDict(kind, "good", 10_000)
		w := d.walk()
		first, _, _ := w.next()
		for k := uint64(10_000); k < 60_000; k++ {
			d.insert(k, k)
		}
		for k := range uint64(10_000) {
			if k != first {
				d.remove(k)
			}
		}
		for k := range drain(w) {
			require.GreaterOrEqual(t, k, uint64(10_000), "a key removed before it came")
		}
	})
	each("W13", func(t *testing.T, kind string) { // empty tail of the table
		d := onOrdered(kind, 10, 1, 2)
		require.Len(t, drain(d.walk()), 2)
		require.Empty(t, drain(onOrdered(kind, 10).walk()))
	})
	each("W15", func(t *testing.T, kind string) { // everybody inserts, removes and walks
		d := newDict(kind, "good")
		var wg sync.WaitGroup
		for id := range uint64(16) {
			wg.Go(func() {
				rnd := newRand(id)
				for range 20 {
					for range 50 {
						k := rnd.Uint64N(500)
						d.insert(k, k)
						d.remove(rnd.Uint64N(500))
					}
					drain(d.walk())
				}
			})
		}
		wg.Wait()
		require.NoError(t, d.core().check())
	})
	t.Run("case=HM-W16", func(t *testing.T) { // a walk by somebody who is inside the table
		m := NewMap[int, int](Config[int]{})
		for k := range 100 {
			m.Store(k, k)
		}
		m.forceReseed()
		n := 0
		m.Range(func(int, int) bool {
			for range m.All() {
				n++
			}
			return n < 1000
		})
		require.GreaterOrEqual(t, n, 1000)
	})
	t.Run("case=HM-W19", func(t *testing.T) { // a predicate is asked once per key, resize or not
		m := NewMap[int, int](Config[int]{})
		for k := range 5000 {
			m.Store(k, k)
		}
		calls := map[int]int{}
		m.Range(func(k, _ int) bool { // W18: remove by predicate while chains move
			calls[k]++
			if len(calls)%500 == 0 {
				m.forceResize(len(calls)%1000 == 0)
			}
			if k%2 == 0 {
				m.Delete(k)
			}
			return true
		})
		require.Len(t, calls, 5000)
		require.Equal(t, 2500, m.Len())
		for k, n := range calls {
			require.Equal(t, 1, n, "key %d", k)
		}
	})
	t.Run("case=HM-W17", func(t *testing.T) { // only pairs that existed
		m := NewMap[uint64, uint64](Config[uint64]{})
		var stop atomic.Bool
		var wg sync.WaitGroup
		for id := range uint64(2) {
			wg.Go(func() {
				for n := id; !stop.Load(); n++ {
					k := n % 64
					m.Store(k, k*1000+n%1000)
					m.Delete(k)
				}
			})
		}
		for range 3000 {
			m.Range(func(k, v uint64) bool {
				if v/1000 != k {
					t.Errorf("pair %d, %d never existed", k, v)
				}
				return true
			})
		}
		stop.Store(true)
		wg.Wait()
	})
}

func TestCatalogueOfLostEntries(t *testing.T) {
	each := func(name string, f func(t *testing.T, kind string)) {
		for _, kind := range dicts {
			t.Run("case=HM-"+name+"/impl="+kind, func(t *testing.T) { f(t, kind) })
		}
	}
	each("L1", func(t *testing.T, kind string) { // own key beside growth and shrinking
		d := newDict(kind, "good")
		var stop atomic.Bool
		var wg sync.WaitGroup
		wg.Go(func() {
			for !stop.Load() {
				for k := range uint64(300) {
					d.insert(k, k)
				}
				for k := range uint64(300) {
					d.remove(k)
				}
			}
		})
		for i := range uint64(20_000) {
			_, inserted := d.insert(1000, i)
			v, ok := d.lookup(1000)
			w, removed := d.remove(1000)
			if !inserted || !ok || !removed || v != i || w != i {
				t.Errorf("round %d: %v %v %v", i, inserted, ok, removed)
				break
			}
		}
		stop.Store(true)
		wg.Wait()
		require.Zero(t, d.core().count())
	})
	each("L2", func(t *testing.T, kind string) { // chain of 3, a free slot in its first bucket; L3
		d := fillDict(kind, "constant", 18)
		d.remove(2)
		_, inserted := d.insert(15, 99)
		require.False(t, inserted, "the key stands behind the free slot")
		d.insert(50, 50)
		_, inserted = d.insert(50, 51)
		require.False(t, inserted)
		require.Equal(t, 18, d.core().count())
		require.NoError(t, d.core().check())
	})
	each("L4", func(t *testing.T, kind string) { // a slot used again, between the tag and the key: never a mixed pair; L5
		d := newDict(kind, "constant")
		var stop atomic.Bool
		var wg sync.WaitGroup
		wg.Go(func() {
			for n := uint64(0); !stop.Load(); n++ {
				k := n % 3
				d.insert(k, k<<32|n)
				d.remove(k)
			}
		})
		for n := range uint64(50_000) {
			if v, ok := d.lookup(n % 3); ok && v>>32 != n%3 {
				t.Errorf("key %d, value of %d", n%3, v>>32)
				break
			}
		}
		stop.Store(true)
		wg.Wait()
	})
	each("L6", func(t *testing.T, kind string) { // a present key is found whatever moves; W3, R11
		d := fillDict(kind, "top4", 200)
		var stop atomic.Bool
		var wg sync.WaitGroup
		wg.Go(func() { restless(d, &stop) })
		for i := range uint64(40_000) {
			if _, ok := d.lookup(i % 200); !ok {
				t.Errorf("key %d not found", i%200)
				break
			}
			if _, ok := d.lookup(1 << 40); ok {
				t.Error("found what was never there")
				break
			}
		}
		stop.Store(true)
		wg.Wait()
	})
	each("L7", func(t *testing.T, kind string) { // removed, the move begins, inserted again, the move ends
		for k := range uint64(64) {
			d := fillDict(kind, "good", 64)
			d.remove(k)
			d.core().forceReseed()
			d.core().advance(2)
			d.insert(k, 1000)
			settleAll(d.core())
			v, ok := d.lookup(k)
			require.True(t, ok)
			require.Equal(t, uint64(1000), v)
		}
	})
	each("L8", func(t *testing.T, kind string) { // own keys: set, get, delete, get; L9
		d := newDict(kind, "good")
		var wg sync.WaitGroup
		var wrong atomic.Int64
		for id := range uint64(4) {
			wg.Go(func() {
				rnd := newRand(id)
				for range 30_000 {
					k := id<<32 | rnd.Uint64N(3000)
					if _, ok := d.lookup(k); !ok {
						d.insert(k, k)
						if _, ok := d.lookup(k); !ok {
							wrong.Add(1)
						}
						continue
					}
					d.remove(k)
					if _, ok := d.lookup(k); ok {
						wrong.Add(1)
					}
				}
				for k := range uint64(3000) {
					d.remove(id<<32 | k)
				}
			})
		}
		wg.Wait()
		require.Zero(t, wrong.Load())
		require.Zero(t, d.core().count())
		require.NoError(t, d.core().check())
	})
	each("L10", func(t *testing.T, kind string) { // size follows the live elements, not the traffic; R8
		d := newDict(kind, "good")
		for i := range uint64(10_000) {
			d.insert(i, i)
			d.remove(i)
		}
		require.LessOrEqual(t, d.core().stats().Buckets, 4)
		d = newDict(kind, "low8") // long chains alone do not make a table grow
		for range 3 {
			for i := range uint64(500) {
				d.insert(i, i)
			}
			require.LessOrEqual(t, d.core().stats().Buckets, 512)
			for i := range uint64(500) {
				d.remove(i)
			}
		}
		settleAll(d.core())
		require.LessOrEqual(t, d.core().stats().Buckets, 128)
	})
	t.Run("case=HM-L11", func(t *testing.T) { // a conditional removal stays conditional when it meets a resize
		m := NewMap[int, int](Config[int]{})
		for k := range 100 {
			m.Store(k, k)
		}
		for k := range 100 {
			m.forceResize(k%2 == 0)
			require.False(t, m.CompareAndDelete(k, k+1))
			require.False(t, m.CompareAndSwap(k, k+1, 7))
		}
		require.Equal(t, 100, m.Len())
	})
	t.Run("case=HM-L12", func(t *testing.T) { // LoadOrStore in a long chain neither replaces nor counts, and unlocks (R3)
		m := NewMap[uint64, int](Config[uint64]{Hasher: CustomHash(hashes["constant"], counter())})
		for k := range uint64(15) {
			m.Store(k, int(k))
		}
		for k := range uint64(15) {
			v, loaded := m.LoadOrStore(k, 99)
			require.True(t, loaded)
			require.Equal(t, int(k), v)
			m.Store(k, int(k))
		}
		require.Equal(t, 15, m.Len())
	})
	each("L14", func(t *testing.T, kind string) { // two goroutines insert and remove one key
		for round := range uint64(20) {
			d := newDict(kind, "constant")
			h := record(d.(caller), []string{"insert", "remove", "load"}, round, 2, 300, 1)
			require.True(t, porcupine.CheckOperations(oneKey, h), "round %d", round)
		}
	})
	t.Run("case=HM-L15", func(t *testing.T) { // one owner for each element, however many remove it
		d := newDict("table", "good").(*tableDict)
		var wins, lives atomic.Int64
		for round := range 2000 {
			ref, inserted, err := d.t.InsertUnique(&word1{1}, new(item))
			require.NoError(t, err)
			require.True(t, inserted)
			lives.Add(1)
			var wg sync.WaitGroup
			for range 2 {
				wg.Go(func() {
					if d.t.Remove(ref) {
						wins.Add(1)
					}
				})
			}
			wg.Wait()
			require.Equal(t, lives.Load(), wins.Load(), "round %d", round)
		}
	})
	t.Run("case=HM-L16", func(t *testing.T) { // what a Ref names stays that, though the object is used again
		d := newDict("table", "good").(*tableDict)
		it := new(item)
		first, _, _ := d.t.InsertUnique(&word1{1}, it)
		require.True(t, d.t.Remove(first))
		second, _, _ := d.t.InsertUnique(&word1{1}, it)
		require.NotEqual(t, first, second)
		require.False(t, d.t.Live(first))
		require.False(t, d.t.Remove(first), "the same key, the same node, another life")
		require.True(t, d.t.Live(second))
		require.Equal(t, second, d.t.Lookup(&word1{1}))
	})
	t.Run("case=HM-L17", func(t *testing.T) { // odd capacities; R5
		for _, n := range []int{0, 1, 3, 5, 9, 100, 1000} {
			m := NewMap[int, int](Config[int]{Capacity: n})
			for k := range n {
				m.Store(k, k)
			}
			require.Equal(t, n, m.Len())
			require.Zero(t, m.Stats().Grows, "capacity %d", n)
		}
		require.Panics(t, func() { NewMap[int, int](Config[int]{Capacity: -1}) })
		require.Panics(t, func() { NewTable(itemNode, Config[word1]{Max: -1}) })
	})
	t.Run("case=HM-L18", func(t *testing.T) { // Clear beside growth; R9
		m := NewMap[int, int](Config[int]{})
		var wg sync.WaitGroup
		wg.Go(func() {
			for k := range 50_000 {
				m.Store(k, k)
			}
		})
		for range 50 {
			m.Clear()
		}
		wg.Wait()
		require.NoError(t, m.check())
		m.Range(func(int, int) bool { m.Clear(); return true })
		require.Zero(t, m.Len())
	})
	t.Run("case=HM-L19", func(t *testing.T) { // capacity is fully usable after churn
		d := newTableDict(Config[word1]{Max: 100})
		for i := range uint64(5000) {
			it := d.get()
			it.key = i
			ref, _, err := d.t.InsertUnique(&word1{i}, it)
			if err != nil {
				require.ErrorIs(t, err, ErrFull)
				d.put(it)
				for k := i - 60; k < i; k++ {
					d.remove(k)
				}
				continue
			}
			require.True(t, ref.Ok())
			require.LessOrEqual(t, d.t.Len(), 100)
		}
		drainAll(d)
		for i := range uint64(100) {
			_, ok := d.insert(i, i)
			require.True(t, ok)
		}
		_, _, err := d.t.InsertUnique(&word1{500}, new(item))
		require.ErrorIs(t, err, ErrFull)
		ref, inserted, err := d.t.InsertUnique(&word1{5}, new(item))
		require.NoError(t, err, "a key that is there is found, full or not")
		require.False(t, inserted)
		require.Equal(t, uint64(5), ref.Node.key)
	})
}

func drainAll(d dict) {
	for k := range drain(d.walk()) {
		d.remove(k)
	}
}

func TestCatalogueOfResizes(t *testing.T) {
	each := func(name string, f func(t *testing.T, kind string)) {
		for _, kind := range dicts {
			t.Run("case=HM-"+name+"/impl="+kind, func(t *testing.T) { f(t, kind) })
		}
	}
	each("R1", func(t *testing.T, kind string) { // two goroutines empty the table
		d := fillDict(kind, "good", 2000)
		var wg sync.WaitGroup
		for id := range uint64(2) {
			wg.Go(func() {
				for k := range uint64(2000) {
					d.remove((k + id*1000) % 2000)
				}
			})
		}
		wg.Wait()
		require.Zero(t, d.core().count())
		require.GreaterOrEqual(t, d.core().stats().Buckets, 2)
		require.NoError(t, d.core().check())
	})
	each("R2", func(t *testing.T, kind string) { // many writers on a table that grows, again and again; R10
		for round := range 20 {
			d := newDict(kind, "good")
			var wg sync.WaitGroup
			for id := range uint64(8) {
				wg.Go(func() {
					for k := range uint64(500) {
						d.insert(id<<20|k, k)
					}
				})
			}
			wg.Wait()
			require.Equal(t, 4000, d.core().count(), "round %d", round)
		}
	})
	t.Run("case=HM-R4", func(t *testing.T) { // one call of the function per value stored
		m := NewMap[int, int](Config[int]{})
		for range 300 {
			var calls atomic.Int64
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					m.LoadOrCompute(1, func() (int, bool) { calls.Add(1); return 1, false })
				})
			}
			m.forceResize(true)
			wg.Wait()
			require.Equal(t, int64(1), calls.Load())
			m.Delete(1)
		}
	})
	each("R6", func(t *testing.T, kind string) { // Len never negative; R7
		d := newDict(kind, "good")
		var stop atomic.Bool
		var wg sync.WaitGroup
		for id := range uint64(3) {
			wg.Go(func() {
				for k := range uint64(10_000) {
					d.insert(id<<32|k%7, k)
					d.remove(id<<32 | k%7)
				}
			})
		}
		wg.Go(func() {
			for !stop.Load() {
				d.core().forceReseed()
				d.core().advance(4)
			}
		})
		go func() { wg.Wait() }()
		for range 20_000 {
			if n := d.core().count(); n < 0 || n > 3 {
				t.Errorf("Len %d", n)
				break
			}
			runtime.Gosched()
		}
		stop.Store(true)
		wg.Wait()
		require.NoError(t, d.core().check())
	})
	each("R13", func(t *testing.T, kind string) { // a bad hash: a bounded number of reseeds, then the chain just grows
		d := fillDict(kind, "constant", 400)
		s := d.core().stats()
		require.LessOrEqual(t, s.Reseeds, int64(6))
		require.True(t, s.Weak)
		require.Equal(t, 400, s.Longest)
		require.LessOrEqual(t, s.Buckets, 128)
	})
	t.Run("case=HM-R14", func(t *testing.T) { // no difference of keys makes them collide
		for shift := range 60 {
			m := NewMap[uint64, int](Config[uint64]{})
			rnd := rand.New(rand.NewPCG(1, uint64(shift)))
			for range 600 {
				v := rnd.Uint64()
				m.Store(v, 0)
				m.Store(v^0x15<<shift, 0)
			}
			require.LessOrEqual(t, m.Stats().Longest, 20, "difference %#x", uint64(0x15)<<shift)
		}
	})
	each("R17", func(t *testing.T, kind string) { // who misses a key sees what its remover did before: the race detector looks
		for round := range uint64(200) {
			d := newDict(kind, "good")
			d.insert(1, 1)
			before := 0
			var wg sync.WaitGroup
			wg.Go(func() {
				before = 1
				if round%2 == 0 {
					d.core().forceReseed() // by way of an old array, too
				}
				d.remove(1)
			})
			for {
				if _, ok := d.lookup(1); !ok {
					break
				}
				runtime.Gosched()
			}
			require.Equal(t, 1, before)
			wg.Wait()
		}
	})
	each("R20", func(t *testing.T, kind string) { // removing everything moves a bounded number of chains at a time
		d := fillDict(kind, "good", 30_000)
		for k := range uint64(30_000) {
			v := d.core().cur.Load()
			before := v.done.Load()
			d.remove(k)
			if d.core().cur.Load() == v && v.done.Load()-before > helpUnits+1 {
				t.Fatalf("a removal moved %d chains", v.done.Load()-before)
			}
		}
		settleAll(d.core())
		require.LessOrEqual(t, d.core().stats().Buckets, 128)
		require.NoError(t, d.core().check())
	})
}
