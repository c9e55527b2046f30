package lru_test

import (
	"fmt"
	"sync"

	"corelane/lru"
)

// An object carries its node; the list hands the object back.
func ExampleGlobal() {
	type session struct {
		name string
		node lru.Node[session]
	}
	var recent lru.Global[session]
	var all [3]session
	for i, name := range []string{"ada", "bob", "cy"} {
		s := &all[i]
		s.name = name
		s.node.Init(s)
		recent.Insert(&s.node, int64(i))
	}
	recent.Touch(&all[0].node, 3) // ada is back
	if victim, ok := recent.PopOldest(); ok {
		fmt.Println(victim.Owner.name, "idle since", victim.Tick)
	}
	// Output: bob idle since 1
}

// cache is an ordinary bounded cache. A hit is a map look-up under a read lock
// and a touch, which takes no lock: readers do not serialise on the list.
type cache struct {
	mu      sync.RWMutex
	entries map[string]*entry // guarded by mu
	limit   int
	use     *lru.PerCPU[entry]
}

type entry struct {
	key, value string
	node       lru.Node[entry]
}

func newCache(limit int) *cache {
	use, err := lru.NewPerCPU[entry](lru.Config{Lanes: 4})
	if err != nil {
		panic(err)
	}
	return &cache{entries: map[string]*entry{}, limit: limit, use: use}
}

func (c *cache) get(now int64, key string) (string, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	e, ok := c.entries[key]
	if !ok {
		return "", false
	}
	c.use.Touch(&e.node, now)
	return e.value, true
}

// put stores a new key. lane is any number that differs between writers that
// run at the same time: a worker's number, or percpu.ID().
func (c *cache) put(now int64, lane int, key, value string) {
	e := &entry{key: key, value: value}
	e.node.Init(e)
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.entries[key]; ok {
		c.use.Remove(&old.node) // an update evicts nobody
	} else if len(c.entries) == c.limit {
		victim, _ := c.use.PopOldest()
		delete(c.entries, victim.Owner.key)
	}
	c.entries[key] = e
	c.use.Insert(lane, &e.node, now)
}

// PerCPU as the eviction list of an ordinary cache.
func ExamplePerCPU() {
	c := newCache(2)
	c.put(1, 0, "a", "alpha")
	c.put(2, 1, "b", "beta")
	c.get(3, "a")
	c.put(4, 2, "c", "gamma") // b goes: a was used since
	for _, key := range []string{"a", "b", "c"} {
		value, ok := c.get(5, key)
		fmt.Println(key, value, ok)
	}
	// Output:
	// a alpha true
	// b  false
	// c gamma true
}

// A claim is checked under the object's own lock: between the pop and the lock
// the object may have been retired by somebody else, and used again.
func ExampleRef_Current() {
	type queue struct {
		mu   sync.Mutex
		live bool
		node lru.Node[queue]
	}
	var q queue
	var list lru.Global[queue]
	q.node.Init(&q)
	q.live = true
	list.Insert(&q.node, 1)

	claim, _ := list.PopOldest() // q.mu is not held here
	q.mu.Lock()                  // meanwhile, elsewhere: q completes,
	q.live = false
	fmt.Println("removed by the completer:", list.Remove(&q.node))
	q.live = true // and is used for the next datagram
	list.Insert(&q.node, 2)
	q.mu.Unlock()

	claim.Owner.mu.Lock()
	fmt.Println("may evict:", claim.Current() && claim.Owner.live)
	claim.Owner.mu.Unlock()
	// Output:
	// removed by the completer: false
	// may evict: false
}
