package reasm

import "sync/atomic"

// The cache's own clock is its turnover: how long memory lasts at the rate at which
// newcomers ask for it, by Little's law (Little 1961) the queues held over the
// newcomers in a second. Whatever the policy knows of time that it did not learn
// from a source, it knows as a multiple of that; so none of it assumes a rate.
const (
	firstTurnover = int64(2e6) // ns, until it was measured
	paceWindow    = 64         // newcomers
	perSecond     = 30         // log2 of the nanoseconds that rates are for, about a second
)

// worthPace is what one lane knows of it.
type worthPace struct {
	// Written by the goroutine that uses the lane, read by anyone.
	turnover atomic.Int64 // ns
	rate     atomic.Int64 // newcomers in 2^30 ns, in the last window
	since    atomic.Int64 // end of the last window

	asked int64 // newcomers in this window; of that goroutine
}

// came notes a newcomer.
func (d *worth) came(l *lane) {
	p := &d.lanes[l.id].pace
	if p.asked++; p.asked < paceWindow {
		return
	}
	p.asked = 0
	if p.since.Load() == 0 {
		p.since.Store(l.now)
		return
	}
	p.rate.Store(paceWindow << perSecond / max(l.now-p.since.Load(), 1))
	p.since.Store(l.now)
	var queues, rate int64
	for i := range d.lanes {
		n := &d.lanes[i]
		queues += int64(n.size.Load())
		rate += n.pace.at(l.now)
	}
	p.turnover.Store(max(queues<<perSecond/max(rate, 1), 1))
}

// at is the rate by now: a lane that has no more newcomers has none.
func (p *worthPace) at(now int64) int64 {
	return min(p.rate.Load(), paceWindow<<perSecond/max(now-p.since.Load(), 1))
}
