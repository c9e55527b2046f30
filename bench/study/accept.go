package study

import (
	"fmt"
	"slices"
)

// Verdict is one promise about worth, held against what was measured.
type Verdict struct {
	Load    string  `json:"load"`
	What    string  `json:"what"`
	Got     float64 `json:"got"`
	AtLeast float64 `json:"at_least"`
	Met     bool    `json:"met"`
}

// CloseEnough is the share of the best design's result that worth must reach in
// every load: within 5 %.
const CloseEnough = 0.95

// recoverWithin is how long worth may take to recover, in milliseconds.
const recoverWithin = 20

// Check holds what a design reached against the promises, and, where other
// designs were run too, against the best of them.
func Check(cells []*Cell, design string) []Verdict {
	var vs []Verdict
	for _, c := range cells {
		if c.Design != design {
			continue
		}
		l := c.load
		if l.ofBound > 0 {
			vs = append(vs, Verdict{c.Load, "of the bound", c.OfBound, l.ofBound, c.OfBound >= l.ofBound})
		}
		for g, least := range l.groups {
			if least > 0 {
				vs = append(vs, Verdict{c.Load, fmt.Sprint("of what group ", g, " could complete"), c.Groups[g], least,
					c.Groups[g] >= least})
			}
		}
		if l.stop > 0 {
			ok := c.RecoveryMs >= 0 && c.RecoveryMs <= recoverWithin
			vs = append(vs, Verdict{c.Load, "ms to recover, at most", c.RecoveryMs, recoverWithin, ok})
		}
		if best := bestOther(cells, c); best != nil {
			least := best.OfBound * CloseEnough
			vs = append(vs, Verdict{c.Load, "of the bound, beside " + best.Design, c.OfBound, least, c.OfBound >= least})
		}
		// The most that may be above the limit is a fragment, with its queue, per lane.
		spare := float64(l.link.charge.Queue + l.link.charge.Fragment)
		vs = append(vs, Verdict{c.Load, "bytes above the limit, at most", float64(max(c.over, 0)), spare, float64(c.over) <= spare})
	}
	return vs
}

// bestOther returns the best cell of another design on the same load, nil if
// there is none.
func bestOther(cells []*Cell, c *Cell) *Cell {
	var best *Cell
	for _, x := range cells {
		if x.load == c.load && x.Design != c.Design && (best == nil || x.OfBound > best.OfBound) {
			best = x
		}
	}
	return best
}

// Missed returns the verdicts that are not met.
func Missed(vs []Verdict) []Verdict {
	return slices.DeleteFunc(slices.Clone(vs), func(v Verdict) bool { return v.Met })
}
