package memacct

import (
	"errors"
	"fmt"
	"testing"

	"corelane/internal/model"

	"github.com/stretchr/testify/require"
)

// protocol is one account of cap 4 with two lanes, and three calls on it: two
// charges and a release. Every field is a shared word or what one call has in its
// hands; every step below touches one shared word.
type protocol struct {
	used   int
	cells  [2]int
	strain int // state, and 4 for each episode
	out    int // what callers hold: grows when a charge is sure to succeed, shrinks when a release begins

	calls [3]call
	blind bool // without the second look after a put
}

type call struct {
	pc    string
	lane  int
	n     int
	seen  int // the strain word at the last look
	swept int // the word of the strain whose sweep we know to be complete, -1 = none
	hand  int // taken from one word, on its way to another
}

const modelCap = 4

func (p protocol) next() (steps []model.Step[protocol]) {
	for i := range p.calls {
		if to, label := p.step(i); label != "" {
			steps = append(steps, model.Step[protocol]{Label: fmt.Sprintf("%d %s", i, label), To: to})
		}
	}
	return steps
}

// step moves call i by one atomic operation.
func (p protocol) step(i int) (protocol, string) {
	c := &p.calls[i]
	to := func(pc, label string) (protocol, string) { c.pc = pc; return p, label }
	switch c.pc {
	// A charge: from the cell, else with one byte of credit extra, else exactly.
	case "charge":
		c.seen = p.strain
		if state(uint32(c.seen)) == calm {
			return to("spend", "sees calm")
		}
		return to("exact", "sees strain")
	case "spend":
		if p.cells[c.lane] >= c.n {
			p.cells[c.lane] -= c.n
			p.out += c.n
			return to("done", "spends")
		}
		return to("refill", "finds too little")
	case "refill":
		if p.used+c.n+1 <= modelCap {
			p.used += c.n + 1
			p.out += c.n
			c.hand = 1
			return to("put", "counts credit")
		}
		return to("exact", "has no room for credit")
	case "exact":
		if p.used+c.n <= modelCap {
			p.used += c.n
			p.out += c.n
			return to("done", "counts exactly")
		}
		return to("full", "is refused")
	case "full":
		c.seen = p.strain
		switch state(uint32(c.seen)) {
		case calm:
			return to("tighten", "sees calm")
		case straining:
			return to("sweep0", "helps")
		}
		if c.seen == c.swept {
			return to("refused", "gives up")
		}
		c.swept = c.seen
		return to("charge", "asks again")
	case "tighten":
		if state(uint32(p.strain)) == calm { // under the tree's mutex
			p.strain += 4 + straining
		}
		c.seen = p.strain
		if state(uint32(c.seen)) == strained {
			c.swept = c.seen
			return to("charge", "finds it strained")
		}
		return to("sweep0", "strains")
	case "sweep0", "sweep1":
		cell := int(c.pc[5] - '0')
		c.hand, p.cells[cell] = p.cells[cell], 0
		return to(fmt.Sprintf("back%d", cell), "sweeps")
	case "back0", "back1":
		p.used, c.hand = p.used-c.hand, 0
		if c.pc == "back0" {
			return to("sweep1", "gives back")
		}
		return to("swept", "gives back")
	case "swept":
		if p.strain == c.seen {
			p.strain += strained - straining
		}
		c.swept = p.strain
		if state(uint32(p.strain)) != strained {
			c.swept = -1
		}
		return to("charge", "ends the sweep")

	// A release: into the cell if calm, else off the word.
	case "release":
		c.seen, c.hand = p.strain, c.n
		p.out -= c.n
		if state(uint32(c.seen)) == calm {
			return to("put", "sees calm")
		}
		return to("off", "sees strain")
	case "off":
		p.used, c.hand = p.used-c.hand, 0
		return to("done", "counts exactly")

	// What both do with credit in hand.
	case "put":
		p.cells[c.lane], c.hand = p.cells[c.lane]+c.hand, 0
		if p.blind {
			return to("done", "puts")
		}
		return to("look", "puts")
	case "look":
		c.seen = p.strain
		if state(uint32(c.seen)) == calm {
			return to("done", "sees calm again")
		}
		return to("take", "sees strain")
	case "take":
		c.hand, p.cells[c.lane] = p.cells[c.lane], 0
		return to("off", "takes credit out")
	}
	return p, ""
}

