package scenario

import (
	"fmt"
	"slices"
	"strings"

	"corelane/reasm"
)

// Scenario is one question and how it is asked. The five texts are what a reader
// of a result needs to know.
type Scenario struct {
	Name    string
	From    string // the mail it comes from
	Ask     string
	Load    string
	Measure string
	Expect  string

	// Headline is the metric that answers the question.
	Headline Headline
	Variants func(Scale) []Variant
}

// Headline names the one metric to show where there is room for one.
type Headline uint8

const (
	// OfBound is Row.GoodputOfBound.
	OfBound Headline = iota
	// Recovery is Row.RecoveryMs.
	Recovery
	// Shares is what each group completed of what it could.
	Shares
	// Cost is Row.CostNs, phase after phase, and Row.GoodputOfBound.
	Cost
)

// Of writes the headline of a row in a few characters.
func (h Headline) Of(r *Row) string {
	switch {
	case h == Recovery && r.RecoveryMs == nil:
		return "never"
	case h == Recovery:
		return fmt.Sprintf("%.0f ms", *r.RecoveryMs)
	case h == Shares:
		var shares []string
		for _, g := range r.Groups {
			shares = append(shares, percent(float64(g.Completed), float64(g.Completable), 0))
		}
		return strings.Join(shares, "/") + " %"
	case h == Cost && r.CostNs != nil:
		var costs []string
		for _, ns := range r.CostNs {
			costs = append(costs, fmt.Sprintf("%.0f", ns))
		}
		return strings.Join(costs, "/") + " ns, " + OfBound.Of(r)
	case r.GoodputOfBound == nil:
		return "-"
	}
	return percent(*r.GoodputOfBound, 1, 1) + " %"
}

func percent(part, all float64, decimals int) string {
	if all == 0 {
		return "-"
	}
	return fmt.Sprintf("%.*f", decimals, 100*part/all)
}

// Variant is one case of a scenario: the same packets for every design.
type Variant struct {
	Name    string // key=value,key=value
	Traffic func(*Mix)
	Limits  reasm.Limits
	Lanes   int // 0 is 1
	// Config changes DefaultConfig; nil leaves it.
	Config func(*reasm.Config)
	// Groups names the good groups of the traffic, by number; nil is one.
	Groups []string
	// Datagrams count if they can complete at Counted or later, so that a run is
	// judged in its steady state.
	Counted int64
	// Mail is the goodput in Mbit/s that the mail reports, by design.
	Mail map[string]float64
	// Stop is when the load stops, if recovery from it is asked; 0 is no.
	Stop int64
	// Phases are the parts of the run whose cost in real time is measured.
	Phases []Phase
}

// Scale is how much virtual time a run takes.
type Scale uint8

const (
	// Quick is for a tour: saturated links carry 1 Gbit/s, and less of it.
	Quick Scale = iota
	// Normal is the study's: 10 Gbit/s for 0.8 s.
	Normal
	// Full is three times as long, with the variants that take long.
	Full

	// brief is for tests: a quarter of Quick.
	brief
)

// of chooses a virtual time by scale.
func (s Scale) of(quick, normal, full int64) int64 {
	return [...]int64{Quick: quick, Normal: normal, Full: full, brief: quick / 4}[s]
}

// slow reports whether saturated links carry 1 Gbit/s only.
func (s Scale) slow() bool { return s == Quick || s == brief }

// rate is what a saturated link carries, in bit/s.
func (s Scale) rate() float64 {
	if s.slow() {
		return 1e9
	}
	return 10e9
}

// run is the length of a saturated run, and where counting starts.
func (s Scale) run() (end, counted int64) {
	end = s.of(4*second, 800*ms, 2400*ms)
	return end, end / 8
}

const (
	ms     = int64(1e6)
	second = int64(1e9)
	mib    = int64(1 << 20)
)

// scenarios lists all of them, in the order of DESIGN.
var scenarios = []*Scenario{
	&overload, &recovery, &streams, &twentyGig, &slowLink, &twoPeers, &lossyNIC, &crossCPU, &oversubscribed,
	&collision,
}

// Scenarios returns the scenarios in order.
func Scenarios() []*Scenario { return append([]*Scenario(nil), scenarios...) }

// Find returns the scenarios with the given names, all if there are none.
func Find(names []string) ([]*Scenario, error) {
	return pick("scenario", names, scenarios, func(s *Scenario) string { return s.Name })
}

// FindDesigns returns the designs with the given names, all if there are none.
// Names that are in no list, as "worth without doom", are taken if reasm knows them.
func FindDesigns(names []string) ([]string, error) {
	var all []string
	for _, d := range reasm.Designs() {
		all = append(all, d.Name)
	}
	for _, name := range names {
		if slices.Contains(all, name) {
			continue
		}
		if c, err := reasm.New(name, reasm.DefaultConfig()); err == nil {
			all = append(all, name)
			if err := c.Close(); err != nil {
				return nil, err
			}
		}
	}
	return pick("design", names, all, func(s string) string { return s })
}

// pick returns the elements of all with the given names, in the order of all.
func pick[T any](kind string, names []string, all []T, name func(T) string) ([]T, error) {
	if len(names) == 0 {
		return append([]T(nil), all...), nil
	}
	want := make(map[string]bool)
	for _, n := range names {
		want[n] = true
	}
	var got []T
	var known []string
	for _, x := range all {
		known = append(known, name(x))
		if want[name(x)] {
			got = append(got, x)
			delete(want, name(x))
		}
	}
	for _, n := range names {
		if want[n] {
			return nil, fmt.Errorf("no %s is called %q (there are: %s)", kind, n, strings.Join(known, ", "))
		}
	}
	return got, nil
}

// limits is a high mark with the low one at three quarters, as 4 and 3 MiB.
func limits(high int64) reasm.Limits { return reasm.Limits{High: high, Low: high / 4 * 3} }

// param writes one key=value of a variant's name.
func param(key string, value any) string { return fmt.Sprintf("%s=%v", key, value) }

func params(kv ...string) string { return strings.Join(kv, ",") }
