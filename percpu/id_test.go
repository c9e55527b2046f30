package percpu

import (
	"runtime"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Ids are small: dense over the Ps, or over live tokens.
func TestIDIsSmall(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for range 1000 {
				if id := ID(); id < 0 || id >= 64 {
					t.Errorf("id %d with 8 Ps", id)
					return
				}
			}
		})
	}
	wg.Wait()
}
