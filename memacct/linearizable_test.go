package memacct

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
)

type chargeOp struct {
	kind string // charge, uncharge, used, exact
	n    int64
}

// capModel is an account of a given cap as the guarantees describe it: a charge
// that succeeded fits (M1); one that was refused did not, but for what others may
// have in hand (M7); a read reports at least what is outstanding (M3).
func capModel(limit, inHand int64) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return int64(0) },
		Step: func(state, input, output any) (bool, any) {
			out, op := state.(int64), input.(chargeOp)
			switch op.kind {
			case "charge":
				if output.(bool) {
					return out+op.n <= limit, out + op.n
				}
				return out+op.n+inHand > limit, out
			case "uncharge":
				return true, out - op.n
			default:
				got := output.(int64)
				return got >= out && got <= limit, out
			}
		},
	}
}

// Four goroutines on four lanes of one account, full half of the time.
func TestStockIsLinearizable(t *testing.T) {
	const workers, limit, batch = 4, 100, 4
	for round := range 300 {
		root := newStock(t, nil, Config{Limits: capped(limit).Limits, Lanes: 1, Batch: batch})
		leaf := newStock(t, root, capped(limit))
		var (
			wg    sync.WaitGroup
			mu    sync.Mutex
			ops   []porcupine.Operation
			epoch = time.Now()
		)
		do := func(client int, op chargeOp, act func() any) any {
			call := int64(time.Since(epoch))
			out := act()
			ret := int64(time.Since(epoch))
			mu.Lock()
			defer mu.Unlock()
			ops = append(ops, porcupine.Operation{ClientId: client, Input: op, Call: call, Output: out, Return: ret})
			return out
		}
		for w := range workers {
			wg.Go(func() {
				var held []int64
				for i := range 10 {
					n := int64(10 + (i*7+w*3+round)%25)
					if do(w, chargeOp{"charge", n}, func() any { return leaf.TryChargeAt(w, n) }).(bool) {
						held = append(held, n)
					}
					if i%3 == 0 {
						do(w, chargeOp{"used", 0}, func() any { return leaf.Used() })
					}
					if len(held) > 1 || i == 9 {
						for _, n := range held {
							do(w, chargeOp{"uncharge", n}, func() any { leaf.UnchargeAt(w+1, n); return nil })
						}
						held = nil
					}
				}
			})
		}
		wg.Wait()
		// In hand: a batch, and a whole piece half done, for each of the others.
		res := porcupine.CheckOperationsTimeout(capModel(limit, (workers-1)*(2*batch+35)), ops, 20*time.Second)
		require.Equal(t, porcupine.Ok, res, "round=%d", round)
		require.Zero(t, exact(t, root), "round=%d", round)
	}
}

// The model must refuse an account that lets one byte too much in.
func TestCapModelRefusesOvershoot(t *testing.T) {
	at := func(client int, n int64, ok bool, call, ret int64) porcupine.Operation {
		return porcupine.Operation{ClientId: client, Input: chargeOp{"charge", n}, Output: ok, Call: call, Return: ret}
	}
	for _, tc := range []struct {
		ops  []porcupine.Operation
		want bool
	}{
		{[]porcupine.Operation{at(0, 60, true, 0, 5), at(1, 41, true, 1, 6)}, false},
		{[]porcupine.Operation{at(0, 60, true, 0, 5), at(1, 40, true, 1, 6)}, true},
		{[]porcupine.Operation{at(0, 60, true, 0, 1), at(1, 40, false, 2, 3)}, false},
		{[]porcupine.Operation{at(0, 60, true, 0, 1), at(1, 41, false, 2, 3)}, true},
	} {
		require.Equal(t, tc.want, porcupine.CheckOperations(capModel(100, 0), tc.ops), fmt.Sprint(tc.ops))
	}
}
