package percpu

import (
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
)

// history runs scripts at the same time, one goroutine each, and records what
// every step was called with and returned.
func history(scripts [][]func() (input, output any)) (ops []porcupine.Operation) {
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		start = make(chan struct{})
		epoch = time.Now()
	)
	for client, steps := range scripts {
		wg.Go(func() {
			<-start
			for _, step := range steps {
				call := time.Since(epoch)
				in, out := step()
				op := porcupine.Operation{ClientId: client, Input: in, Call: int64(call), Output: out, Return: int64(time.Since(epoch))}
				mu.Lock()
				ops = append(ops, op)
				mu.Unlock()
			}
		})
	}
	close(start)
	wg.Wait()
	return ops
}

// delta is an Add of two counters; nil input is a read.
type delta [2]int64

// sums is the model of two counters.
var sums = porcupine.Model{
	Init: func() any { return delta{} },
	Step: func(state, input, output any) (bool, any) {
		s := state.(delta)
		if d, isAdd := input.(delta); isAdd {
			return true, delta{s[0] + d[0], s[1] + d[1]}
		}
		return output.(delta) == s, s
	},
}

func linearizable(t *testing.T, ops []porcupine.Operation) bool {
	t.Helper()
	res := porcupine.CheckOperationsTimeout(sums, ops, 10*time.Second)
	require.NotEqual(t, porcupine.Unknown, res)
	return res == porcupine.Ok
}

// C2: a Counter that grows by one is linearizable, before, while and after it
// shards.
func TestCounterOfOnesIsLinearizable(t *testing.T) {
	for round := range 200 {
		var c Counter
		var scripts [][]func() (any, any)
		for w := range 3 {
			var steps []func() (any, any)
			for i := range 8 {
				steps = append(steps, func() (any, any) { c.AddAt(w, 1); return delta{1}, nil })
				if i%3 == w {
					steps = append(steps, func() (any, any) { return nil, delta{c.Value()} })
				}
			}
			scripts = append(scripts, steps)
		}
		scripts = append(scripts, []func() (any, any){func() (any, any) { shard(t, &c); return delta{}, nil }})
		require.True(t, linearizable(t, history(scripts)), "round=%d", round)
	}
}

// C5: a Snapshot is, for any amounts, with one counter or two in an Add, while
// others Swap.
func TestSnapshotIsLinearizable(t *testing.T) {
	for round := range 200 {
		s := NewSnapshot(2)
		var scripts [][]func() (any, any)
		for w := range 3 {
			var steps []func() (any, any)
			for i := range 8 {
				d := delta{int64(1 + i*w), int64(-3 * i)}
				switch (i + w) % 4 {
				case 0:
					steps = append(steps, func() (any, any) { s.AddAllAt(w, d[:]); return d, nil })
				case 1:
					steps = append(steps, func() (any, any) { s.Add(1, d[1]); return delta{0, d[1]}, nil })
				case 2:
					steps = append(steps, func() (any, any) { s.AddAt(w, 0, d[0]); return delta{d[0]}, nil })
				default:
					steps = append(steps, func() (any, any) { got := s.Read(nil); return nil, delta{got[0], got[1]} })
				}
			}
			scripts = append(scripts, steps)
		}
		require.True(t, linearizable(t, history(scripts)), "round=%d", round)
	}
}

// The checker must catch what C2 says a plain sum may do, or it proves nothing.
func TestCheckerRefusesAnInventedTotal(t *testing.T) {
	at := func(client int, in, out any, call, ret int64) porcupine.Operation {
		return porcupine.Operation{ClientId: client, Input: in, Output: out, Call: call, Return: ret}
	}
	require.False(t, linearizable(t, []porcupine.Operation{
		at(0, delta{100}, nil, 0, 1),
		at(1, nil, delta{0}, 2, 9), // between the two adds it was 200, before and after 100
		at(0, delta{100}, nil, 3, 4),
		at(0, delta{-100}, nil, 5, 6),
	}))
}
