package rhmap

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"corelane/internal/yield"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
)

// Histories of concurrent operations on a few keys, while a mover forces grows,
// shrinks and reseeds, are checked for linearizability key by key (R1).

type call struct {
	what     string
	key      uint64
	arg, old uint64
}

type answer struct {
	v  uint64
	ok bool
}

// oneKey is the sequential meaning of the operations on one key; its state is the
// answer a load would give.
var oneKey = porcupine.Model{
	Partition: func(h []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[uint64][]porcupine.Operation{}
		for _, o := range h {
			k := o.Input.(call).key
			byKey[k] = append(byKey[k], o)
		}
		var parts [][]porcupine.Operation
		for _, p := range byKey {
			parts = append(parts, p)
		}
		return parts
	},
	Init: func() any { return answer{} },
	Step: func(state, in, out any) (bool, any) {
		s, c, a := state.(answer), in.(call), out.(answer)
		switch c.what {
		case "load":
			return a == s, s
		case "insert": // ok: inserted
			if s.ok {
				return !a.ok && a.v == s.v, s
			}
			return a.ok, answer{c.arg, true}
		case "remove":
			return a == s, answer{}
		case "swap":
			return a == s, answer{c.arg, true}
		case "cas":
			if s.ok && s.v == c.old {
				return a.ok, answer{c.arg, true}
			}
			return !a.ok, s
		case "cad":
			if s.ok && s.v == c.old {
				return a.ok, answer{}
			}
			return !a.ok, s
		case "add": // Compute: v+arg, removing multiples of 3
			n := s.v + c.arg
			if n%3 == 0 {
				return !a.ok, answer{}
			}
			return a == answer{n, true}, answer{n, true}
		}
		panic(c.what)
	},
	Equal: func(a, b any) bool { return a == b },
	DescribeOperation: func(in, out any) string {
		return fmt.Sprintf("%+v -> %+v", in, out)
	},
}

// caller does one operation.
type caller interface {
	call(c call) answer
}

func (d *tableDict) call(c call) answer {
	switch c.what {
	case "load":
		v, ok := d.lookup(c.key)
		return answer{v, ok}
	case "insert":
		v, ok := d.insert(c.key, c.arg)
		return answer{v, ok}
	default:
		v, ok := d.remove(c.key)
		return answer{v, ok}
	}
}

func (d *mapDict) call(c call) answer {
	switch c.what {
	case "load":
		v, ok := d.m.Load(c.key)
		return answer{v, ok}
	case "insert":
		v, loaded := d.m.LoadOrStore(c.key, c.arg)
		return answer{v, !loaded}
	case "remove":
		v, ok := d.m.LoadAndDelete(c.key)
		return answer{v, ok}
	case "swap":
		v, ok := d.m.Swap(c.key, c.arg)
		return answer{v, ok}
	case "cas":
		return answer{0, d.m.CompareAndSwap(c.key, c.old, c.arg)}
	case "cad":
		return answer{0, d.m.CompareAndDelete(c.key, c.old)}
	default:
		v, ok := d.m.Compute(c.key, func(old uint64, loaded bool) (uint64, ComputeOp) {
			if n := old + c.arg; n%3 != 0 {
				return n, UpdateOp
			}
			return 0, DeleteOp
		})
		return answer{v, ok}
	}
}

var (
	tableOps = []string{"load", "load", "insert", "remove"}
	mapOps   = []string{"load", "load", "load", "insert", "insert", "remove", "swap", "cas", "cad", "add"}
)

