package rhmap

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestZeroMapIsReady(t *testing.T) {
	var m Map[string, *int]
	_, ok := m.Load("a")
	require.False(t, ok)
	m.Delete("a")
	require.Zero(t, m.Len())
	require.False(t, m.Advance(1))
	m.Store("a", nil)
	v, ok := m.Load("a")
	require.True(t, ok, "a nil pointer is a value")
	require.Nil(t, v)
	one := 1
	old, loaded := m.Swap("a", &one)
	require.True(t, loaded)
	require.Nil(t, old)
	v, _ = m.Load("a")
	require.Same(t, &one, v)
}

// Every kind of key and value: hashed as bytes, as a string and otherwise; held
// as a pointer and otherwise.
func TestKeysAndValuesOfEveryKind(t *testing.T) {
	type padded struct {
		a uint8
		b uint64
	}
	testKind(t, "key=struct", func(i int) [2]uint32 { return [2]uint32{uint32(i), 7} }, func(i int) int { return i })
	testKind(t, "key=padded", func(i int) padded { return padded{uint8(i), uint64(i)} }, func(i int) [3]int { return [3]int{i} })
	testKind(t, "key=string", func(i int) string { return string(rune('a' + i)) }, func(i int) any { return i })
	testKind(t, "key=any", func(i int) any { return i }, func(i int) chan int { return make(chan int) })
	testKind(t, "key=float", func(i int) float64 { return float64(i) / 3 }, func(i int) func() { return nil })
	testKind(t, "key=bool", func(i int) [4]bool { return [4]bool{i&1 > 0, i&2 > 0, i&4 > 0, i&8 > 0} }, func(i int) struct{} { return struct{}{} })
}

func testKind[K comparable, V any](t *testing.T, name string, key func(int) K, value func(int) V) {
	t.Run(name, func(t *testing.T) {
		m := NewMap[K, V](Config[K]{})
		for i := range 16 {
			_, loaded := m.LoadOrStore(key(i), value(i))
			require.False(t, loaded)
			_, loaded = m.LoadOrStore(key(i), value(i))
			require.True(t, loaded)
			m.Store(key(i), value(i))
			require.NoError(t, m.TryStore(key(i), value(i)))
		}
		m.forceReseed()
		m.forceResize(true)
		n := 0
		for k := range m.All() {
			_, ok := m.Load(k)
			require.True(t, ok)
			n++
		}
		require.Equal(t, 16, n)
		for i := range 16 {
			_, loaded := m.LoadAndDelete(key(i))
			require.True(t, loaded)
			_, loaded = m.LoadAndDelete(key(i))
			require.False(t, loaded)
		}
		require.Zero(t, m.Len())
		require.NoError(t, m.check())
	})
}

func TestNegativeZeroIsZero(t *testing.T) {
	m := NewMap[float64, int](Config[float64]{})
	zero := 0.0
	m.Store(zero, 1)
	v, ok := m.Load(-zero)
	require.True(t, ok)
	require.Equal(t, 1, v)
	nan := zero / zero
	require.Panics(t, func() { m.Store(nan, 2) })
	require.Panics(t, func() { m.Compute(nan, func(int, bool) (int, ComputeOp) { return 1, UpdateOp }) })
	_, ok = m.Load(nan)
	require.False(t, ok)
	m.Delete(nan)
	m.Clear()
	require.Zero(t, m.Len())
	require.NoError(t, m.check())
}

func TestCompareIsAtomicAndPanicsOutsideTheLock(t *testing.T) {
	m := NewMap[int, any](Config[int]{})
	m.Store(1, []int{1})
	require.Panics(t, func() { m.CompareAndSwap(1, []int{1}, 2) })
	require.Panics(t, func() { m.CompareAndDelete(1, []int{1}) })
	m.Store(1, "a") // the chain is not locked
	require.False(t, m.CompareAndSwap(1, "b", "c"))
	require.True(t, m.CompareAndSwap(1, "a", "c"))
	require.False(t, m.CompareAndSwap(2, nil, "c"))
	require.False(t, m.CompareAndDelete(1, "a"))
	require.True(t, m.CompareAndDelete(1, "c"))

	n := NewMap[int, int](Config[int]{}) // HM-L13
	n.Store(0, 0)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 2000 {
				for {
					v, _ := n.Load(0)
					if n.CompareAndSwap(0, v, v+1) {
						break
					}
				}
			}
		})
	}
	wg.Wait()
	v, _ := n.Load(0)
	require.Equal(t, 8000, v)
}

