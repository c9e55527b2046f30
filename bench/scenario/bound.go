package scenario

import (
	"cmp"
	"math"
	"slices"
)

// A bound that holds for any cache, even one that knows the future.
//
// Let x[d], 0 or 1, say whether datagram d completes. Each of its fragments
// arrives once, so each must be held from its arrival to the completion; only
// the completing one need not be. Cut time into windows: a[d][w] is the memory
// times time that this takes in window w. Memory never exceeds B, so in every
// window of length L
//
//	sum over d of x[d]*a[d][w] <= B*L.
//
// The largest sum of v[d]*x[d] under these constraints is a bound on the value
// v that any cache can deliver, since what else a cache holds only costs more.
// By Lagrange duality, for any prices p[w] >= 0 it is at most
//
//	sum over w of p[w]*B*L + sum over d of max(0, v[d] - sum over w of p[w]*a[d][w]),
//
// so no linear program has to be solved exactly: any prices give a valid bound,
// better prices a tighter one.
//
// With duplicates a cache may refuse the first copy and keep a later one, and
// may complete later than possible. Then d has several ways to complete, one
// for each packet of it that arrives once all fragments have; each is charged
// from the latest copies before it, which is the least that way can cost, and
// the second sum takes the cheapest way.

// Charge is what a fragment cache is charged for what it holds, in bytes.
type Charge struct {
	Queue, Fragment int64
}

// KernelCharge is about what Linux accounts: an skb with its data for a 1500-byte
// packet, and a queue (research on truesize: 2304 B and 256 B).
var KernelCharge = Charge{Queue: 256, Fragment: mtuPayload + 824}

// bounder knows the areas of all datagrams of a trace that count.
type bounder struct {
	width   int64 // of a window, nanoseconds
	windows int
	dgrams  []int // that count
	// ways[wayEnd[i-1]:wayEnd[i]] are the ways dgrams[i] can complete.
	wayEnd []int
	ways   []way
	areas  []float64 // bytes times nanoseconds, way after way, window after window
}

// way is one way a datagram can complete.
type way struct {
	window   int // the first that it takes memory in
	from, to int // its part of areas
}

// newBounder works out the areas of the datagrams that count from a time on.
func newBounder(t *trace, charge Charge, from int64) *bounder {
	b := &bounder{width: max(t.end/4000, t.meanLife(from)/64, 50_000)}
	b.windows = int(t.end/b.width) + 1
	arrivals, ends := t.byDatagram(from)
	for d, start := 0, 0; d < len(t.dgrams); d++ {
		if t.counts(d, from) {
			b.dgrams = append(b.dgrams, d)
			b.addWays(t, arrivals[start:ends[d]], t.dgrams[d].frags(), charge)
			b.wayEnd = append(b.wayEnd, len(b.ways))
		}
		start = ends[d]
	}
	return b
}

// meanLife is the mean time from the first fragment of a datagram that counts
// until it can complete.
func (t *trace) meanLife(from int64) int64 {
	first := make([]int64, len(t.dgrams))
	for i := len(t.events) - 1; i >= 0; i-- {
		first[t.events[i].dgram] = t.events[i].at
	}
	sum, n := int64(0), int64(0)
	for d := range first {
		if t.counts(d, from) {
			sum += t.possible[d] - first[d]
			n++
		}
	}
	return sum / max(n, 1)
}

// byDatagram returns the events of datagrams that count, sorted by datagram, and
// where each datagram's end.
func (t *trace) byDatagram(from int64) (arrivals []int32, ends []int) {
	ends = make([]int, len(t.dgrams))
	for i := range t.events {
		if d := int(t.events[i].dgram); t.counts(d, from) {
			ends[d]++
		}
	}
	next := make([]int, len(ends)) // place of the next event
	sum := 0
	for d, n := range ends {
		next[d] = sum
		sum += n
		ends[d] = sum
	}
	arrivals = make([]int32, sum)
	for i := range t.events {
		if d := int(t.events[i].dgram); t.counts(d, from) {
			arrivals[next[d]] = int32(i)
			next[d]++
		}
	}
	return arrivals, ends
}

// addWays adds the ways one datagram can complete.
func (b *bounder) addWays(t *trace, arrivals []int32, frags int, charge Charge) {
	t.eachWay(arrivals, frags, func(held []int64, done int64) { b.addWay(held, done, charge) })
}

// eachWay tells the ways one datagram can complete: when the fragments arrive
// that are held, in order of time, and when the last one does. held is valid until
// way returns.
func (t *trace) eachWay(arrivals []int32, frags int, way func(held []int64, done int64)) {
	latest := make([]int64, frags)
	for i := range latest {
		latest[i] = never
	}
	missing := frags
	var held []int64
	for _, i := range arrivals {
		e := &t.events[i]
		if latest[e.frag] == never {
			missing--
		}
		latest[e.frag] = e.at
		if missing > 0 {
			continue
		}
		held = held[:0]
		for f, at := range latest {
			if f != int(e.frag) {
				held = append(held, at)
			}
		}
		slices.Sort(held)
		way(held, e.at)
	}
}

