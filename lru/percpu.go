package lru

import (
	"fmt"
	"iter"

	"corelane/internal/yield"
)

// Config describes a PerCPU.
type Config struct {
	// Lanes is how many lists there are: one for each goroutine or P that
	// inserts at the same time. At least 1, at most 65536. A lane is 5.8 KiB.
	Lanes int

	// Scan bounds the work of a pop: so many nodes, for each victim asked for,
	// may be found touched and filed anew before the pop settles for the oldest
	// of those. Stats.Cut counts how often that happens. 0 means DefaultScan.
	Scan int
}

// DefaultScan keeps a lane locked for some tens of microseconds at worst, for
// each victim.
const DefaultScan = 1024

// PerCPU is a list and a lock per lane. A touch takes no lock: it raises the
// tick in the node, and the search for the oldest files the node anew when it
// meets it. Make one with NewPerCPU.
//
// All methods are safe for concurrent use, from any goroutine, whatever lane a
// node was inserted on. Locks are leaves: a caller may hold locks of its own,
// nothing of the caller's runs under them, and no call holds two. Nothing but
// Walk allocates.
//
// Ticks are the caller's clock, in any unit; 1 ms is coarse enough for a touch
// to be one load mostly. They should not step back: a touch with a lower tick
// than the node's is ignored.
type PerCPU[T any] struct {
	lanes []lane[T] // immutable
	scan  int64     // immutable
}

// NewPerCPU makes an empty list of cfg.Lanes lanes. The error says which number
// is out of range.
func NewPerCPU[T any](cfg Config) (*PerCPU[T], error) {
	if cfg.Lanes < 1 || cfg.Lanes > 1<<16 {
		return nil, fmt.Errorf("lru: Config.Lanes is %d, want 1 to %d", cfg.Lanes, 1<<16)
	}
	if cfg.Scan < 0 || cfg.Scan > 1<<30 {
		return nil, fmt.Errorf("lru: Config.Scan is %d, want 0 to %d", cfg.Scan, 1<<30)
	}
	if cfg.Scan == 0 {
		cfg.Scan = DefaultScan
	}
	p := &PerCPU[T]{lanes: make([]lane[T], cfg.Lanes), scan: int64(cfg.Scan)}
	for i := range p.lanes {
		p.lanes[i].index = i
		p.lanes[i].bound.Store(Any)
	}
	return p, nil
}

// Lanes returns how many lists there are.
func (p *PerCPU[T]) Lanes() int { return len(p.lanes) }

// Insert links n into a lane as used at tick. Lanes beyond the last wrap
// around, so that a P id may be passed as it is. It panics if n has no owner or
// is in a list already. It takes the lane's lock for a constant time.
func (p *PerCPU[T]) Insert(lane int, n *Node[T], tick int64) {
	l := p.lane(lane)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begin(n, tick)
	l.add(n, tick)
}

// Touch notes that n was used at tick. It takes no lock: it is one load if n
// was used at that tick already, and one compare-and-swap else. On a node that
// is in no list it has no effect. A touch that runs at the same time as the pop
// of the same node may come too late.
func (p *PerCPU[T]) Touch(n *Node[T], tick int64) { n.touch(tick) }

// Remove takes n out of whatever lane it is in and reports whether this call
// did: false if n was removed or popped before, or never inserted. It panics if
// n is in another list. It takes one lock for a constant time.
func (p *PerCPU[T]) Remove(n *Node[T]) bool {
	for {
		home := n.home.Load() // ACQUIRE home
		if home == nil {
			return false
		}
		l := &p.lanes[min(home.index, len(p.lanes)-1)]
		if &l.list != home {
			panic("lru: node of another list")
		}
		yield.Point("lru.remove")
		l.mu.Lock()
		if n.home.Load() == home {
			l.drop(n)
			l.stats.Removed++
			l.mu.Unlock()
			return true
		}
		l.mu.Unlock() // popped meanwhile, and perhaps inserted on another lane
	}
}

// PopOldest takes out the node that was touched longest ago, over all lanes,
// and returns the claim on it; false if all lanes are empty.
func (p *PerCPU[T]) PopOldest() (Ref[T], bool) { return p.PopIdle(Any) }

// PopIdle is PopOldest for a node that was touched before the tick given, and
// leaves a younger one in place.
func (p *PerCPU[T]) PopIdle(before int64) (Ref[T], bool) {
	var r [1]Ref[T]
	n := p.PopBatch(r[:], before)
	return r[0], n > 0
}

// PopBatch pops the oldest nodes that were touched before the tick given, at
// most len(refs), and returns how many; 0 only if there are none, or if
// Config.Scan ran out before one so old was found. Victims come oldest first. The
// cost is a load per lane and a lock for each run of victims that stand together
// on one lane, plus a move for each node met that was touched since it was filed.
func (p *PerCPU[T]) PopBatch(refs []Ref[T], before int64) (n int) {
	s := p.search(before, len(refs))
	for n < len(refs) {
		l, others := p.eldest(before)
		if l == nil {
			break
		}
		yield.Point("lru.pop")
		n += l.take(refs[n:], others, &s)
		if !s.over {
			continue
		}
		r, ok := s.settle(true)
		if r.Owner != nil {
			refs[n] = r
			n++
		}
		if ok || n > 0 {
			break // what is left is for the next call, which finds it better sorted
		}
		s = p.search(before, len(refs))
	}
	return n
}

