package study

import (
	"cmp"
	"slices"

	"corelane/reasm"
)

// Outcome is what came of one run. A datagram counts if it is of a good group and
// its last missing fragment arrives when counting has begun; its value is the
// number of its fragments.
type Outcome struct {
	Completed int64 // value of the datagrams that count and were delivered, intact
	Groups    []int64
	Peak      int64 // most memory charged between two packets
	Spliced   int   // delivered with bytes of another datagram
	Stats     reasm.Stats

	from    int64
	sources map[uint32]int64
	line    []int64 // value of good datagrams by lineStep, counting or not
}

const lineStep = ms

func newOutcome(t *trace, l *Load) *Outcome {
	return &Outcome{
		Groups: make([]int64, uncounted), from: l.counted, sources: make(map[uint32]int64),
		line: make([]int64, t.end/lineStep+1),
	}
}

func (o *Outcome) complete(t *trace, now int64, dgram uint32) {
	d := &t.dgrams[dgram]
	if d.group >= uncounted {
		return
	}
	n := int64(d.frags)
	o.line[now/lineStep] += n
	if t.counts(dgram, o.from) {
		o.Completed += n
		o.Groups[d.group] += n
		o.sources[d.src] += n
	}
}

// achievable is what could be completed: all, by group, by source and by time.
type achievable struct {
	all     int64
	groups  []int64
	sources map[uint32]int64
	line    []int64
}

func (t *trace) achievable(from int64) *achievable {
	a := &achievable{
		groups: make([]int64, uncounted), sources: make(map[uint32]int64), line: make([]int64, t.end/lineStep+1),
	}
	for d := range t.dgrams {
		g := &t.dgrams[d]
		n := int64(g.frags)
		if t.counts(uint32(d), 0) {
			a.line[t.possible[d]/lineStep] += n
		}
		if t.counts(uint32(d), from) {
			a.all += n
			a.groups[g.group] += n
			a.sources[g.src] += n
		}
	}
	return a
}

// jain is the fairness index (Jain 1984) of the sources' shares of what each
// could complete: 1 if all are equal, 1/n if one of n gets everything.
func (o *Outcome) jain(a *achievable) float64 {
	srcs := make([]uint32, 0, len(a.sources))
	for s := range a.sources {
		srcs = append(srcs, s)
	}
	slices.SortFunc(srcs, cmp.Compare) // sums must not depend on the map's order
	sum, squares := 0.0, 0.0
	for _, s := range srcs {
		x := float64(o.sources[s]) / float64(a.sources[s])
		sum += x
		squares += x * x
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(srcs)) * squares)
}

// recovery is the time from stop until every following window brings 95 % of what
// is achievable in it, in milliseconds; -1 is never within the run.
func (o *Outcome) recovery(a *achievable, stop int64) float64 {
	const window, enough = 20, 0.95
	from, last := int(stop/lineStep), len(a.line)-window
	good := last + 1
	for ; good > from; good-- {
		var got, could int64
		for i := good - 1; i < good-1+window; i++ {
			got += o.line[i]
			could += a.line[i]
		}
		if float64(got) < enough*float64(could) {
			break
		}
	}
	if good > last {
		return -1
	}
	return float64(good - from)
}
