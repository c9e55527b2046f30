package stress

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"corelane/rhmap"
)

// flow is an object as the fragment cache has them: pooled, with a lock of its
// own. Key and stay may be read under mu.
type flow struct {
	mu   sync.Mutex
	key  uint64 // under mu
	stay uint64 // under mu; a number nobody else has
	node rhmap.Node[[2]uint64]
}

func newFlows(hash func(seed rhmap.Seed, k uint64) uint64) *rhmap.Table[[2]uint64, flow] {
	var seeds atomic.Uint64
	cfg := rhmap.Config[[2]uint64]{}
	if hash != nil {
		cfg.Hasher = rhmap.CustomHash(func(s rhmap.Seed, k [2]uint64) uint64 { return hash(s, k[0]) },
			func() uint64 { return seeds.Add(1) })
	}
	return rhmap.NewTable(func(f *flow) *rhmap.Node[[2]uint64] { return &f.node }, cfg)
}

func scramble(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// TestStressRhmapRecycle.
//
// Actors:   4 owners that insert nodes from a common pool and remove them, 2
//
//	lookers, 1 walker.
//
// Claims:   R1 a lookup finds a node by the key it has; R10 each element is removed
//
//	once, each node is in one place; W2 no stay is returned twice.
//
// Windows:  rhmap.put, rhmap.born, rhmap.dead, rhmap.walk.life.
func TestStressRhmapRecycle(t *testing.T) {
	const nodes, keys = 64, 96
	var (
		table  = newFlows(nil)
		ledger = NewLedger("nodes", nodes)
		pool   = make(chan *flow, nodes)
		index  = map[*flow]int{}
		stays  atomic.Uint64
	)
	for i := range nodes {
		f := new(flow)
		index[f] = i
		pool <- f
	}
	remove := func(r rhmap.Ref[flow]) error {
		f := r.Node
		f.mu.Lock()
		ok := table.Remove(r)
		f.mu.Unlock()
		if !ok {
			return nil
		}
		if err := ledger.Back(index[f]); err != nil {
			return err
		}
		pool <- f
		return nil
	}
	Run(t, Plan{
		Procs: []int{1, 2, 4},
		Actors: []Actor{
			{Name: "owner", Workers: 4, Run: func(w *Worker) error {
				for w.Next() {
					k := [2]uint64{w.Rand.Uint64N(keys), 1}
					if w.Rand.IntN(2) == 0 {
						if r := table.Lookup(&k); r.Ok() {
							if err := remove(r); err != nil {
								return err
							}
						}
						continue
					}
					var f *flow
					select {
					case f = <-pool:
					default:
						continue
					}
					f.mu.Lock()
					f.key, f.stay = k[0], stays.Add(1)
					f.mu.Unlock()
					if err := ledger.Out(index[f]); err != nil {
						return err
					}
					r, inserted, err := table.InsertUnique(&k, f)
					if err != nil {
						return err
					}
					if !inserted {
						if r.Node == f {
							return fmt.Errorf("R10: a node met itself")
						}
						if err := ledger.Back(index[f]); err != nil {
							return err
						}
						pool <- f
					}
				}
				return nil
			}},
			{Name: "looker", Workers: 2, Run: func(w *Worker) error {
				ks := make([][2]uint64, 8)
				out := make([]rhmap.Ref[flow], 8)
				for w.Next() {
					for i := range ks {
						ks[i] = [2]uint64{w.Rand.Uint64N(keys), 1}
					}
					table.LookupBatch(ks, out)
					for i, r := range out {
						if !r.Ok() {
							continue
						}
						r.Node.mu.Lock()
						key, live := r.Node.key, table.Live(r)
						r.Node.mu.Unlock()
						if live && key != ks[i][0] {
							return fmt.Errorf("R1: looked for %d, found %d", ks[i][0], key)
						}
					}
				}
				return nil
			}},
			{Name: "walker", Run: func(w *Worker) error {
				walk := table.Walk()
				seen := map[uint64]bool{}
				for w.Next() {
					r, ok := walk.Next()
					if !ok {
						walk.Restart()
						clear(seen)
						continue
					}
					r.Node.mu.Lock()
					stay, live := r.Node.stay, table.Live(r)
					r.Node.mu.Unlock()
					if live && seen[stay] {
						return fmt.Errorf("W2: stay %d came twice", stay)
					}
					seen[stay] = live
				}
				return nil
			}},
		},
		Check: func() error {
			for w := table.Walk(); ; {
				r, ok := w.Next()
				if !ok {
					break
				}
				if err := remove(r); err != nil {
					return err
				}
			}
			if n := table.Len(); n != 0 {
				return fmt.Errorf("R5: Len %d of an empty table", n)
			}
			return ledger.Balanced()
		},
	})
}

// TestStressRhmapResizeWalk.
//
// Actors:   2 tides that fill and empty the map, so that it grows and shrinks all
//
//	the time, 1 attacker who knows every hash key and so makes it reseed, 2
//	walkers.
//
// Claims:   W1 the keys nobody touches come exactly once in each walk; R1 they are
//
//	always found; R5 the count is right at the end.
//
// Windows:  rhmap.moved, rhmap.finish, rhmap.walk.
func TestStressRhmapResizeWalk(t *testing.T) {
	const stable, tide = 200, 4000
	var seed, draws atomic.Uint64
	m := rhmap.NewMap[uint64, uint64](rhmap.Config[uint64]{Hasher: rhmap.CustomHash(
		func(s rhmap.Seed, k uint64) uint64 { return scramble(k ^ s[0]) },
		func() uint64 {
			s := scramble(draws.Add(1))
			if draws.Load()%2 == 1 { // the first word of a Seed is the one used
				seed.Store(s)
			}
			return s
		})})
	for k := range uint64(stable) {
		m.Store(k, k)
	}
	Run(t, Plan{
		Procs: []int{2, 4},
		Actors: []Actor{
			{Name: "tide", Workers: 2, Run: func(w *Worker) error {
				base := uint64(w.ID+1) << 32
				for w.Next() {
					n := w.Rand.Uint64N(tide)
					for k := range n {
						m.Store(base+k, k)
					}
					for k := range n {
						if _, ok := m.LoadAndDelete(base + k); !ok {
							return fmt.Errorf("R1: own key %d is gone", k)
						}
					}
				}
				return nil
			}},
			{Name: "attacker", Run: func(w *Worker) error {
				for w.Next() {
					s := seed.Load()
					var mine []uint64
					for i := range uint64(40) { // hashes that differ in the low bits only
						k := descramble(0x7777<<48|i) ^ s
						m.Store(k, 0)
						mine = append(mine, k)
					}
					for _, k := range mine {
						m.Delete(k)
					}
				}
				return nil
			}},
			{Name: "walker", Workers: 2, Run: func(w *Worker) error {
				for w.Next() {
					seen := [stable]int{}
					for k := range m.All() {
						if k < stable {
							seen[k]++
						}
					}
					for k, n := range seen {
						if n != 1 {
							return fmt.Errorf("W1: key %d came %d times", k, n)
						}
					}
					if v, ok := m.Load(w.Rand.Uint64N(stable)); !ok || v >= stable {
						return fmt.Errorf("R1: a key that was never touched is gone")
					}
				}
				return nil
			}},
		},
		Check: func() error {
			s := m.Stats()
			t.Logf("%+v", s)
			if s.Grows == 0 || s.Shrinks == 0 || s.Reseeds == 0 {
				return fmt.Errorf("the table did not move in every way: %+v", s)
			}
			if s.Len != stable {
				return fmt.Errorf("R5: Len %d, want %d", s.Len, stable)
			}
			return nil
		},
	})
}

// descramble inverts scramble.
func descramble(z uint64) uint64 {
	z = (z ^ z>>31 ^ z>>62) * 0x319642b2d24d8ec3
	z = (z ^ z>>27 ^ z>>54) * 0x96de1b173f119089
	return z ^ z>>30 ^ z>>60
}

// TestStressRhmapHotKey.
//
// Actors:   4 writers that all change one key in every way, 2 readers.
// Claims:   additions by Compute and by CompareAndSwap are all there at the end;
//
//	a reader sees the sum grow only.
//
// Windows:  rhmap.park.
func TestStressRhmapHotKey(t *testing.T) {
	var m rhmap.Map[string, int64]
	m.Store("hot", 0)
	sum := NewSum("additions")
	Run(t, Plan{
		Procs: []int{1, 2, 4},
		Actors: []Actor{
			{Name: "writer", Workers: 4, Run: func(w *Worker) error {
				for w.Next() {
					if w.Rand.IntN(2) == 0 {
						m.Compute("hot", func(v int64, _ bool) (int64, rhmap.ComputeOp) { return v + 1, rhmap.UpdateOp })
						sum.Add(1)
						continue
					}
					if v, _ := m.Load("hot"); m.CompareAndSwap("hot", v, v+1) {
						sum.Add(1)
					}
				}
				return nil
			}},
			{Name: "reader", Workers: 2, Run: func(w *Worker) error {
				for last := int64(0); w.Next(); {
					v, ok := m.Load("hot")
					if !ok || v < last {
						return fmt.Errorf("R1: %d after %d, %v", v, last, ok)
					}
					last = v
				}
				return nil
			}},
		},
		Check: func() error {
			v, _ := m.Load("hot")
			return sum.Equals(v)
		},
	})
}

// TestStressRhmapEvictor is the seed scenario: a table at its limit, writers that
// insert and are refused, and one worker with one walker for life that removes up
// to 64 elements a slice.
//
// Actors:   3 writers, 1 evictor.
// Claims:   R8 never more than Max; nothing stays refused; each node comes back.
func TestStressRhmapEvictor(t *testing.T) {
	const limit = 500
	table := rhmap.NewTable(func(f *flow) *rhmap.Node[[2]uint64] { return &f.node }, rhmap.Config[[2]uint64]{Max: limit})
	var inserted, evicted atomic.Int64
	Run(t, Plan{
		Procs: []int{2, 4},
		Min:   map[string]int{"evictor": 5},
		Actors: []Actor{
			{Name: "writer", Workers: 3, Run: func(w *Worker) error {
				for n := uint64(0); w.Next(); n++ {
					k := [2]uint64{uint64(w.ID), n}
					_, ok, err := table.InsertUnique(&k, new(flow))
					if err != nil && err != rhmap.ErrFull {
						return err
					}
					if ok {
						inserted.Add(1)
					}
				}
				return nil
			}},
			{Name: "evictor", Run: func(w *Worker) error {
				walk := table.Walk()
				var out [64]rhmap.Ref[flow]
				for w.Next() {
					n, more := walk.NextBatch(out[:], 64)
					for _, r := range out[:n] {
						if table.Remove(r) {
							evicted.Add(1)
						}
					}
					if !more {
						walk.Restart()
					}
					if n := table.Len(); n > limit {
						return fmt.Errorf("R8: Len %d", n)
					}
				}
				return nil
			}},
		},
		Check: func() error {
			if inserted.Load() < 2*limit {
				return fmt.Errorf("%d inserts in all: the evictor made no room", inserted.Load())
			}
			if n := int64(table.Len()); inserted.Load()-evicted.Load() != n {
				return fmt.Errorf("R5: %d inserted, %d evicted, Len %d", inserted.Load(), evicted.Load(), n)
			}
			return nil
		},
	})
}

// Message passing through a map: who finds the key sees what was written before
// it was inserted, and who finds it gone what was written before it was removed
// (R11).
func TestLitmusRhmapPublishes(t *testing.T) {
	RunLitmus(t, Litmus{
		New: func() ([]func(), func() string) {
			m := rhmap.NewMap[int, int](rhmap.Config[int]{})
			var data int
			var found, gone string
			m.Store(2, 0)
			var plain int
			return []func(){
					func() { data = 1; m.Store(1, 1) },
					func() {
						found = "-"
						if _, ok := m.Load(1); ok {
							found = fmt.Sprint(data)
						}
					},
					func() { plain = 1; m.Delete(2) },
					func() {
						gone = "-"
						if _, ok := m.Load(2); !ok {
							gone = fmt.Sprint(plain)
						}
					},
				}, func() string {
					return found + gone
				}
		},
		Table: map[string]Outcome{
			"--": {Acceptable, "both readers were first"},
			"1-": {Interesting, "found"},
			"-1": {Interesting, "found gone"},
			"11": {Interesting, "both"},
			"0-": {Forbidden, "found before it was complete"},
			"-0": {Forbidden, "gone before it was removed"},
		},
	})
}

// Two inserts of one key and a removal: one winner, and one owner of each.
func TestLitmusRhmapInsertUnique(t *testing.T) {
	RunLitmus(t, Litmus{
		New: func() ([]func(), func() string) {
			table := newFlows(nil)
			k := [2]uint64{1, 1}
			var won [2]bool
			insert := func(i int) func() {
				return func() { _, won[i], _ = table.InsertUnique(&k, new(flow)) }
			}
			return []func(){insert(0), insert(1)}, func() string {
				return fmt.Sprint(won[0], won[1], table.Len())
			}
		},
		Table: map[string]Outcome{
			"true false 1": {Acceptable, "the first came first"},
			"false true 1": {Acceptable, "the second came first"},
			"true true 2":  {Forbidden, "the key is there twice"},
		},
	})
}
