package percpu

import (
	"runtime"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// The catalogue of public bugs in sharded counters, and where it is answered:
//
//	PC-1  index of another size      TestCounterSurvivesGOMAXPROCS
//	PC-2  token of another counter   TestCountersAreIndependent
//	PC-3  wrong pool                 TestAddsAllocateNothing
//	PC-4  bias not rolled back       there are no biased locks here
//	PC-5  AddAndLoad of a stripe     no such call, see the package comment
//	PC-6  grown GOMAXPROCS           TestCounterSurvivesGOMAXPROCS
//	PC-7  the same                   TestCounterSurvivesGOMAXPROCS
//	PC-8  id trusted after unpin     TestValuesAreStable; an operation asks once (C7)
//	PC-9  tiny tokens leak ids       TestTokenIDsAreReused (percpu_nolinkname)
//	PC-10 read races retirement      TestBatchedFoldHidesNothingFromExact
//	PC-11 late slot clears           there are no rings here
//	PC-12 dying CPU skipped          TestCounterValueNeverDipsWhilePsLeave
//	PC-13 fold against add           TestBatchedFoldHidesNothingFromExact
//	PC-14 late publish               there are no rings here

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
