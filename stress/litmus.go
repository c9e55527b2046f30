package stress

import (
	"fmt"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Kind says what a litmus outcome means.
type Kind int

// The kinds of outcome, after OpenJDK's jcstress.
const (
	Acceptable  Kind = iota // may happen
	Interesting             // may happen, and shows that the window exists
	Forbidden               // must never happen
)

// Outcome is one row of a litmus table.
type Outcome struct {
	Kind Kind
	Why  string
}

// Litmus is a race of a few operations, repeated until the budget is spent.
// An outcome that stands in no row is forbidden.
type Litmus struct {
	// New makes fresh shared state; each actor runs once on it, all at the
	// same time, and outcome names what they saw.
	New   func() (actors []func(), outcome func() string)
	Table map[string]Outcome
}

// RunLitmus races l and prints a histogram of the outcomes.
func RunLitmus(t *testing.T, l Litmus) {
	t.Helper()
	var (
		seen     = map[string]int{}
		deadline = time.Now().Add(Budget() / 3)
	)
	for n := 0; n == 0 || time.Now().Before(deadline); n++ {
		actors, outcome := l.New()
		race(actors)
		seen[outcome()]++
	}
	t.Log(histogram(l.Table, seen))
	for name, n := range seen {
		if row, ok := l.Table[name]; !ok {
			t.Errorf("outcome %q stands in no row: seen %d times", name, n)
		} else if row.Kind == Forbidden {
			t.Errorf("forbidden outcome %q seen %d times: %s", name, n, row.Why)
		}
	}
}

// race runs the actors at the same time: each spins on a counter until all have
// arrived, which starts them closer together than a channel does.
func race(actors []func()) {
	var (
		wg      sync.WaitGroup
		arrived atomic.Int32
	)
	for _, act := range actors {
		wg.Go(func() {
			arrived.Add(1)
			for spins := 0; arrived.Load() < int32(len(actors)) && spins < 1000; spins++ {
			}
			act()
		})
	}
	wg.Wait()
}

func histogram(table map[string]Outcome, seen map[string]int) string {
	names := make([]string, 0, len(seen))
	for name := range seen {
		names = append(names, name)
	}
	for name := range table {
		if _, ok := seen[name]; !ok {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	var b strings.Builder
	for _, name := range names {
		kind := [...]string{"acceptable", "interesting", "forbidden"}[table[name].Kind]
		fmt.Fprintf(&b, "\n%10d  %-24s %-12s %s", seen[name], name, kind, table[name].Why)
	}
	return b.String()
}
