package scenario

import (
	"fmt"
	"math"
	"slices"

	"corelane/reasm"
)

// Row is the outcome of one run. Every metric is defined here and nowhere else.
//
// A datagram *counts* if it belongs to a good group and can complete (all of its
// fragments arrived) at or after the time counting starts. Pointers are nil
// where a metric has no meaning.
type Row struct {
	Scenario string `json:"scenario"`
	Variant  string `json:"variant"`
	Design   string `json:"design"`
	Seed     uint64 `json:"seed"`
	// Fragments were given to the cache, floods included.
	Fragments int `json:"fragments"`
	// Completable is how many datagrams count.
	Completable int `json:"completable"`
	// Bound is how many of them any cache could deliver with as much memory as
	// this run used at most, or its limit if that is more; BoundNominal with the
	// limit.
	Bound        int `json:"bound"`
	BoundNominal int `json:"bound_nominal"`
	// Clairvoyant is how many of them a cache that knows the future is known to
	// deliver with the limit, so that the best possible lies between it and
	// BoundNominal.
	Clairvoyant int `json:"clairvoyant"`
	// Completed is how many of them were delivered, intact.
	Completed int `json:"completed"`
	// GoodputOfBound is the payload of those, as a fraction of the most that any
	// cache could deliver with that memory.
	GoodputOfBound *float64 `json:"goodput_of_bound"`
	// GoodputMbps is the same payload over the time that counts.
	GoodputMbps float64 `json:"goodput_mbps"`
	LimitBytes  int64   `json:"limit_bytes"`
	// PeakBytes is the most memory that was charged between two packets.
	PeakBytes int64 `json:"peak_bytes"`
	// Evicted datagrams made room; EvictedLive are those of them whose missing
	// fragments were all still to come.
	Evicted     int `json:"evicted"`
	EvictedLive int `json:"evicted_live"`
	// VictimAgeMs is the mean age of evicted datagrams since their first
	// fragment.
	VictimAgeMs *float64 `json:"victim_age_ms"`
	// Refused fragments found no room; Expired datagrams ran out of time.
	Refused int `json:"refused"`
	Expired int `json:"expired"`
	// Spliced datagrams were delivered with bytes of another one, because an
	// identification was used again too soon (RFC 4963).
	Spliced int `json:"spliced"`
	// RecoveryMs is the time from the end of the overload until every following
	// recoveryWindow brings recoveryShare of what is achievable.
	RecoveryMs *float64 `json:"recovery_ms"`
	// RemoteTouches are the fragments kept on another lane than the first one of
	// their datagram that was.
	RemoteTouches int `json:"remote_touches"`
	// WorkerSteps are the table positions that the design's worker looked at;
	// BudgetHits how often it stopped at its step bound.
	WorkerSteps int `json:"worker_steps"`
	BudgetHits  int `json:"budget_hits"`
	// MailMbps is the goodput that the mail reports for this design and load, on
	// real machines.
	MailMbps *float64 `json:"mail_mbps"`
	// Jain is the fairness index (Jain 1984) of the groups' shares of what they
	// could complete: 1 if all are equal, 1/n if one of n gets everything.
	Jain   *float64   `json:"jain"`
	Groups []GroupRow `json:"groups,omitempty"`

	// CostNs is the CPU time of a fragment in each of the variant's phases, making
	// the packet included. It is real time, so it is in no JSON.
	CostNs []float64 `json:"-"`
	// Timeline shows the run, a point each TimelineStep of virtual time, a thousand
	// at most.
	Timeline     []Point `json:"-"`
	TimelineStep int64   `json:"-"` // nanoseconds
}

// GroupRow is the outcome for one of several groups of senders.
type GroupRow struct {
	Group       string  `json:"group"`
	Completable int     `json:"completable"`
	Completed   int     `json:"completed"`
	GoodputMbps float64 `json:"goodput_mbps"`
}

// Point is one step of a timeline. Payload is of good datagrams, whether they
// count or not.
type Point struct {
	Delivered  int64 // payload bytes
	Achievable int64 // payload bytes of the datagrams that could complete
	Charged    int64 // bytes, at the last packet; the most there was if steps were joined
}

const timelinePoints = 1000

