package stress

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"corelane/memacct"
)

// charged follows what the actors of a suite hold of one account, to judge the cap
// from outside: it counts a charge after it succeeded and a release before it
// begins, so it never counts more than is outstanding.
type charged struct {
	acct *memacct.Stock
	cap  int64
	out  atomic.Int64
}

func (c *charged) add(n int64) error {
	if now := c.out.Add(n); now > c.cap {
		return fmt.Errorf("M1: %d bytes outstanding under a cap of %d", now, c.cap)
	}
	return nil
}

func stockTree(t *testing.T) (host *charged, children []*charged) {
	t.Helper()
	config := func(n int64) memacct.Config {
		return memacct.Config{Limits: memacct.Limits{Cap: n, High: n, Low: n}, Lanes: 4, Batch: 8000}
	}
	make1 := func(parent *memacct.Stock, n int64) *charged {
		a, err := memacct.NewStock(parent, config(n))
		if err != nil {
			t.Fatal(err)
		}
		return &charged{acct: a, cap: n}
	}
	host = make1(nil, 400_000)
	for range 4 {
		children = append(children, make1(host.acct, 160_000))
	}
	return host, children
}

// mixed is the actor of the suites below: it charges and releases pieces of up to
// 4000 bytes on random accounts, on its own lane or that of its P, and releases
// all it holds at the end.
func mixed(host *charged, children []*charged) func(w *Worker) error {
	return func(w *Worker) error {
		type piece struct {
			of *charged
			n  int64
		}
		var held []piece
		release := func(p piece) {
			p.of.out.Add(-p.n)
			host.out.Add(-p.n)
			if w.Rand.IntN(2) == 0 {
				p.of.acct.UnchargeAt(w.Rand.IntN(6), p.n)
			} else {
				p.of.acct.Uncharge(p.n)
			}
		}
		for w.Next() {
			if len(held) > 0 && (w.Rand.IntN(100) < 45 || len(held) > 60) {
				i := w.Rand.IntN(len(held))
				release(held[i])
				held[i] = held[len(held)-1]
				held = held[:len(held)-1]
				continue
			}
			p := piece{children[w.Rand.IntN(len(children))], w.Rand.Int64N(4000)}
			ok := false
			if w.Rand.IntN(2) == 0 {
				ok = p.of.acct.TryChargeAt(w.ID, p.n)
			} else {
				ok = p.of.acct.TryCharge(p.n)
			}
			if !ok {
				continue
			}
			if err := errors.Join(p.of.add(p.n), host.add(p.n)); err != nil {
				return err
			}
			held = append(held, p)
		}
		for _, p := range held {
			release(p)
		}
		return nil
	}
}

// atZero judges M4: nothing is left anywhere, to the byte.
func atZero(host *charged, children []*charged) error {
	for _, c := range append(children, host) {
		n, err := c.acct.Exact()
		if err != nil {
			return err
		}
		if n != 0 || c.acct.Idle() != 0 || c.out.Load() != 0 {
			return fmt.Errorf("M4: %d bytes in use, %d idle, %d held at the end", n, c.acct.Idle(), c.out.Load())
		}
	}
	return nil
}

// TestStressMemacctMixed.
//
// Actors:   8 that charge and release over a host and 4 children, whose caps add up to more than the host's; 1 reader; 1 drainer.
//
// Claims:   M1 overshoot 0, for holders and for readers; M4 drift 0.
// Windows:  memacct.stock.*
// Replay:   go test -race ./stress -run TestStressMemacctMixed -stress.seed=<printed>
func TestStressMemacctMixed(t *testing.T) {
	host, children := stockTree(t)
	Run(t, Plan{
		Procs: []int{2, 64, 1, 8, 3},
		Actors: []Actor{
			{Name: "mixed", Workers: 8, Run: mixed(host, children)},
			{Name: "reader", Run: func(w *Worker) error {
				for w.Next() {
					c := children[w.Rand.IntN(len(children))]

					used := c.acct.Used()
					if used > c.cap || host.acct.Used() > host.cap || used < 0 {
						return fmt.Errorf("M1: %d used under a cap of %d", used, c.cap)
					}

				}
				return nil
			}},
			{Name: "drainer", Run: func(w *Worker) error {
				for w.Next() {
					if err := children[w.Rand.IntN(len(children))].acct.Drain(); err != nil {
						return err
					}
				}
				return nil
			}},
		},
		Check: func() error { return atZero(host, children) },
	})
}

// TestStressMemacctAdministration.
//
// Actors:   4 that charge and release; 1 that changes limits, up to the caps the ledger knows; 2 that make, use, shut and close children of their own.
//
// Claims:   M1, M4, and M8: what a child leaves at Close goes back exactly once.
// Replay:   go test -race ./stress -run TestStressMemacctAdministration -stress.seed=<printed>
func TestStressMemacctAdministration(t *testing.T) {
	host, children := stockTree(t)
	Run(t, Plan{
		Actors: []Actor{
			{Name: "mixed", Workers: 4, Run: mixed(host, children)},
			{Name: "limits", Run: func(w *Worker) error {
				for w.Next() {
					c := children[w.Rand.IntN(len(children))]
					n := 1 + w.Rand.Int64N(c.cap)
					if err := c.acct.SetLimits(memacct.Limits{Cap: n, High: n, Low: n / 2}); err != nil {
						return err
					}
					_ = c.acct.Limits()
				}
				return nil
			}},
			{Name: "owners", Workers: 2, Run: func(w *Worker) error {
				for w.Next() {
					n := int64(50_000)
					a, err := memacct.NewStock(host.acct, memacct.Config{Limits: memacct.Limits{Cap: n, High: n, Low: n}})
					if err != nil {
						return err
					}
					held := int64(0)
					for range w.Rand.IntN(20) {
						if n := w.Rand.Int64N(4000); a.TryChargeAt(w.ID, n) {
							held += n
						}
					}
					late := held / 2
					a.UnchargeAt(w.Rand.IntN(4), held-late)
					if w.Rand.IntN(2) == 0 {
						a.Shut()
						if a.TryCharge(1) {
							return errors.New("charged to an account that is shut")
						}
					}
					err = a.Close()
					var left *memacct.LeftoverError
					if errors.As(err, &left) != (late > 0) || late > 0 && left.Bytes != late {
						return fmt.Errorf("M8: closed with %d held: %w", late, err)
					}
					a.UnchargeAt(0, late) // too late: Close gave it back
				}
				return nil
			}},
		},
		Check: func() error { return atZero(host, children) },
	})
}

// One byte of room and two that want it: exactly one may have it, and not none
// (M7): each refusal must have been after the other's success.
func TestLitmusLastByte(t *testing.T) {
	RunLitmus(t, Litmus{
		New: func() ([]func(), func() string) {
			a, err := memacct.NewStock(nil, memacct.Config{Limits: memacct.Limits{Cap: 100, High: 100, Low: 0}, Lanes: 1})
			if err != nil {
				panic(err)
			}
			a.TryChargeAt(0, 99)
			var got [2]bool
			return []func(){
				func() { got[0] = a.TryChargeAt(0, 1) },
				func() { got[1] = a.TryChargeAt(1, 1) },
			}, func() string { return fmt.Sprint(got) }
		},
		Table: map[string]Outcome{
			"[true false]":  {Acceptable, "the first was first"},
			"[false true]":  {Acceptable, "the second was first"},
			"[true true]":   {Forbidden, "M1: 101 bytes under a cap of 100"},
			"[false false]": {Forbidden, "M7: room, and nobody got it"},
		},
	})
}