func TestComputeDecides(t *testing.T) {
	m := NewMap[string, int](Config[string]{})
	add := func(d int, op ComputeOp) (int, bool) {
		return m.Compute("k", func(old int, _ bool) (int, ComputeOp) { return old + d, op })
	}
	got := func(v int, ok bool) [2]any { return [2]any{v, ok} }
	require.Equal(t, [2]any{0, false}, got(add(5, CancelOp)))
	require.Equal(t, [2]any{5, true}, got(add(5, UpdateOp)))
	require.Equal(t, [2]any{5, true}, got(add(5, CancelOp)))
	require.Equal(t, [2]any{8, true}, got(add(3, UpdateOp)))
	require.Equal(t, [2]any{0, false}, got(add(0, DeleteOp)))
	require.Equal(t, [2]any{0, false}, got(add(0, DeleteOp)))
	require.Zero(t, m.Len())

	require.PanicsWithValue(t, "mine", func() {
		m.Compute("k", func(int, bool) (int, ComputeOp) { panic("mine") })
	})
	require.Equal(t, [2]any{1, true}, got(add(1, UpdateOp)), "the panic left nothing locked")
	v, loaded := m.LoadOrCompute("k", func() (int, bool) { panic("not called") })
	require.Equal(t, [2]any{1, true}, got(v, loaded))
	v, loaded = m.LoadOrCompute("n", func() (int, bool) { return 3, true })
	require.Equal(t, [2]any{0, false}, got(v, loaded))
	v, loaded = m.LoadOrCompute("n", func() (int, bool) { return 4, false })
	require.Equal(t, [2]any{4, false}, got(v, loaded))
	require.Equal(t, 2, m.Len())
}

// HM-R12: where a function that Compute runs would wait for itself, it panics.
func TestComputeNoticesReentry(t *testing.T) {
	m := NewMap[int, int](Config[int]{})
	require.PanicsWithValue(t, "rhmap: a function run by Compute or LoadOrCompute wrote to a Map", func() {
		m.Compute(1, func(int, bool) (int, ComputeOp) {
			m.Load(1) // reading is fine
			m.Store(1, 2)
			return 3, UpdateOp
		})
	})
	require.Panics(t, func() {
		m.LoadOrCompute(1, func() (int, bool) {
			v, _ := m.LoadOrCompute(1, func() (int, bool) { return 1, false })
			return v, false
		})
	})
	m.Store(1, 5) // nothing is locked
	v, _ := m.Load(1)
	require.Equal(t, 5, v)
}

// Writers that find a chain locked for long park, and all get on afterwards.
func TestWritersParkBehindASlowFunction(t *testing.T) {
	m := NewMap[uint64, int](Config[uint64]{Hasher: CustomHash(hashes["constant"], counter())})
	inside, release := make(chan bool), make(chan bool)
	var wg sync.WaitGroup
	wg.Go(func() {
		m.Compute(0, func(int, bool) (int, ComputeOp) {
			close(inside)
			<-release
			return 0, UpdateOp
		})
	})
	<-inside
	for k := range uint64(8) {
		wg.Go(func() { m.Store(k+1, 1) })
	}
	_, ok := m.Load(3) // reads go on
	require.False(t, ok)
	b := m.cur.Load().bucket(hashes["constant"](Seed{}, 0))
	for deadline := time.Now().Add(10 * time.Second); b.meta.Load()&parked == 0; runtime.Gosched() {
		require.True(t, time.Now().Before(deadline), "nobody parked")
	}
	close(release)
	wg.Wait()
	require.Equal(t, 9, m.Len())
	require.NoError(t, m.check())
}

