package percpu

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"corelane/internal/model"
	"corelane/internal/yield"

	"github.com/stretchr/testify/require"
)

func TestSnapshotCountsAndDrains(t *testing.T) {
	s := NewSnapshot(3)
	s.Add(0, 5)
	s.AddAt(9, 1, -2)
	s.AddAll([]int64{1, 1, 1})
	s.AddAllAt(4, []int64{10})
	require.Equal(t, []int64{16, -1, 1}, s.Read(nil))
	require.Equal(t, []int64{16, -1, 1}, s.Swap(nil))
	require.Equal(t, []int64{0, 0, 0}, s.Read(nil))
	s.Add(2, 7)
	dst := make([]int64, 0, 8)
	require.Equal(t, []int64{0, 0, 7}, s.Swap(dst))
	require.PanicsWithValue(t, "percpu: counter 3 of a snapshot of 3", func() { s.Add(3, 1) })
	require.PanicsWithValue(t, "percpu: counter 3 of a snapshot of 3", func() { s.AddAll(make([]int64, 4)) })
	require.PanicsWithValue(t, "percpu: NewSnapshot of 0 counters", func() { NewSnapshot(0) })
}

// A transfer between counters must never be seen half done, and the sum of a
// counter that is only moved around never changes. A plain sum over lanes breaks
// both (TestPlainSumInventsATotal).
func TestSnapshotNeverSeesHalfATransfer(t *testing.T) {
	s := NewSnapshot(2)
	s.Add(0, 1000)
	var (
		wg   sync.WaitGroup
		stop = make(chan struct{})
	)
	for w := range 4 {
		wg.Go(func() {
			for n := int64(1); ; n = n%7 + 1 {
				select {
				case <-stop:
					return
				default:
				}
				s.AddAllAt(w, []int64{-n, n})
				s.AddAll([]int64{n, -n})
			}
		})
	}
	for range 2000 {
		got := s.Read(nil)
		require.EqualValues(t, 1000, got[0]+got[1])
	}
	close(stop)
	wg.Wait()
	require.Equal(t, []int64{1000, 0}, s.Read(nil))
}

// Adds alternate between +100 on one lane and -100 on another, so the total is
// always 100 or 200. A sum over lanes, read in two halves, sees neither.
func TestPlainSumInventsATotal(t *testing.T) {
	if !yield.Enabled {
		t.Skip("needs -tags invariants to stop an Add between two halves of a read")
	}
	// Snapshot first: the reader stands between its halves while whole Adds pass.
	s := NewSnapshot(1)
	s.AddAt(0, 0, 100)
	steps := 0
	restore := yield.On("percpu.snapshot.turn", func() {
		steps++
		s.AddAt(0, 0, 100)
		s.AddAt(1, 0, -100)
	})
	got := s.Read(nil)[0]
	restore()
	require.Equal(t, 1, steps)
	require.Contains(t, []int64{100, 200}, got)

	// The same Adds between two halves of a plain sum.
	g := NewGroup(1)
	g.AddAt(0, 0, 100)
	g.AddAt(1, 0, 0)
	sum := int64(0)
	for cell := range g.Cells(0) { // lane 0 first
		sum += cell.Load()
		if cell == g.Cell(0, 0) {
			g.AddAt(0, 0, 100)
			g.AddAt(1, 0, -100)
		}
	}
	require.Zero(t, sum)
	require.NotContains(t, []int64{100, 200}, sum)
}

// A writer parked between its two looks, for a whole generation and more, is
// counted exactly once, and waits for no reader but one between two steps.
func TestSnapshotCountsParkedWriterOnce(t *testing.T) {
	if !yield.Enabled {
		t.Skip("needs -tags invariants to park a writer")
	}
	for _, window := range []string{"percpu.snapshot.add", "percpu.snapshot.added"} {
		for generations := range 5 {
			t.Run(fmt.Sprintf("window=%s/generations=%d", window, generations), func(t *testing.T) {
				s := NewSnapshot(1)
				reached, gate := make(chan struct{}), make(chan struct{})
				var once sync.Once
				restore := yield.On(window, func() { once.Do(func() { close(reached); <-gate }) })
				defer restore()
				var wg sync.WaitGroup
				wg.Go(func() { s.AddAt(1, 0, 1) })
				<-reached
				total := int64(0)
				for range generations {
					total += s.Swap(nil)[0]
				}
				close(gate)
				wg.Wait()
				total += s.Swap(nil)[0] + s.Swap(nil)[0]
				require.EqualValues(t, 1, total)
			})
		}
	}
}

