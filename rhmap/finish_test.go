package rhmap

import (
	"errors"
	"fmt"
	"testing"

	"corelane/internal/model"
	"corelane/internal/yield"

	"github.com/stretchr/testify/require"
)

// How a version is left, searched exhaustively: four versions of one chain each,
// of which every next one is a resize or a reseed; two movers, so that one can
// finish what the other has begun, and be late with it; and a walker that begins
// and takes steps, or a reader. Every step is one atomic access of resize.go,
// walk.go or index.go.
//
// protocol_test.go is about elements, with one mover and one resize; here the
// elements are left out, and movers and resizes follow each other.

const finVersions = 4

// finRules are what can be broken.
type finRules struct {
	labels      bool              // name the steps
	reseed      [finVersions]bool // version i has another hash key than i-1
	retireFirst bool              // broken: finish says retired before it advances cur
	curFirst    bool              // broken: finish advances cur before ep.cur
	startEarly  bool              // broken: a resize may start from a version that is not cur yet
	walkEarly   bool              // broken: a walk begins in the epoch of cur, reseed or not
}

const (
	finNil     = 0 // next: none
	finRetired = finVersions
)

type finState struct {
	rules finRules // constant

	next  [finVersions]uint8 // finNil, the next version, finRetired
	gone  [finVersions]bool
	cur   uint8
	epcur [finVersions]uint8 // by the first version of the epoch

	m [2]finMover

	walks    bool
	pc, v, e uint8
	steps    uint8             // left
	was      [finVersions]bool // ghost: gone when the reader loaded cur
	leaving  bool              // ghost: a reseed of the epoch had begun when the walk's reading of it began
	bad      uint8
}

type finMover struct{ pc, v, nv uint8 }

const (
	finCircle = iota + 1
	finStale
	finLate
)

var finErrors = [...]error{
	nil,
	errors.New("T3: a walker or reader went on to a version that is no later"),
	errors.New("a reader was sent to a version whose chain was retired before it came"),
	errors.New("a walk began in an epoch that a reseed was leaving"),
}

// epoch is the first version of the epoch of v.
func (s *finState) epoch(v uint8) uint8 {
	for !s.rules.reseed[v] && v > 0 {
		v--
	}
	return v
}

type finStep = model.Step[finState]

// name is the label of a step, if anybody will read it.
func (s *finState) name(label string, args ...uint8) string {
	if !s.rules.labels {
		return ""
	}
	var all []any
	for _, a := range args {
		all = append(all, a)
	}
	return fmt.Sprintf(label, all...)
}

func (s finState) successors() (steps []finStep) {
	if s.bad != 0 {
		return nil
	}
	for i := range s.m {
		s.mover(i, &steps)
	}
	if s.walks {
		s.walker(&steps)
	} else {
		s.reader(&steps)
	}
	return steps
}

// mover: 0 load cur; 1 load next; 2 start; 3 mark the chain; 4, 5, 6 finish.
func (s finState) mover(i int, steps *[]finStep) {
	t := s
	m := &t.m[i]
	label := ""
	switch m.pc {
	case 0:
		if s.cur == finVersions-1 {
			return
		}
		*m = finMover{pc: 1, v: s.cur}
		label = s.name("loads cur %d", m.v)
	case 1:
		switch m.nv = s.next[m.v]; {
		case m.nv == finRetired:
			m.pc = 0
		case m.nv == finNil:
			m.pc = 2
		default:
			m.pc = 3
			if s.rules.startEarly && m.nv < finVersions-1 && s.next[m.nv] == finNil {
				u := t
				u.next[m.nv] = m.nv + 1
				u.m[i] = finMover{pc: 3, v: m.nv, nv: m.nv + 1}
				*steps = append(*steps, finStep{Label: s.name("mover %d starts from %d early", uint8(i), m.nv), To: u})
			}
		}
		label = s.name("loads next of %d", m.v)
	case 2: // idle: next was nil, and cur is still v
		m.pc = 0
		if s.next[m.v] == finNil && s.cur == m.v {
			t.next[m.v] = m.v + 1
			if n := m.v + 1; s.rules.reseed[n] {
				t.epcur[n] = n
			}
		}
		label = s.name("starts from %d", m.v)
	case 3:
		t.gone[m.v] = true
		m.pc = 4
		label = s.name("marks the chain of %d", m.v)
	case 4, 5, 6:
		what := m.pc - 4
		switch {
		case s.rules.retireFirst:
			what = (what + 2) % 3
		case s.rules.curFirst && what < 2:
			what = 1 - what
		}
		switch what {
		case 0:
			if e := s.epoch(m.v); e == s.epoch(m.nv) && s.epcur[e] == m.v {
				t.epcur[e] = m.nv
			}
			label = s.name("ep.cur %d to %d", m.v, m.nv)
		case 1:
			if s.cur == m.v {
				t.cur = m.nv
			}
			label = s.name("cur %d to %d", m.v, m.nv)
		case 2:
			t.next[m.v] = finRetired
			label = s.name("retires %d", m.v)
		}
		if m.pc++; m.pc == 7 {
			*m = finMover{}
		}
	}
	*steps = append(*steps, finStep{Label: s.name("mover %d "+label, uint8(i)), To: t})
}

