package stress

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A ledger that misses a doubled item would let every suite pass.
func TestLedgerFindsLostAndDoubled(t *testing.T) {
	l := NewLedger("ledger", 3)
	require.NoError(t, l.Out(1))
	require.ErrorContains(t, l.Out(1), "item 1 handed out twice")
	require.ErrorContains(t, l.Balanced(), "1 of 3 items never came back, the first is 1")
	require.NoError(t, l.Back(1))
	require.ErrorContains(t, l.Back(1), "item 1 came back twice")
	require.ErrorContains(t, l.Out(3), "does not exist")
	require.NoError(t, l.Balanced())
}

// Dekker's handshake with sequentially consistent atomics: both reading 0 is
// the one outcome the Go memory model forbids.
func TestLitmusCrossedFlags(t *testing.T) {
	RunLitmus(t, Litmus{
		New: func() ([]func(), func() string) {
			var x, y, r1, r2 atomic.Int32
			return []func(){
					func() { x.Store(1); r1.Store(y.Load()) },
					func() { y.Store(1); r2.Store(x.Load()) },
				}, func() string {
					return string([]byte{'0' + byte(r1.Load()), ',', '0' + byte(r2.Load())})
				}
		},
		Table: map[string]Outcome{
			"0,0": {Forbidden, "each store precedes the other side's load"},
			"0,1": {Acceptable, "the first actor ran first"},
			"1,0": {Acceptable, "the second actor ran first"},
			"1,1": {Interesting, "both stores came before both loads"},
		},
	})
}

func TestPlanCountsEveryActor(t *testing.T) {
	sum := NewSum("ops")
	Run(t, Plan{
		Scale: 0.1,
		Procs: []int{1, 2, 4},
		Actors: []Actor{
			{Name: "in", Workers: 3, Run: func(w *Worker) error {
				for w.Next() {
					sum.Add(1)
					sum.Add(-1)
				}
				return nil
			}},
		},
		Check: func() error { return sum.Equals(0) },
	})
}