// ring is the protocol of Snapshot in small: one counter on two lanes, three Adds
// of different amounts, and a reader that takes two snapshots. A step touches one
// shared word.
type ring struct {
	gen   int
	words [2][2]int // lane, parity
	adds  [3]ringAdd
	// The reader: its step, its sum so far, and what it saw.
	pc, sum int
	saw     [2]int
	// began and ended are the sets (bits) of Adds that had begun when a snapshot
	// returned, and that had ended before it began.
	began, ended [2]int
	reads        int
	careless     bool // late writers do not wait
}

type ringAdd struct{ pc, gen int }

const ringDone = 4

func (r ring) next() (steps []model.Step[ring]) {
	for i := range r.adds {
		if to, ok := r.add(i); ok {
			steps = append(steps, model.Step[ring]{Label: fmt.Sprintf("add %d: step %d", i, r.adds[i].pc), To: to})
		}
	}
	if r.reads < 2 {
		steps = append(steps, model.Step[ring]{Label: fmt.Sprintf("reader: step %d", r.pc), To: r.read()})
	}
	return steps
}

func (r ring) add(i int) (ring, bool) {
	a := &r.adds[i]
	switch a.pc {
	case 0:
		if i == 2 && r.adds[0].pc != ringDone { // add 2 follows add 0, on the other lane
			return r, false
		}
		a.gen, a.pc = r.gen, 1
	case 1:
		r.words[(i+1)/2][a.gen>>1&1] += 1 << i
		a.pc = 2
	case 2:
		now := r.gen
		a.pc = ringDone
		if now>>1 != a.gen>>1 && now&1 == 1 && !r.careless {
			a.gen, a.pc = now, 3
		}
	case 3:
		if r.gen == a.gen {
			return r, false // waits
		}
		a.pc = ringDone
	default:
		return r, false
	}
	return r, true
}

func (r ring) set(in func(ringAdd) bool) (bits int) {
	for i, a := range r.adds {
		if in(a) {
			bits |= 1 << i
		}
	}
	return bits
}

func (r ring) read() ring {
	cold, hot := (r.gen>>1+1)&1, r.gen>>1&1
	switch r.pc {
	case 0:
		r.ended[r.reads] = r.set(func(a ringAdd) bool { return a.pc == ringDone })
		r.gen++
		r.sum = 0
	case 1, 2:
		r.sum += r.words[r.pc-1][cold]
	case 3:
		r.gen++
	case 4, 5:
		r.sum += r.words[r.pc-4][1-hot]
	}
	if r.pc++; r.pc == 6 {
		r.saw[r.reads] = r.sum
		r.began[r.reads] = r.set(func(a ringAdd) bool { return a.pc != 0 })
		r.reads, r.pc = r.reads+1, 0
	}
	return r
}

var errTorn = errors.New("C5: a snapshot that was never the total")

// check: what a snapshot saw is the set of Adds it includes. It must include all
// that had ended, none that had not begun, no Add without the one before it in
// real time (2 after 0), and all that an earlier snapshot included.
func (r ring) check(end bool) error {
	for k := range r.reads {
		saw := r.saw[k]
		if saw&^r.began[k] != 0 || r.ended[k]&^saw != 0 || saw&4 != 0 && saw&1 == 0 || k == 1 && r.saw[0]&^saw != 0 {
			return errTorn
		}
	}
	if end && r.words[0][0]+r.words[0][1]+r.words[1][0]+r.words[1][1] != 7 {
		return errTorn
	}
	return nil
}

// Every interleaving of three Adds and two reads. Without the wait of late writers
// some show a torn snapshot: so the wait is needed, and the check can fail.
func TestModelOfSnapshotIsLinearizable(t *testing.T) {
	// One snapshot was taken before, so that writers can be late.
	res, err := model.Explore(ring{}, ring.next, ring.check, 5_000_000)
	require.NoError(t, err)
	t.Logf("%d states, %d ends", res.States, res.Ends)
	_, err = model.Explore(ring{careless: true}, ring.next, ring.check, 5_000_000)
	require.ErrorIs(t, err, errTorn)
}