var (
	errOvershoot = errors.New("M1: more outstanding than used, or more used than the cap")
	errDrift     = errors.New("M4: use is not outstanding plus credit")
	errStranded  = errors.New("M7: credit lies in a lane of a strained account, at rest")
	errSpurious  = errors.New("M7: refused although there was room at rest from beginning to end")
)

func (p protocol) check(end bool) error {
	sum := p.out + p.cells[0] + p.cells[1]
	for _, c := range p.calls {
		sum += c.hand
	}
	switch {
	case p.out > p.used || p.used > modelCap:
		return errOvershoot
	case p.used != sum:
		return errDrift
	case end && state(uint32(p.strain)) == strained && p.cells != [2]int{}:
		return errStranded
	}
	return nil
}

// start is the account with out bytes outstanding, credit in the cells, and calls.
func start(out int, cells [2]int, calls ...call) protocol {
	p := protocol{used: out + cells[0] + cells[1], out: out, cells: cells}
	for i := range p.calls {
		p.calls[i] = call{pc: "done", swept: -1}
	}
	for i, c := range calls {
		c.swept = -1
		p.calls[i] = c
	}
	return p
}

// Every interleaving of the calls keeps M1, M4 and M7. Without the second look
// after a put, some leave credit behind the sweep: so the look is needed, and the
// check can fail.
func TestModelOfStockKeepsItsGuarantees(t *testing.T) {
	for name, s := range map[string]protocol{
		"release/charge/charge": start(3, [2]int{0, 1},
			call{pc: "release", lane: 1, n: 2}, call{pc: "charge", lane: 0, n: 2}, call{pc: "charge", lane: 1, n: 3}),
		"charge/charge/charge": start(0, [2]int{1, 1},
			call{pc: "charge", lane: 0, n: 2}, call{pc: "charge", lane: 1, n: 2}, call{pc: "charge", lane: 0, n: 1}),
		"release/release/charge": start(4, [2]int{0, 0},
			call{pc: "release", lane: 0, n: 2}, call{pc: "release", lane: 1, n: 2}, call{pc: "charge", lane: 0, n: 4}),
	} {
		t.Run("calls="+name, func(t *testing.T) {
			res, err := model.Explore(s, protocol.next, protocol.check, 1_000_000)
			require.NoError(t, err)
			t.Logf("%d states, %d ends", res.States, res.Ends)
		})
	}
	blind := start(4, [2]int{0, 0}, call{pc: "release", lane: 1, n: 2}, call{pc: "charge", lane: 0, n: 2})
	blind.blind = true
	_, err := model.Explore(blind, protocol.next, protocol.check, 1_000_000)
	require.ErrorIs(t, err, errStranded)
}

// A charge that runs alone is refused only when it does not fit (M7).
func TestModelOfStockRefusesAloneOnlyWhenFull(t *testing.T) {
	for out := range modelCap + 1 {
		for a := range modelCap + 1 - out {
			for b := range modelCap + 1 - out - a {
				for n := 1; n <= modelCap; n++ {
					s := start(out, [2]int{a, b}, call{pc: "charge", n: n})
					_, err := model.Explore(s, protocol.next, func(p protocol, end bool) error {
						if end && p.calls[0].pc == "refused" && out+n <= modelCap {
							return errSpurious
						}
						return p.check(end)
					}, 10_000)
					require.NoError(t, err, "out=%d cells=%d,%d n=%d", out, a, b, n)
				}
			}
		}
	}
}