// addWay adds the areas of holding fragments from the given times to done.
func (b *bounder) addWay(held []int64, done int64, charge Charge) {
	first, last := int(held[0]/b.width), int(done/b.width)
	from := len(b.areas)
	b.areas = append(b.areas, make([]float64, last-first+1)...)
	area := b.areas[from:]
	mem, i := int64(0), 0 // held by the fragments before i
	for w := range area {
		start := int64(first+w) * b.width
		end := min(start+b.width, done)
		a := float64(mem) * float64(end-start)
		for ; i < len(held) && held[i] < start+b.width; i++ {
			m := charge.Fragment
			if i == 0 {
				m += charge.Queue
			}
			mem += m
			a += float64(m) * float64(end-held[i])
		}
		area[w] = a
	}
	b.ways = append(b.ways, way{first, from, len(b.areas)})
}

// ceiling is the most value that any cache can deliver, as a function of its
// memory.
type ceiling struct {
	*bounder
	value   []float64 // of dgrams
	total   float64
	nominal int64     // the memory that prices are best for
	prices  []float64 // of windows, per byte and nanosecond
}

// How many rounds of price improvement a bound gets: a hundred and fifty bring
// it within some percent of what a clairvoyant heuristic reaches.
const priceRounds = 150

// ceiling finds good prices for a memory of so many bytes.
func (b *bounder) ceiling(value []float64, memory int64) *ceiling {
	c := &ceiling{bounder: b, value: value, nominal: memory, prices: make([]float64, b.windows)}
	for _, v := range value {
		c.total += v
	}
	c.prices = c.improve(c.firstPrices(), memory)
	return c
}

// at returns the bound for a cache that never holds more than that.
func (c *ceiling) at(memory int64) float64 {
	use := make([]float64, c.windows)
	u := c.dual(c.prices, memory, use)
	if memory > c.nominal+c.nominal/50 {
		// Other prices are better for so much more; but more memory must not seem
		// to deliver less because its prices were found with better luck.
		u = min(u, max(c.dual(c.improve(c.prices, memory), memory, use), c.dual(c.prices, c.nominal, use)))
	}
	// What rounding may have taken off is put back: it must stay a bound.
	return min(u*(1+1e-9)+1e-6, c.total)
}

// dual evaluates the bound at given prices, and adds up what the datagrams that
// are worth their price use of each window.
func (c *ceiling) dual(prices []float64, memory int64, use []float64) float64 {
	clear(use)
	u, per := 0.0, float64(memory)*float64(c.width)
	for _, p := range prices {
		u += p * per
	}
	from := 0
	for i, end := range c.wayEnd {
		best, cost := c.cheapest(c.ways[from:end], prices)
		from = end
		if c.value[i] > cost {
			u += c.value[i] - cost
			for w, a := range c.areas[best.from:best.to] {
				use[best.window+w] += a
			}
		}
	}
	return u
}

// cheapest returns the way that costs least at given prices.
func (b *bounder) cheapest(ways []way, prices []float64) (best way, cost float64) {
	cost = math.Inf(1)
	for _, y := range ways {
		sum := 0.0
		for w, a := range b.areas[y.from:y.to] {
			sum += prices[y.window+w] * a
		}
		if sum < cost {
			best, cost = y, sum
		}
	}
	return best, cost
}

// firstPrices are the same in every window: the value per area of the last
// datagram that fits if all memory and time were one knapsack.
func (c *ceiling) firstPrices() []float64 {
	type load struct{ value, area float64 }
	loads := make([]load, len(c.dgrams))
	use := make([]float64, c.windows)
	from := 0
	for i, end := range c.wayEnd {
		y := c.ways[from]
		from = end
		sum := 0.0
		for w, a := range c.areas[y.from:y.to] {
			sum += a
			use[y.window+w] += a
		}
		loads[i] = load{c.value[i], sum}
	}
	slices.SortFunc(loads, func(a, b load) int { return cmp.Compare(b.value*(a.area+1), a.value*(b.area+1)) })
	room := 0.0
	for _, u := range use {
		if u > 0 {
			room += float64(c.nominal) * float64(c.width)
		}
	}
	price := 0.0
	for _, l := range loads {
		if room -= l.area; room < 0 {
			price = l.value / (l.area + 1)
			break
		}
	}
	prices := make([]float64, c.windows)
	for w, u := range use {
		if u > 0 {
			prices[w] = price
		}
	}
	return prices
}

// improve returns better prices for a memory of so many bytes: a window that is
// wanted by more than fits gets dearer, one that is not filled cheaper.
func (c *ceiling) improve(start []float64, memory int64) []float64 {
	prices, best := slices.Clone(start), slices.Clone(start)
	use := make([]float64, c.windows)
	least := math.Inf(1)
	per := float64(memory) * float64(c.width)
	for round := range priceRounds {
		u := c.dual(prices, memory, use)
		if u < least {
			least = u
			copy(best, prices)
		}
		free := true // nothing costs anything, and everything fits
		step := 0.25 / (1 + float64(round)/12)
		for w, p := range prices {
			over := use[w]/per - 1
			if p > 0 || over > 0 {
				free = false
			}
			if p == 0 && over > 0 {
				prices[w] = c.total / float64(max(len(c.dgrams), 1)) / per / 1000
			}
			prices[w] *= math.Exp(step * min(over, 2))
		}
		if free {
			break
		}
	}
	// Nothing is cheaper than nothing, where memory is no obstacle.
	if nothing := make([]float64, c.windows); c.dual(nothing, memory, use) <= least {
		return nothing
	}
	return best
}