func TestLimitsRefuse(t *testing.T) {
	m := NewMap[int, int](Config[int]{Max: 10})
	for k := range 10 {
		require.NoError(t, m.TryStore(k, k))
	}
	require.ErrorIs(t, m.TryStore(10, 0), ErrFull)
	require.NoError(t, m.TryStore(3, 33), "a key that is there is not new")
	m.Store(11, 0) // Store has no way to refuse
	require.Equal(t, 11, m.Len())
	m.Delete(11)
	m.Delete(3)
	require.NoError(t, m.TryStore(12, 0))
	require.ErrorIs(t, m.TryStore(13, 0), ErrFull)
	require.NoError(t, m.check())

	// Never more than Max, whoever is how fast (R8).
	d := newTableDict(Config[word1]{Max: 50})
	var wg sync.WaitGroup
	for id := range uint64(4) {
		wg.Go(func() {
			for i := range uint64(5000) {
				k := id<<32 | i%40
				ref, inserted, err := d.t.InsertUnique(&word1{k}, &item{key: k})
				if n := d.t.Len(); n > 50 {
					t.Errorf("Len %d", n)
				}
				if err == nil && inserted && i%3 > 0 {
					d.t.Remove(ref)
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, d.t.check())
}

func TestBusyIsAPolicy(t *testing.T) {
	h := CustomHash(func(Seed, word1) uint64 { return 5 }, counter())
	d := NewTable(itemNode, Config[word1]{Hasher: h, RefuseBusy: true})
	refused := 0
	for k := range uint64(100) {
		_, _, err := d.InsertUnique(&word1{k}, &item{key: k})
		if err != nil {
			require.ErrorIs(t, err, ErrBusy)
			refused++
		}
	}
	require.Equal(t, 100-24, refused, "a chain has 24 elements at most")
	require.Equal(t, 24, d.Stats().Longest)
	m := NewMap[word1, int](Config[word1]{Hasher: h, RefuseBusy: true})
	for k := range uint64(24) {
		require.NoError(t, m.TryStore(word1{k}, 0))
	}
	require.ErrorIs(t, m.TryStore(word1{24}, 0), ErrBusy)
	m.Store(word1{24}, 0)
	require.Equal(t, 25, m.Len())
}

func TestCloseRefusesNewcomersOnly(t *testing.T) {
	d := newDict("table", "good").(*tableDict)
	for k := range uint64(100) {
		d.insert(k, k)
	}
	d.t.forceReseed()
	w := d.walk()
	w.next()
	d.t.Close()
	_, _, err := d.t.InsertUnique(&word1{500}, new(item))
	require.ErrorIs(t, err, ErrClosed)
	ref, _, err := d.t.InsertUnique(&word1{5}, new(item))
	require.NoError(t, err)
	require.Equal(t, uint64(5), ref.Node.key)
	require.Len(t, drain(w), 99)
	drainAll(d)
	require.Zero(t, d.t.Len())
}

// After Close no insert succeeds, not even one that began before.
func TestCloseFencesInserts(t *testing.T) {
	for range 200 {
		d := newDict("table", "good").(*tableDict)
		var wg sync.WaitGroup
		for id := range uint64(3) {
			wg.Go(func() {
				for k := range uint64(200) {
					if _, _, err := d.t.InsertUnique(&word1{id<<32 | k}, new(item)); err != nil {
						return
					}
				}
			})
		}
		d.t.Close()
		n := d.t.Len()
		wg.Wait()
		require.Equal(t, n, d.t.Len())
	}
}

func TestNodesAreChecked(t *testing.T) {
	a, b := NewTable(itemNode, Config[word1]{}), NewTable(itemNode, Config[word1]{})
	it := new(item)
	ref, _, _ := a.InsertUnique(&word1{1}, it)
	require.True(t, it.node.Live())
	require.Equal(t, word1{1}, it.node.Key())
	require.PanicsWithValue(t, "rhmap: the node is in a table already", func() { _, _, _ = a.InsertUnique(&word1{2}, it) })
	require.True(t, a.Remove(ref))
	require.False(t, it.node.Live())
	require.PanicsWithValue(t, "rhmap: the node belongs to another table", func() { _, _, _ = b.InsertUnique(&word1{2}, it) })
	require.PanicsWithValue(t, "rhmap: the Node is not embedded in the object", func() {
		NewTable(func(*item) *Node[word1] { return new(Node[word1]) }, Config[word1]{})
	})
	require.False(t, a.Live(Ref[item]{}))
	require.False(t, a.Remove(Ref[item]{}))
}

// HM-R15: a copy does not corrupt anything silently.
func TestCopyPanics(t *testing.T) {
	m := NewMap[int, int](Config[int]{})
	c := &Map[int, int]{index: index[int]{core: core{self: m.self}, hasher: m.hasher}}
	c.hash, c.draw = m.hash, m.draw
	c.cur.Store(m.cur.Load())
	require.PanicsWithValue(t, "rhmap: a Map or Table was copied after first use", func() {
		for k := range 1000 {
			c.Store(k, k)
		}
	})
}

func TestLookupBatchIsLookup(t *testing.T) {
	d := newDict("table", "good").(*tableDict)
	for k := range uint64(300) {
		d.insert(k*2, k)
	}
	d.t.forceReseed()
	d.t.Advance(20)
	var keys []word1
	for k := range uint64(617) {
		keys = append(keys, word1{k})
	}
	out := make([]Ref[item], len(keys))
	d.t.LookupBatch(keys, out)
	for i := range keys {
		require.Equal(t, d.t.Lookup(&keys[i]), out[i])
		require.Equal(t, i%2 == 0 && i < 600, out[i].Ok())
	}
}

// An attacker who learns the hash key once is cured of by one reseed; one who
// learns every key pays for each (R7).
func TestReseedCuresAndIsPaidFor(t *testing.T) {
	var seeds []uint64
	next := counter()
	good := hashes["good"]
	h := CustomHash(good, func() uint64 { s := next(); seeds = append(seeds, s); return s })
	m := NewMap[uint64, int](Config[uint64]{Hasher: h})
	for k := range uint64(20_000) {
		m.Store(k<<32, 0)
	}
	require.Zero(t, m.Stats().Reseeds)
	settleAll(&m.core)
	k := uint64(1)
	collide := func(n int) { // keys of one chain under the newest hash key
		s := Seed{seeds[len(seeds)-2], seeds[len(seeds)-1]}
		for ; n > 0; k++ {
			if good(s, k)>>50 == 0 {
				m.Store(k, 0)
				n--
			}
		}
	}
	collide(60)
	settleAll(&m.core)
	require.Equal(t, int64(1), m.Stats().Reseeds)
	require.Less(t, m.Stats().Longest, 24, "cured")
	collide(60) // he learnt the new one as well: few long chains, no reseed yet
	require.Equal(t, int64(1), m.Stats().Reseeds)
	for m.Stats().Reseeds == 1 {
		collide(20)
		require.Less(t, m.Stats().Longest, 2000)
	}
	settleAll(&m.core)
	require.Less(t, m.Stats().Longest, 24)
	require.False(t, m.Stats().Weak)
	require.NoError(t, m.check())
}