// walker: 0 load cur; 1 load its next, begin; 2 load ep.cur; 3 load the chain; 4 load
// next; 5 load ep.cur again; 6 done. While a reseed runs a walk does not begin:
// settle finishes it, as the movers do here.
func (s finState) walker(steps *[]finStep) {
	t := s
	label := ""
	switch s.pc {
	case 0:
		t.v, t.pc = s.cur, 1
		t.e = s.epoch(t.v)
		t.leaving = false
		for v := range uint8(finVersions - 1) {
			if s.epoch(v) == t.e && s.epoch(v+1) != t.e && s.next[v] != finNil {
				t.leaving = true
			}
		}
		label = "loads cur"
	case 1:
		n := s.next[s.v]
		begin := n == finNil || n != finRetired && s.epoch(n) == s.e
		switch {
		case begin || s.rules.walkEarly:
			t.pc = 2
			if s.leaving {
				t.bad = finLate
			}
		default:
			t.pc = 0
		}
		label = "loads next, to begin"
	case 2:
		t.v, t.pc = s.epcur[s.e], 3
		label = "loads ep.cur"
	case 3:
		frozen := s.v < finVersions-1 && s.epoch(s.v+1) != s.e
		if !s.gone[s.v] || frozen {
			t.pc = 2
			if t.steps--; t.steps == 0 {
				t.pc = 6
			}
		} else {
			t.pc = 4
		}
		label = s.name("loads the chain of %d", s.v)
	case 4, 5:
		from := s.v
		n := s.next[from]
		if s.pc == 5 {
			n = s.epcur[s.e]
		}
		if n == finRetired {
			t.pc = 5
		} else {
			t.v, t.pc = n, 3
			if n <= from {
				t.bad = finCircle
			}
		}
		label = s.name("goes on to %d", n)
	default:
		return
	}
	*steps = append(*steps, finStep{Label: "walker " + label, To: t})
}

// reader: 0 load cur; 1 load the chain; 2 load next; 3 load cur again; 6 done.
func (s finState) reader(steps *[]finStep) {
	t := s
	label := ""
	switch s.pc {
	case 0:
		t.v, t.was, t.pc = s.cur, s.gone, 1
		label = "loads cur"
	case 1:
		t.pc = 6
		if s.gone[s.v] {
			t.pc = 2
		}
		label = s.name("loads the chain of %d", s.v)
	case 2, 3:
		n := s.next[s.v]
		if s.pc == 3 {
			n = s.cur
		}
		if n == finRetired {
			t.pc = 3
			break
		}
		t.v, t.pc = n, 6
		switch {
		case n <= s.v:
			t.bad = finCircle
		case s.was[n]:
			t.bad = finStale
		}
		label = s.name("reads the chain of %d", n)
	default:
		return
	}
	*steps = append(*steps, finStep{Label: "reader " + label, To: t})
}