// record lets workers call d at random and returns the history. Values are small
// where they are compared, so that cas and cad often hit.
func record(d caller, whats []string, seed uint64, workers, each, keys int) []porcupine.Operation {
	var (
		mu      sync.Mutex
		history []porcupine.Operation
		wg      sync.WaitGroup
		start   = time.Now()
	)
	for id := range workers {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(id)))
			var mine []porcupine.Operation
			for range each {
				c := call{what: whats[rnd.IntN(len(whats))], key: rnd.Uint64N(uint64(keys)), arg: rnd.Uint64N(5) + 1, old: rnd.Uint64N(5) + 1}
				from := time.Since(start).Nanoseconds()
				a := d.call(c)
				to := time.Since(start).Nanoseconds()
				mine = append(mine, porcupine.Operation{ClientId: id, Input: c, Output: a, Call: from, Return: to})
			}
			mu.Lock()
			history = append(history, mine...)
			mu.Unlock()
		})
	}
	wg.Wait()
	return history
}

// restless forces resizes and reseeds until stop, and walks on.
func restless(d dict, stop *atomic.Bool) {
	c := d.core()
	for i := 0; !stop.Load(); i++ {
		switch i % 3 {
		case 0:
			c.forceResize(true)
		case 1:
			c.forceReseed()
		case 2:
			c.forceResize(false)
		}
		for c.advance(1) && !stop.Load() {
		}
		if i%7 == 0 {
			w := d.walk()
			for range 20 {
				w.next()
			}
		}
	}
}

func TestLinearizableWhileMoving(t *testing.T) {
	rounds, each := 6, 400
	switch {
	case long:
		rounds = 30
	case testing.Short():
		rounds = 3
	}
	defer yield.Chaos(1, 7)()
	for _, kind := range dicts {
		for _, hash := range hashNames {
			t.Run("impl="+kind+"/hash="+hash, func(t *testing.T) {
				whats := tableOps
				if kind == "map" {
					whats = mapOps
				}
				for round := range rounds {
					d := newDict(kind, hash)
					// Neighbours, so that chains have overflow buckets.
					for k := range uint64(12) {
						d.insert(100+k, k)
					}
					var stop atomic.Bool
					var wg sync.WaitGroup
					wg.Go(func() { restless(d, &stop) })
					h := record(d.(caller), whats, uint64(round), 4, each, 3)
					stop.Store(true)
					wg.Wait()
					res := porcupine.CheckOperationsTimeout(oneKey, h, 20*time.Second)
					require.Equal(t, porcupine.Ok, res, "round %d", round)
					require.NoError(t, d.core().check())
				}
			})
		}
	}
}

// careless is the shipped map but for one mistake in its inserts: they look whether
// a chain has moved before they take its lock, and not again after. It is here to
// show that the test above can fail. (xsync issue 109 was of this kind.)
type careless struct{ *mapDict }

func (d careless) call(c call) answer {
	if c.what != "insert" {
		return d.mapDict.call(c)
	}
	m := d.m
	v, h := m.hashNow(&c.key)
	b := v.bucketMade(h)
	if b.meta.Load()&gone != 0 {
		return d.mapDict.call(c)
	}
	runtime.Gosched() // the window
	meta := b.meta.Load()
	for meta&locked != 0 || !b.meta.CompareAndSwap(meta, meta|locked) {
		runtime.Gosched()
		meta = b.meta.Load()
	}
	if p := m.scan(v, b, meta, h, &c.key); p != nil {
		m.unlock(b, meta)
		return answer{m.value(p), false}
	}
	m.insertLocked(v, b, h, meta, m.newEntry(&c.key, c.arg))
	return answer{c.arg, true}
}

func TestLinearizableCatchesACarelessInsert(t *testing.T) {
	for round := range 3000 {
		d := careless{newDict("map", "good").(*mapDict)}
		var stop atomic.Bool
		var wg sync.WaitGroup
		wg.Go(func() { restless(d, &stop) })
		h := record(d, tableOps, uint64(round), 4, 12, 2)
		stop.Store(true)
		wg.Wait()
		if !porcupine.CheckOperations(oneKey, h) {
			t.Logf("caught in round %d", round)
			return
		}
	}
	t.Fatal("a map that loses writes passed as linearizable")
}
