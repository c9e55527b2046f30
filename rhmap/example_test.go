package rhmap_test

import (
	"fmt"
	"sync"

	"corelane/rhmap"
)

func ExampleMap() {
	var m rhmap.Map[string, int] // the zero Map is ready
	m.Store("a", 1)
	m.Compute("a", func(old int, _ bool) (int, rhmap.ComputeOp) { return old + 1, rhmap.UpdateOp })
	for k, v := range m.All() { // exactly once, whatever others do to the map
		fmt.Println(k, v)
		m.Delete(k)
	}
	fmt.Println(m.Len())
	// Output:
	// a 2
	// 0
}

// A queue of fragments, as a cache holds it: the node is part of it, and it is
// used again and again.
type queue struct {
	mu        sync.Mutex
	fragments int // under mu
	node      rhmap.Node[[2]uint64]
}

func ExampleTable() {
	table := rhmap.NewTable(func(q *queue) *rhmap.Node[[2]uint64] { return &q.node }, rhmap.Config[[2]uint64]{})
	pool := sync.Pool{New: func() any { return new(queue) }}

	add := func(key [2]uint64) {
		for {
			ref := table.Lookup(&key)
			if !ref.Ok() {
				q := pool.Get().(*queue)
				var inserted bool
				if ref, inserted, _ = table.InsertUnique(&key, q); !inserted {
					pool.Put(q) // somebody was faster
				}
			}
			q := ref.Node
			q.mu.Lock()
			live := table.Live(ref) // or the queue has been removed, and perhaps used again
			if live {
				q.fragments++
			}
			q.mu.Unlock()
			if live {
				return
			}
		}
	}
	add([2]uint64{1, 1})
	add([2]uint64{1, 1})

	// The evictor keeps one walker for life.
	w := table.Walk()
	ref, _ := w.Next()
	q := ref.Node
	q.mu.Lock()
	fmt.Println("fragments", q.fragments)
	if table.Remove(ref) { // exactly one caller wins
		q.fragments = 0
		defer pool.Put(q)
	}
	q.mu.Unlock()
	fmt.Println("left", table.Len())
	// Output:
	// fragments 2
	// left 0
}

func ExampleWalker() {
	table := rhmap.NewTable(func(q *queue) *rhmap.Node[[2]uint64] { return &q.node }, rhmap.Config[[2]uint64]{})
	for i := range uint64(1000) {
		_, _, _ = table.InsertUnique(&[2]uint64{i}, new(queue))
	}
	w := table.Walk()
	var refs [64]rhmap.Ref[queue]
	removed := 0
	for more := true; more; {
		var n int
		n, more = w.NextBatch(refs[:], 256) // a slice of work; sleep here, as long as you like
		for _, r := range refs[:n] {
			if table.Remove(r) {
				removed++
			}
		}
	}
	fmt.Println(removed, table.Len())
	// Output: 1000 0
}
