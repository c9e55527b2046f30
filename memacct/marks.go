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
	notify func(above bool) // immutable
	above  atomic.Bool
}

// makeMarks returns nil for an account that nobody watches.
func makeMarks(notify func(bool)) *marks {
	if notify == nil {
		return nil
	}
	return &marks{notify: notify}
}

func (m *marks) rose(used, high int64) {
	if used > high && !m.above.Load() && m.above.CompareAndSwap(false, true) {
		m.notify(true)
	}
}

func (m *marks) fell(used, low int64) {
	if used <= low && m.above.Load() && m.above.CompareAndSwap(true, false) {
		m.notify(false)
	}
}
