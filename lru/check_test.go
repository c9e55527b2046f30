package lru

import "github.com/stretchr/testify/require"

// checkLane states every rule of a lane: the rings, A1-A3, B1-B3 and the size.
// exact says that no tick ever stepped back.
func checkLane[T any](t require.TestingT, l *lane[T], exact bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	must := func(ok bool, rule string) { // require's own calls cost 1 us each
		if !ok {
			require.Fail(t, "lane breaks "+rule)
		}
	}
	count, low := 0, int64(Any)
	ring := func(c *chain[T], rule func(n, before *Node[T])) {
		var before *Node[T]
		for n := c.oldest; n != nil && (before == nil || n != c.oldest); n = n.next {
			must(n.next.prev == n && n.prev.next == n, "the ring")
			must(n.home.Load() == &l.list, "home")
			must(!exact || n.pos <= n.stamp(), "B2")
			rule(n, before)
			count++
			low = min(low, n.pos)
			before = n
		}
	}
	ring(&l.fresh, func(n, before *Node[T]) {
		must(n.slot == inFresh, "slot")
		must(key(n.pos) >= l.aged.base, "B1, base")
		must(before == nil || before.pos <= n.pos, "B1, order")
	})
	for level := range uint16(tickDigits) {
		for digit := range uint16(1 << digitBits) {
			c := l.aged.chain(level, digit)
			must((c.oldest != nil) == (l.aged.used[level]&(1<<digit) != 0), "A3, used")
			ring(c, func(n, _ *Node[T]) {
				must(n.slot == slotNumber(level, digit), "slot")
				must(key(n.pos) >= l.aged.base, "A1")
				if n.slot != l.aged.spilling {
					wantLevel, wantDigit := l.aged.where(key(n.pos))
					must(wantLevel == level && wantDigit == digit, "A2")
				}
			})
		}
		must((l.aged.used[level] != 0) == (l.aged.levels&(1<<level) != 0), "A3, levels")
	}
	must(int64(count) == l.size.Load(), "size")
	must(l.bound.Load() <= low, "B3")
	must(l.stats.Inserted == l.stats.Removed+l.stats.Popped+uint64(count), "the books")
}

func checkPerCPU[T any](t require.TestingT, p *PerCPU[T], exact bool) {
	for i := range p.lanes {
		checkLane(t, &p.lanes[i], exact)
	}
}
