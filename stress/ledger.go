package stress

import (
	"fmt"
	"sync/atomic"
)

// Ledger follows a fixed set of items, each of which must be handed out and
// come back in turn: it finds the item that was lost, doubled or invented.
type Ledger struct {
	name  string
	state []atomic.Int32 // 0 = at home, 1 = out; anything else never stays
}

// NewLedger makes a ledger of n items, all at home.
func NewLedger(name string, n int) *Ledger {
	return &Ledger{name: name, state: make([]atomic.Int32, n)}
}

// Out notes that item i was handed out.
func (l *Ledger) Out(i int) error { return l.move(i, 0, 1, "handed out twice") }

// Back notes that item i came back.
func (l *Ledger) Back(i int) error { return l.move(i, 1, 0, "came back twice") }

func (l *Ledger) move(i int, from, to int32, what string) error {
	if i < 0 || i >= len(l.state) {
		return fmt.Errorf("%s: item %d does not exist", l.name, i)
	}
	if !l.state[i].CompareAndSwap(from, to) {
		return fmt.Errorf("%s: item %d %s", l.name, i, what)
	}
	return nil
}

// Balanced reports an error unless every item is at home.
func (l *Ledger) Balanced() error {
	missing, first := 0, -1
	for i := range l.state {
		if l.state[i].Load() != 0 {
			missing++
			if first < 0 {
				first = i
			}
		}
	}
	if missing > 0 {
		return fmt.Errorf("%s: %d of %d items never came back, the first is %d", l.name, missing, len(l.state), first)
	}
	return nil
}

// Sum follows an amount: what went in must equal what came out.
type Sum struct {
	name string
	n    atomic.Int64
}

// NewSum makes an empty sum.
func NewSum(name string) *Sum { return &Sum{name: name} }

// Add notes an amount going in, or out when negative.
func (s *Sum) Add(n int64) { s.n.Add(n) }

// Equals reports an error unless the sum is want.
func (s *Sum) Equals(want int64) error {
	if got := s.n.Load(); got != want {
		return fmt.Errorf("%s: sum is %d, want %d", s.name, got, want)
	}
	return nil
}