// thin joins steps of a timeline until there are not too many of them.
func thin(points []Point) (thinned []Point, step int64) {
	join := (len(points) + timelinePoints - 1) / timelinePoints
	for some := range slices.Chunk(points, max(join, 1)) {
		var p Point
		for _, q := range some {
			p.Delivered += q.Delivered
			p.Achievable += q.Achievable
			p.Charged = max(p.Charged, q.Charged)
		}
		thinned = append(thinned, p)
	}
	return thinned, int64(join) * timelineStep
}

const (
	timelineStep   = ms
	recoveryWindow = 20 // timeline steps
	recoveryShare  = 0.95
)

// meter watches one run.
type meter struct {
	trace   *trace
	variant *Variant

	groups      []GroupRow // counts
	payload     []int64    // of the completed that count, by group
	spliced     int
	evictedLive int
	victimAges  float64 // sum, nanoseconds
	victims     int
	peak        int64
	remote      int
	home        []int16 // by datagram: lane+1 of its first fragment that is held, 0 if none
	timeline    []Point
}

func newMeter(t *trace, v *Variant) *meter {
	names := v.Groups
	if names == nil {
		names = []string{""}
	}
	m := &meter{
		trace: t, variant: v, groups: make([]GroupRow, len(names)), payload: make([]int64, len(names)),
		timeline: make([]Point, t.end/timelineStep+1),
	}
	if v.Lanes > 1 {
		m.home = make([]int16, len(t.dgrams))
	}
	for i, n := range names {
		m.groups[i].Group = n
	}
	for d := range t.dgrams {
		if t.counts(d, v.Counted) {
			m.groups[t.dgrams[d].group].Completable++
		}
		if t.counts(d, 0) {
			m.timeline[t.possible[d]/timelineStep].Achievable += int64(t.dgrams[d].bytes)
		}
	}
	return m
}

// complete counts a delivered datagram.
func (m *meter) complete(now int64, got *reasm.Datagram) {
	d, ok := m.trace.intact(got)
	if !ok {
		m.spliced++
		return
	}
	g := &m.trace.dgrams[d]
	if g.group == Noise {
		return
	}
	m.timeline[now/timelineStep].Delivered += int64(g.bytes)
	if m.trace.counts(int(d), m.variant.Counted) {
		m.groups[g.group].Completed++
		m.payload[g.group] += int64(g.bytes)
	}
}

// victim is a datagram that a cache gave up.
type victim struct {
	event uint64 // that brought some fragment of it
	age   int64  // since its first fragment, nanoseconds
	live  bool   // all that it missed was still to come
}

// victim describes a datagram given up before event next, by what was held of
// it.
func (t *trace) victim(now int64, next int, held []reasm.Buffer) victim {
	v := victim{event: held[0].Ref, live: true}
	has := uint64(0)
	for _, b := range held {
		e := &t.events[b.Ref]
		v.age = max(v.age, now-e.at)
		has |= 1 << e.frag
	}
	d := t.events[v.event].dgram
	if t.possible[d] == never {
		v.live = false
		return v
	}
	for f := range uint32(t.dgrams[d].frags()) {
		if has>>f&1 == 0 && int(t.last[t.slot[d]+f]) < next {
			v.live = false // it came and is gone
		}
	}
	return v
}

// evicted counts a datagram that made room.
func (m *meter) evicted(v victim) {
	m.victims++
	m.victimAges += float64(v.age)
	if v.live {
		m.evictedLive++
	}
}

// kept notes on which lane a fragment was kept.
func (m *meter) kept(e *event) {
	switch {
	case m.home == nil:
	case m.home[e.dgram] == 0:
		m.home[e.dgram] = int16(e.lane) + 1
	case m.home[e.dgram] != int16(e.lane)+1:
		m.remote++
	}
}

// left notes that nothing is held of a datagram any more.
func (m *meter) left(held []reasm.Buffer) {
	if m.home != nil {
		m.home[m.trace.events[held[0].Ref].dgram] = 0
	}
}

// charged notes how much memory is in use after a packet.
func (m *meter) charged(bytes int64) { m.peak = max(m.peak, bytes) }