func exploreFinish(rules finRules, walks bool) (model.Result, error) {
	start := finState{rules: rules, walks: walks, steps: 2}
	res, err := model.Explore(start, finState.successors, func(s finState, end bool) error {
		if s.bad != 0 {
			return finErrors[s.bad]
		}
		if end && s.pc != 6 {
			return errors.New("the walker or reader is stuck")
		}
		return nil
	}, 3_000_000)
	if err != nil && !rules.labels { // once more, to see how it came about
		rules.labels = true
		return exploreFinish(rules, walks)
	}
	return res, err
}

func eachFinish(f func(rules finRules, walks bool) error) error {
	for bits := range 1 << (finVersions - 1) {
		for _, walks := range []bool{false, true} {
			var r finRules
			for i := range finVersions - 1 {
				r.reseed[i+1] = bits>>i&1 == 1
			}
			if err := f(r, walks); err != nil {
				return err
			}
		}
	}
	return nil
}

func TestFinishInEveryInterleaving(t *testing.T) {
	states := 0
	require.NoError(t, eachFinish(func(r finRules, walks bool) error {
		res, err := exploreFinish(r, walks)
		states += res.States
		return err
	}))
	t.Logf("%d states", states)
}

// What the order of the stores in finish, and the conditions of start and settle,
// are for.
func TestFinishNeedsItsOrder(t *testing.T) {
	for _, c := range []struct {
		name string
		with func(r *finRules)
		err  int
	}{
		{"retired=first", func(r *finRules) { r.retireFirst = true }, finCircle},
		{"cur=before-ep.cur", func(r *finRules) { r.curFirst = true }, finCircle},
		{"start=not-idle", func(r *finRules) { r.startEarly = true }, finStale},
		{"walk=in-a-reseed", func(r *finRules) { r.walkEarly = true }, finLate},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := eachFinish(func(r finRules, walks bool) error {
				c.with(&r)
				_, err := exploreFinish(r, walks)
				if errors.Is(err, finErrors[c.err]) {
					return err
				}
				return nil
			})
			var v *model.Violation
			require.ErrorAs(t, err, &v)
			t.Log(v)
		})
	}
}

// The one who finishes sleeps before each of its stores, while everybody goes on,
// through two more resizes; then its stores are late, and must change nothing.
func TestWindowFinisherIsLate(t *testing.T) {
	if !yield.Enabled {
		t.Skip("windows are compiled out; run with -tags invariants")
	}
	for _, kind := range dicts {
		for _, window := range []string{"rhmap.finish", "rhmap.finish.cur", "rhmap.finish.retire"} {
			for _, reseed := range []bool{false, true} {
				t.Run(fmt.Sprintf("impl=%s/window=%s/reseed=%v", kind, window, reseed), func(t *testing.T) {
					d := fillDict(kind, "good", 500)
					settleAll(d.core())
					begin := func() {
						if reseed {
							d.core().forceReseed()
						} else {
							d.core().forceResize(true)
						}
					}
					w := d.walk()
					first, _, _ := w.next()
					resume := parkIn(t, window, func() {
						begin()
						settleAll(d.core())
					})
					everybody := func() {
						for k := range uint64(500) {
							_, ok := d.lookup(k)
							require.True(t, ok, "key %d", k)
						}
						_, inserted := d.insert(900, 1)
						require.True(t, inserted)
						_, removed := d.remove(900)
						require.True(t, removed)
					}
					everybody()
					seen := drain(w)
					require.Zero(t, seen[first])
					require.Len(t, seen, 499)
					if !reseed || window == "rhmap.finish.retire" {
						// Walk would finish the reseed by itself, and its writers too.
						require.Len(t, drain(d.walk()), 500)
					}
					if window == "rhmap.finish.retire" { // cur is beyond the version: the next resize may begin
						settleAll(d.core())
						require.True(t, d.core().forceResize(true))
						settleAll(d.core())
						require.True(t, d.core().forceReseed())
						settleAll(d.core())
						everybody()
					}
					w = d.walk()
					first, _, _ = w.next()
					resume()
					everybody()
					seen = drain(w)
					require.Zero(t, seen[first])
					require.Len(t, seen, 499)
					settleAll(d.core())
					require.NoError(t, d.core().check())
					require.True(t, d.core().forceResize(true), "the next resize can begin")
				})
			}
		}
	}
}