// PopOwn takes out the node of one lane that was touched longest ago: the rule
// of the 2013 patch, in which each CPU has a limit and evicts for itself.
func (p *PerCPU[T]) PopOwn(lane int) (Ref[T], bool) {
	l := p.lane(lane)
	for {
		var r [1]Ref[T]
		s := p.search(Any, 1)
		if n := l.take(r[:], Any, &s); n > 0 || !s.over {
			return r[0], n > 0
		}
		if r, ok := s.settle(true); ok {
			return r, true
		}
	}
}

// Oldest returns the node that was touched longest ago, over all lanes, and
// leaves it in place; false if all lanes are empty. It costs what PopOldest
// costs.
func (p *PerCPU[T]) Oldest() (Ref[T], bool) {
	s := p.search(Any, 1)
	for {
		l, others := p.eldest(Any)
		if l == nil {
			return Ref[T]{}, false
		}
		l.mu.Lock()
		n := l.oldest(others, &s)
		var r Ref[T]
		if n != nil {
			r = n.ref()
		}
		l.mu.Unlock()
		if n != nil {
			return r, true
		}
		if s.over {
			if r, ok := s.settle(false); ok {
				return r, true
			}
			s = p.search(Any, 1)
		}
	}
}

func (p *PerCPU[T]) search(before int64, victims int) search[T] {
	return search[T]{before: before, scan: p.scan * int64(victims)}
}

// eldest returns the lane with the smallest bound, nil if none has one before
// the tick given, and the smallest bound of the others.
//
// That there is none must have been true at one instant. Bounds are read one
// after the other, and while one goroutine does so, another may move every node
// from a lane not read yet to one that was read empty. So the births are read
// before and after: if no lane had one, every lane stayed as empty as it was
// read, and all were so at the last read. An Insert that lowered a bound too
// late for us to see has either counted its birth when we look again, or has
// not returned, and counts as later than this call.
func (p *PerCPU[T]) eldest(before int64) (l *lane[T], others int64) {
	for {
		l, others = p.compare(before)
		if l != nil {
			return l, others
		}
		births := p.births()
		if l, others = p.compare(before); l != nil || births == p.births() {
			return l, others
		}
	}
}

// compare reads the bounds once. It is most of what a pop costs when lanes are
// many, so the running minimum and the second are kept without branches.
func (p *PerCPU[T]) compare(before int64) (l *lane[T], others int64) {
	at, first, second := 0, int64(Any), int64(Any)
	for i := range p.lanes {
		b := p.lanes[i].bound.Load() // ACQUIRE bound
		second = min(second, max(first, b))
		if b < first {
			at = i
		}
		first = min(first, b)
		if yield.Enabled { // even an empty call costs 3 ns a lane here
			yield.Point("lru.compare")
		}
	}
	if first >= before {
		return nil, second
	}
	return &p.lanes[at], second
}

// births returns how many lives began, over all lanes. It only grows, so two
// equal sums mean that no lane's share changed from its first to its last read.
func (p *PerCPU[T]) births() (n uint64) {
	for i := range p.lanes {
		n += p.lanes[i].births.Load() // ACQUIRE births
	}
	return n
}

// Len returns how many nodes are linked: a load per lane, no lock. It is not one
// instant: a node that is moved from one lane to another meanwhile may be counted
// twice or not at all. For a limit that holds at every instant keep a count of
// places, or a memory account, and pop before you insert.
func (p *PerCPU[T]) Len() (n int) {
	for i := range p.lanes {
		n += int(p.lanes[i].size.Load())
	}
	return n
}

// LaneLen returns how many nodes are linked in one lane, with one load.
func (p *PerCPU[T]) LaneLen(lane int) int { return int(p.lane(lane).size.Load()) }

// Walk yields every node that was linked from the start of the walk to its end,
// and any of the others at most once a life, lane by lane, in no order of age.
// Each lane is locked while its nodes are copied; the body runs under no lock
// and may call anything, and finds objects that have left the list since.
func (p *PerCPU[T]) Walk() iter.Seq[Ref[T]] {
	return func(yield func(Ref[T]) bool) {
		var refs []Ref[T]
		for i := range p.lanes {
			l := &p.lanes[i]
			l.mu.Lock()
			refs = l.aged.appendTo(l.fresh.appendTo(refs[:0]))
			l.mu.Unlock()
			for _, r := range refs {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// Stats returns the sum of the lanes' counters, each lane at one instant.
func (p *PerCPU[T]) Stats() (s Stats) {
	for i := range p.lanes {
		s.add(p.LaneStats(i))
	}
	return s
}

// LaneStats returns the counters of one lane at one instant.
func (p *PerCPU[T]) LaneStats(lane int) Stats {
	l := p.lane(lane)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stats
}

func (p *PerCPU[T]) lane(i int) *lane[T] {
	if i >= len(p.lanes) {
		i %= len(p.lanes)
	}
	return &p.lanes[i]
}
