package model

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// counter is two actors that each read n and write n+1.
type counter struct {
	n      int
	pc     [2]int
	local  [2]int
	atomic bool
}

func (c counter) next() (steps []Step[counter]) {
	for i, who := range []string{"a", "b"} {
		t := c
		switch {
		case c.pc[i] == 0 && c.atomic:
			t.n, t.pc[i] = c.n+1, 2
			steps = append(steps, Step[counter]{who + " adds", t})
		case c.pc[i] == 0:
			t.local[i], t.pc[i] = c.n, 1
			steps = append(steps, Step[counter]{who + " loads", t})
		case c.pc[i] == 1:
			t.n, t.pc[i] = c.local[i]+1, 2
			steps = append(steps, Step[counter]{who + " stores", t})
		}
	}
	return steps
}

var errLost = errors.New("lost update")

func checkSum(c counter, end bool) error {
	if end && c.n != 2 {
		return errLost
	}
	return nil
}

// The explorer must find the textbook bug, with the shortest schedule, and must
// not find it when the step is atomic: else every proof built on it is void.
func TestExploreFindsLostUpdate(t *testing.T) {
	_, err := Explore(counter{}, counter.next, checkSum, 1000)
	var v *Violation
	require.ErrorAs(t, err, &v)
	require.ErrorIs(t, err, errLost)
	require.Len(t, v.Schedule, 4)

	res, err := Explore(counter{atomic: true}, counter.next, checkSum, 1000)
	require.NoError(t, err)
	require.Equal(t, Result{States: 4, Edges: 4, Ends: 1}, res)
}

func TestExploreStopsAtLimit(t *testing.T) {
	endless := func(n int) []Step[int] { return []Step[int]{{"inc", n + 1}} }
	_, err := Explore(0, endless, func(int, bool) error { return nil }, 50)
	require.ErrorContains(t, err, "more than 50 states")
}
