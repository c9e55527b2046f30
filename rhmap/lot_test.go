package rhmap

import (
	"runtime"
	"sync"
	"testing"
)

// Whoever unlocks must wake whoever is parked, whatever their keys: in a table of
// few buckets the keys of one chain belong to several stripes.
func TestParkedWriterIsWoken(t *testing.T) {
	var c core
	c.draw = func() hashKey { return hashKey{} }
	c.init(limits{}, 0)
	v := c.cur.Load()
	b := v.bucketMade(0)
	m, ok := c.lock(b)
	if !ok {
		t.Fatal("no lock")
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		m, _ := c.lock(b)
		c.unlock(b, m)
	})
	for b.meta.Load()&parked == 0 {
		runtime.Gosched()
	}
	c.unlock(b, m)
	wg.Wait()
}
