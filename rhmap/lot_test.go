package rhmap

import (
	"sync"
	"testing"
)

// Two writers of one chain whose keys belong to different stripes: whoever
// unlocks must wake whoever is parked.
func TestParkedWriterIsWokenFromAnyStripe(t *testing.T) {
	var c core
	c.draw = func() hashKey { return hashKey{} }
	c.init(limits{}, 0)
	v := c.cur.Load()
	b := v.bucketMade(0)
	lo, hi := uint64(0), uint64(1)<<60
	m, ok := c.lock(b, lo)
	if !ok {
		t.Fatal("no lock")
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		m, _ := c.lock(b, hi)
		c.unlock(b, hi, m)
	})
	for b.meta.Load()&parked == 0 {
	}
	c.unlock(b, lo, m)
	wg.Wait()
}
