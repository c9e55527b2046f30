package study

import (
	"fmt"
	"strings"
)

// Load is one scenario: traffic and a limit.
type Load struct {
	Name string // set, then what differs from its neighbours
	Set  Set

	link    *link
	budget  int64
	counted int64 // datagrams count if they can complete then or later
	make    func(*Traffic)
	stop    int64 // when the load stops, if recovery is asked; 0 is not

	// What worth is to reach at least, in percent; 0 promises nothing.
	ofBound float64
	groups  []float64 // of what a group could complete
}

// Set is why a load is there.
type Set uint8

const (
	// Study loads are the ones that the rules of worth were chosen by.
	Study Set = iota
	// Attack loads know the rules, or the code.
	Attack
	// Held loads were not used to choose anything.
	Held
)

// String returns the name that the command uses.
func (s Set) String() string { return [...]string{"study", "attack", "held-out"}[s] }

const (
	ms     = int64(1e6)
	second = int64(1e9)
	kib    = int64(1 << 10)
	mib    = int64(1 << 20)

	tenGig = 10e9

	// Most loads take this long, and count from here on.
	runTime = 800 * ms
	warmUp  = 100 * ms
)

// Loads returns all loads in order.
func Loads() []*Load {
	var b book
	b.overload()
	b.floods()
	b.slowSenders()
	b.attacksOnOverload()
	b.changes()
	b.slowSendersToo()
	b.peers()
	b.disorder()
	b.sizes()
	b.manyStreams()
	b.tiny()
	b.recoveries()
	b.codeAware()
	b.losses()
	b.recorded()
	b.links()
	b.budgets()
	b.rates()
	return b.loads
}

// FindLoads returns the loads whose names begin with one of the given, or whose
// set is called so; all if there are none.
func FindLoads(names []string) ([]*Load, error) {
	all := Loads()
	if len(names) == 0 {
		return all, nil
	}
	var got []*Load
	for _, l := range all {
		for _, n := range names {
			if strings.HasPrefix(l.Name, n) || l.Set.String() == n {
				got = append(got, l)
				break
			}
		}
	}
	if len(got) == 0 {
		return nil, fmt.Errorf("no load is called %s", strings.Join(names, " or "))
	}
	return got, nil
}

// book is the list of loads in the making.
type book struct {
	set   Set
	loads []*Load
}

// add appends a load with the usual limit, link and time, and returns it for
// what differs.
func (b *book) add(name string, make func(*Traffic)) *Load {
	l := &Load{Name: name, Set: b.set, link: ipv4, budget: 4 * mib, counted: warmUp, make: make}
	b.loads = append(b.loads, l)
	return l
}

func (l *Load) within(budget int64) *Load   { l.budget = budget; return l }
func (l *Load) countFrom(at int64) *Load    { l.counted = at; return l }
func (l *Load) over(k *link) *Load          { l.link = k; return l }
func (l *Load) reach(percent float64) *Load { l.ofBound = percent; return l }

// each group of what it could complete.
func (l *Load) reachBy(percent ...float64) *Load { l.groups = percent; return l }

func (l *Load) trace(seed uint64) *trace {
	t := &Traffic{seed: seed}
	l.make(t)
	return t.trace()
}
