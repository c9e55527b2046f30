//go:build invariants

package memacct

import "sync/atomic"

// shadow counts what a Stock has handed out, so that an over-release panics on
// the spot instead of being found at the next Exact.
type shadow struct{ out atomic.Int64 }

func (s *shadow) charge(n int64) { s.out.Add(n) }

func (s *shadow) uncharge(of *Stock, n int64) {
	if base(of.used().Load()) == closed {
		return // ignored, as Close gave everything back
	}
	if out := s.out.Add(-n); out < 0 {
		s.out.Add(n)
		panic((&OverReleaseError{Released: n, Charged: out + n}).Error())
	}
}