// row works out the metrics of a finished run. It is an error if the run was
// better than any cache can be: then the bound, or the meter, is wrong.
func (m *meter) row(s reasm.Stats, b *bounds) (*Row, error) {
	r := &Row{
		Fragments: len(m.trace.events), LimitBytes: m.variant.Limits.High, PeakBytes: m.peak,
		Evicted: int(s.Evicted), EvictedLive: m.evictedLive, Refused: int(s.Verdicts[reasm.Refused]),
		Expired: int(s.Expired), Spliced: m.spliced, RemoteTouches: m.remote,
		WorkerSteps: int(s.Steps), BudgetHits: int(s.BudgetHit),
	}
	r.Timeline, r.TimelineStep = thin(m.timeline)
	payload, span := int64(0), float64(m.trace.end-m.variant.Counted)/1e9
	for i := range m.groups {
		g := &m.groups[i]
		r.Completable += g.Completable
		r.Completed += g.Completed
		payload += m.payload[i]
		g.GoodputMbps = round(float64(m.payload[i])*8/span/1e6, 3)
	}
	if len(m.groups) > 1 {
		r.Groups = m.groups
		r.Jain = m.jain()
	}
	r.GoodputMbps = round(float64(payload)*8/span/1e6, 3)
	var most float64
	r.Bound, most = b.at(max(r.LimitBytes, r.PeakBytes))
	r.BoundNominal, _ = b.at(r.LimitBytes)
	r.Clairvoyant = b.clairvoyant
	if float64(payload) > most || r.Completed > r.Bound || r.Clairvoyant > r.BoundNominal {
		return nil, fmt.Errorf("scenario: %d datagrams with %d bytes completed, bound %d and %.0f; clairvoyant %d, bound %d",
			r.Completed, payload, r.Bound, most, r.Clairvoyant, r.BoundNominal)
	}
	if most > 0 {
		r.GoodputOfBound = ref(round(float64(payload)/most, 6))
	}
	if m.victims > 0 {
		r.VictimAgeMs = ref(round(m.victimAges/float64(m.victims)/1e6, 3))
	}
	if m.variant.Stop > 0 {
		r.RecoveryMs = m.recovery()
	}
	return r, nil
}

// recovery finds the end of the last window that fell short.
func (m *meter) recovery() *float64 {
	stop := int(m.variant.Stop / timelineStep)
	last := len(m.timeline) - recoveryWindow
	good := last + 1 // the first window from which on none falls short
	for ; good > stop; good-- {
		var got, could int64
		for _, p := range m.timeline[good-1 : good-1+recoveryWindow] {
			got += p.Delivered
			could += p.Achievable
		}
		if float64(got) < recoveryShare*float64(could) {
			break
		}
	}
	if good > last {
		return nil
	}
	return ref(float64(good - stop))
}

func (m *meter) jain() *float64 {
	sum, squares, n := 0.0, 0.0, 0.0
	for _, g := range m.groups {
		if g.Completable > 0 {
			share := float64(g.Completed) / float64(g.Completable)
			sum += share
			squares += share * share
			n++
		}
	}
	if squares == 0 {
		return nil
	}
	return ref(round(sum*sum/(n*squares), 4))
}

// bounds are the ceilings of a variant: in datagrams, and in payload.
type bounds struct {
	count *ceiling
	bytes *ceiling // nil if all datagrams are of one size
	size  float64  // that size

	clairvoyant int // datagrams, within the limit
}

func newBounds(t *trace, v *Variant) *bounds {
	b := newBounder(t, KernelCharge, v.Counted)
	ones, sizes := make([]float64, len(b.dgrams)), make([]float64, len(b.dgrams))
	for i, d := range b.dgrams {
		ones[i], sizes[i] = 1, float64(t.dgrams[d].bytes)
	}
	bs := &bounds{count: b.ceiling(ones, v.Limits.High)}
	bs.clairvoyant = int(bs.count.clairvoyant(t, KernelCharge, v.Counted, v.Limits.High))
	if len(sizes) == 0 {
		return bs
	}
	bs.size = sizes[0]
	if slices.ContainsFunc(sizes, func(s float64) bool { return s != sizes[0] }) {
		bs.bytes = b.ceiling(sizes, v.Limits.High)
	}
	return bs
}

// at returns the bounds for a cache that never holds more than that: datagrams,
// of which there are whole ones only, and payload bytes.
func (b *bounds) at(memory int64) (datagrams int, payload float64) {
	n := math.Floor(b.count.at(memory))
	if b.bytes == nil {
		return int(n), n * b.size
	}
	return int(n), b.bytes.at(memory)
}

// round keeps n decimals, so that printed figures are short.
func round(x float64, n int) float64 {
	p := math.Pow10(n)
	return math.Round(x*p) / p
}

func ref(x float64) *float64 { return &x }
