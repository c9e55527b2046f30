package scenario

import (
	"cmp"
	"slices"
)

// A cache that knows the future, below the bound: what it delivers can be
// delivered, so the optimum lies between the two.
//
// It takes datagrams one after another, those first that are worth most for what
// they take of scarce memory, and keeps a datagram from its first fragment to its
// completion if that fits at every moment beside those it took before. Memory is
// looked at in slots of time, each as full as it is at its fullest, so what seems
// to fit does.

// plan is a datagram as the clairvoyant cache would hold it.
type plan struct {
	held  []int64 // arrivals of all fragments but the last, in order
	done  int64
	value float64
	price float64
}

// slots of time that a datagram of mean life is held for: rounding up to full
// slots costs the heuristic less than a percent.
const slotsPerLife = 512

// clairvoyant returns how much value of those that count a cache delivers that
// never holds more than that, at the prices of c.
func (c *ceiling) clairvoyant(t *trace, charge Charge, from, memory int64) float64 {
	width := max(t.meanLife(from)/slotsPerLife, t.end/200_000, 1000)
	m := slots{width: width, memory: memory, charge: charge, used: make([]int64, t.end/width+1)}
	plans := c.plans(t, charge, from)
	best := 0.0
	for _, rankOf := range []func(p *plan) float64{
		func(p *plan) float64 { return p.value / (p.price + 1e-9) },
		func(p *plan) float64 { return p.value / float64(p.area(charge)+1) },
		func(p *plan) float64 { return -float64(p.done) },
	} {
		order := make([]int, len(plans))
		rank := make([]float64, len(plans))
		for i := range plans {
			order[i], rank[i] = i, rankOf(&plans[i])
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rank[b], rank[a]) })
		clear(m.used)
		got := 0.0
		for _, i := range order {
			if m.take(&plans[i]) {
				got += plans[i].value
			}
		}
		if best = max(best, got); best >= c.total {
			break
		}
	}
	return best
}

// plans chooses for each datagram the way that costs least memory times time.
func (c *ceiling) plans(t *trace, charge Charge, from int64) []plan {
	paid := make([]float64, len(c.prices)+1) // for a byte, from the start to the start of a window
	for w, p := range c.prices {
		paid[w+1] = paid[w] + p*float64(c.width)
	}
	price := func(from, to int64) float64 { // for a byte from one time to another
		v, w := from/c.width, to/c.width
		return paid[w] + c.prices[w]*float64(to%c.width) - paid[v] - c.prices[v]*float64(from%c.width)
	}
	arrivals, ends := t.byDatagram(from)
	plans := make([]plan, len(c.dgrams))
	for i, d := range c.dgrams {
		start := 0
		if d > 0 {
			start = ends[d-1]
		}
		p := &plans[i]
		p.value = c.value[i]
		t.eachWay(arrivals[start:ends[d]], t.dgrams[d].frags(), func(held []int64, done int64) {
			if w := (plan{held: held, done: done}); p.held == nil || w.area(charge) < p.area(charge) {
				p.held, p.done = slices.Clone(held), done
			}
		})
		p.price = float64(charge.Queue) * price(p.held[0], p.done)
		for _, at := range p.held {
			p.price += float64(charge.Fragment) * price(at, p.done)
		}
	}
	return plans
}

// area is the memory times time that a plan takes.
func (p *plan) area(charge Charge) int64 {
	sum := charge.Queue * (p.done - p.held[0])
	for _, at := range p.held {
		sum += charge.Fragment * (p.done - at)
	}
	return sum
}

// slots is the memory in use over time.
type slots struct {
	width  int64
	memory int64
	charge Charge
	used   []int64
}

// take adds a plan if it fits.
func (m *slots) take(p *plan) bool {
	first, last := p.held[0]/m.width, p.done/m.width
	for pass := range 2 {
		mem, next := m.charge.Queue, 0
		for s := first; s <= last; s++ {
			for ; next < len(p.held) && p.held[next] < (s+1)*m.width; next++ {
				mem += m.charge.Fragment
			}
			if pass == 1 {
				m.used[s] += mem
			} else if m.used[s]+mem > m.memory {
				return false
			}
		}
	}
	return true
}
