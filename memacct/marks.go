package memacct

import "sync/atomic"

// marks remembers on which side of an account's marks it was last seen.
//
//	below --(Used > High)--> above --(Used <= Low)--> below
//
// Whoever wins the transition runs notify, so it runs once per crossing, and a
// charge made by notify itself finds the transition done (ClickHouse#83607: the
// accounting code's own allocations re-entered it).
type marks struct {
	notify func(above bool) // immutable; may be nil
	above  atomic.Bool
}

func (m *marks) rose(used, high int64) {
	if used > high && m.notify != nil && !m.above.Load() && m.above.CompareAndSwap(false, true) {
		m.notify(true)
	}
}

func (m *marks) fell(used, low int64) {
	if used <= low && m.notify != nil && m.above.Load() && m.above.CompareAndSwap(true, false) {
		m.notify(false)
	}
}
