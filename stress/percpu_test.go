package stress

import (
	"errors"
	"fmt"
	"testing"

	"corelane/percpu"
)

// TestStressPercpuCounts.
//
// Actors:   4 adders on lanes of their P, 4 on their own, 2 readers.
// Claims:   C1 a Counter, a Group and a Batched end at the sum of what was added,
// while GOMAXPROCS cycles through 1 .. 64 (C6) and the Counter shards;
// C3 Batched.Compare is right about a value that is far away.
//
// Replay:   go test -race ./stress -run TestStressPercpuCounts -stress.seed=<printed>
func TestStressPercpuCounts(t *testing.T) {
	var (
		counter percpu.Counter
		group   = percpu.NewGroup(3)
		batched = percpu.NewBatched(32)
		truth   = NewSum("added")
	)
	add := func(own bool) func(w *Worker) error {
		return func(w *Worker) error {
			lane := w.ID
			for w.Next() {
				n := w.Rand.Int64N(201) - 80
				truth.Add(n)
				if own {
					counter.AddAt(lane, n)
					group.AddAt(lane, 1, n)
					batched.AddAt(lane, n)
				} else {
					counter.Add(n)
					group.Add(1, n)
					batched.Add(n)
				}
			}
			return nil
		}
	}
	Run(t, Plan{
		Procs: []int{1, 2, 64, 3, 16, 5, 32, 1},
		Actors: []Actor{
			{Name: "by id", Workers: 4, Run: add(false)},
			{Name: "by lane", Workers: 4, Run: add(true)},
			{Name: "readers", Workers: 2, Run: func(w *Worker) error {
				for w.Next() {
					if counter.Value() < -1<<40 || group.Load(0) != 0 || batched.Compare(1<<50) != -1 {
						return errors.New("a read is off by more than all there was")
					}
				}
				return nil
			}},
		},
		Check: func() error {
			return errors.Join(truth.Equals(counter.Value()), truth.Equals(group.Load(1)), truth.Equals(batched.Exact()))
		},
	})
}

// TestStressPercpuSnapshot.
//
// Actors:   3 adders of pairs, 3 adders of ones, 2 drainers, 1 reader.
// Claims:   C5 the two counters of a pair are equal in every snapshot; what all Swaps returned, and the last Read, is what was added.
//
// Windows:  percpu.snapshot.*
// Replay:   go test -race ./stress -run TestStressPercpuSnapshot -stress.seed=<printed>
func TestStressPercpuSnapshot(t *testing.T) {
	var (
		s       = percpu.NewSnapshot(3)
		ones    = NewSum("ones")
		pairs   = NewSum("pairs")
		pairSum = func(got []int64) error {
			if got[0] != got[1] {
				return fmt.Errorf("a snapshot shows %d of one and %d of the other", got[0], got[1])
			}
			return nil
		}
	)
	Run(t, Plan{
		Procs: []int{2, 16, 1, 4},
		Actors: []Actor{
			{Name: "pairs", Workers: 3, Run: func(w *Worker) error {
				for w.Next() {
					n := w.Rand.Int64N(1000)
					pairs.Add(n)
					s.AddAllAt(w.ID, []int64{n, n})
				}
				return nil
			}},
			{Name: "ones", Workers: 3, Run: func(w *Worker) error {
				for w.Next() {
					ones.Add(1)
					s.Add(2, 1)
				}
				return nil
			}},
			{Name: "drainers", Workers: 2, Run: func(w *Worker) error {
				var got []int64
				for w.Next() {
					got = s.Swap(got)
					pairs.Add(-got[0])
					ones.Add(-got[2])
					if err := pairSum(got); err != nil {
						return err
					}
				}
				return nil
			}},
			{Name: "reader", Run: func(w *Worker) error {
				var got []int64
				for w.Next() {
					got = s.Read(got)
					if err := pairSum(got); err != nil {
						return err
					}
				}
				return nil
			}},
		},
		Check: func() error {
			got := s.Read(nil)
			return errors.Join(pairs.Equals(got[0]), ones.Equals(got[2]), pairSum(got))
		},
	})
}

// A total that moves by one Add at a time has only the values between: a reader
// that sees another has torn the snapshot.
func TestLitmusSnapshotOfTwoLanes(t *testing.T) {
	RunLitmus(t, Litmus{
		New: func() ([]func(), func() string) {
			s := percpu.NewSnapshot(1)
			s.AddAt(0, 0, 1)
			var saw int64
			return []func(){
				func() { s.AddAt(1, 0, 10); s.AddAt(0, 0, -1) },
				func() { saw = s.Read(nil)[0] },
			}, func() string { return fmt.Sprint(saw) }
		},
		Table: map[string]Outcome{
			"1":  {Acceptable, "before both adds"},
			"11": {Interesting, "between the adds"},
			"10": {Acceptable, "after both"},
			"0":  {Forbidden, "the second add without the first"},
		},
	})
}
