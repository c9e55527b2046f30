package live

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"corelane/internal/judge"
	"corelane/internal/race"
	"corelane/internal/vectors"
	"corelane/reasm"
)

// TestLiveJudge feeds random fragments to the kernel of this machine, and
// compares what it did, step by step, with every design in every mode and call.
// CORELANE_LIVE_SEQUENCES sets how many sequences a family gets,
// CORELANE_LIVE_SEED repeats a run; CORELANE_LIVE=require makes it fail where it
// would skip.
func TestLiveJudge(t *testing.T) {
	n := setting(t, "CORELANE_LIVE_SEQUENCES", 20000)
	switch {
	case os.Getenv("CORELANE_LIVE_SEQUENCES") != "":
	case testing.Short():
		n = 1000
	case race.Enabled:
		n = 1000 // the kernel gets no truer by it, and the designs slow
	}
	seed := setting(t, "CORELANE_LIVE_SEED", rand.Uint64()>>16)
	for _, family := range []int{4, 6} {
		t.Run(fmt.Sprintf("family=%d", family), func(t *testing.T) {
			t.Parallel()
			judgeLive(t, family, seed, n)
		})
	}
}

func setting(t *testing.T, name string, def uint64) uint64 {
	s := os.Getenv(name)
	if s == "" {
		return def
	}
	n, err := strconv.ParseUint(s, 10, 64)
	require.NoError(t, err, name)
	return n
}

// ways are all ways to use a cache.
func ways() (ws []judge.Way) {
	for _, d := range reasm.Designs() {
		for _, mode := range []reasm.Mode{reasm.Copy, reasm.Borrow} {
			for _, batch := range []int{0, 64} {
				ws = append(ws, judge.Way{Design: d.Name, Mode: mode, Batch: batch})
			}
		}
	}
	return ws
}

// asked is a case that the kernel has answered.
type asked struct {
	vectors.Case
	packets [][]byte
}

// disagreement is a case that one way answers otherwise.
type disagreement struct {
	asked
	way  judge.Way
	diff string
}

func judgeLive(t *testing.T, family int, seed, n uint64) {
	h := host(t, family)
	ws := ways()
	began := time.Now()
	jobs := make(chan []asked, 4)
	var jury jury
	var workers sync.WaitGroup
	for range max(1, runtime.GOMAXPROCS(0)/2) {
		workers.Go(func() { jury.sit(t, ws, jobs) })
	}
	var seen tally // of all cases
	for at := uint64(0); at < n && !t.Failed(); {
		batch := make([]asked, min(64, n-at))
		for i := range batch {
			batch[i].Case = Random(family, seed, at)
			at++
			batch[i].packets = judge.Packets(&batch[i].Case)
			if err := h.Ask(&batch[i].Case, batch[i].packets); err != nil {
				close(jobs)
				t.Fatalf("%s: %v\n%s", batch[i].Name, err, line(&batch[i].Case))
			}
			seen.add(&batch[i].Case)
		}
		jobs <- batch
	}
	answered := time.Since(began)
	close(jobs)
	workers.Wait()
	for i := range jury.found {
		jury.found[i].report(t, h)
	}
	t.Logf("IPv%d, seed %d: the kernel answered %v in %v", family, seed, seen, answered.Round(time.Millisecond))
	t.Logf("IPv%d: %d disagreements; %d designs, %d ways to use them, judged %d sequences in %v", family,
		jury.disagreed, len(reasm.Designs()), len(ws), jury.judged, time.Since(began).Round(time.Millisecond))
	require.False(t, slices.Contains(seen[:], 0), "the cases do not show all there is: %v", seen)
}

// tally counts what the kernel did, to show that the cases provoke all of it.
type tally [6]int

func (n *tally) add(c *vectors.Case) {
	n[0]++
	n[1] += len(c.Steps)
	for i := range c.Out {
		o := &c.Out[i]
		n[2] += len(o.Datagrams)
		n[3] += len(o.ICMP)
		if o.Counters != nil {
			n[4] += o.Counters[2]
			n[5] += o.Counters[4]
		}
	}
}

func (n tally) String() string {
	return fmt.Sprintf("%d sequences of %d steps with %d datagrams, %d ICMP errors, %d failures (%d of them overlaps)",
		n[0], n[1], n[2], n[3], n[4], n[5])
}

// jury judges cases, from several goroutines.
type jury struct {
	mu        sync.Mutex
	judged    int // all below guarded by mu
	disagreed int
	found     []disagreement // the first few
}

func (j *jury) sit(t *testing.T, ws []judge.Way, jobs <-chan []asked) {
	judges := make([]map[vectors.Cfg]*judge.Judge, len(ws))
	for i := range judges {
		judges[i] = make(map[vectors.Cfg]*judge.Judge)
	}
	for batch := range jobs {
		judged := 0
		for i := range batch {
			a := &batch[i]
			for k, w := range ws {
				if judge.AboutLimit(&a.Case) && w.Design != "hard-limit" {
					continue
				}
				judged++
				one := judges[k][a.Cfg]
				if one == nil {
					var err error
					if one, err = judge.New(a.Cfg, w); err != nil {
						t.Error(err)
						return
					}
					judges[k][a.Cfg] = one
				}
				if diff := one.Case(&a.Case, a.packets); diff != "" {
					delete(judges[k], a.Cfg)
					j.disagree(disagreement{*a, w, diff})
				}
			}
		}
		j.mu.Lock()
		j.judged += judged
		j.mu.Unlock()
	}
	for _, cfgs := range judges {
		for _, one := range cfgs {
			if err := one.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func (j *jury) disagree(d disagreement) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.disagreed++
	known := slices.ContainsFunc(j.found, func(o disagreement) bool { return o.Name == d.Name })
	if !known && len(j.found) < 5 {
		j.found = append(j.found, d)
	}
}

// report shrinks the case and shows it in the form that testdata has.
func (d *disagreement) report(t *testing.T, h *Host) {
	small := d.shrink(h)
	t.Errorf("%v case %s\n%s\nshrunk from %d to %d steps:\n%s\n%s",
		d.way, d.Name, d.diff, len(d.Steps), len(small.Steps), small.diff, line(&small.Case))
}

// shrink leaves out steps as long as kernel and cache disagree about the rest.
func (d *disagreement) shrink(h *Host) disagreement {
	best := *d
	for i := len(best.Steps) - 1; i >= 0; i-- {
		if i >= len(best.Steps) {
			continue
		}
		try := disagreement{way: d.way}
		try.Case = best.Case
		try.Steps = slices.Clone(best.Steps)
		for k := range try.Steps { // bytes stay what they are
			fill := try.Steps[k].FillAt(k)
			try.Steps[k].Fill = &fill
		}
		try.Steps = slices.Delete(try.Steps, i, i+1)
		if try.disagrees(h) {
			best = try
		}
	}
	return best
}

func (d *disagreement) disagrees(h *Host) bool {
	d.packets = judge.Packets(&d.Case)
	if h.Ask(&d.Case, d.packets) != nil {
		return false
	}
	j, err := judge.New(d.Cfg, d.way)
	if err != nil {
		return false
	}
	defer j.Close()
	d.diff = j.Case(&d.Case, d.packets)
	return d.diff != ""
}

// line is a case as one line of a vector file.
func line(c *vectors.Case) string {
	for i := range c.Out {
		for k := range c.Out[i].Datagrams {
			d := &c.Out[i].Datagrams[k]
			d.Map = origin(c.Steps, d.Payload)
		}
	}
	b, err := json.Marshal(c)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// origin tells from its bytes where each part of a payload comes from.
func origin(steps []vectors.Step, payload []byte) (m [][3]int) {
	for p, b := range payload {
		fill := -1
		for i := range steps {
			s := &steps[i]
			if f := s.FillAt(i); p >= s.Off && p < s.Off+s.Len && vectors.PatternByte(f, p) == b {
				fill = f
			}
		}
		if n := len(m); n > 0 && m[n-1][0] == fill {
			m[n-1][2] = p + 1
		} else {
			m = append(m, [3]int{fill, p, p + 1})
		}
	}
	return m
}

// TestLiveJudgeInTime does the same with pauses and a timeout of a second, each
// sequence in a namespace of its own, all at the same time. A sequence that the
// machine was too busy to time well is tried again, and then not judged.
func TestLiveJudgeInTime(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for seconds")
	}
	const each, tries = 16, 3
	host(t, 4) // skips where there is none
	seed := setting(t, "CORELANE_LIVE_SEED", rand.Uint64()>>16)
	cases := make([]asked, 2*each)
	for i := range cases {
		cases[i].Case = RandomTimed(4+2*(i%2), seed, uint64(i))
		cases[i].packets = judge.Packets(&cases[i].Case)
	}
	judged := 0
	for range tries {
		late := askInTime(t, cases)
		for i := range cases {
			if a := &cases[i]; !slices.Contains(late, i) && !t.Failed() {
				judged++
				judgeInTime(t, a)
			}
		}
		var again []asked
		for _, i := range late {
			again = append(again, cases[i])
		}
		cases = again
	}
	t.Logf("seed %d: judged %d of %d sequences with pauses", seed, judged, 2*each)
	require.NotZero(t, judged, "the machine is too busy to time anything")
}

// askInTime asks about each case in a namespace of its own, and returns those
// whose steps came late.
func askInTime(t *testing.T, cases []asked) (late []int) {
	var mu sync.Mutex
	var ready, done sync.WaitGroup
	for i := range cases {
		ready.Add(1)
		done.Go(func() {
			h, err := NewHost(cases[i].Family)
			ready.Done()
			if err != nil {
				t.Error(err)
				return
			}
			defer h.Close()
			ready.Wait() // making namespaces is what keeps a machine busy
			if err := h.Ask(&cases[i].Case, cases[i].packets); err != nil {
				t.Errorf("%s: %v", cases[i].Name, err)
			}
			if h.Late() > 100*time.Millisecond {
				mu.Lock()
				late = append(late, i)
				mu.Unlock()
			}
		})
	}
	done.Wait()
	return late
}

func judgeInTime(t *testing.T, a *asked) {
	for _, w := range ways() {
		j, err := judge.New(a.Cfg, w)
		require.NoError(t, err)
		if diff := j.Case(&a.Case, a.packets); diff != "" {
			t.Errorf("%v case %s\n%s\n%s", w, a.Name, diff, line(&a.Case))
		}
		require.NoError(t, j.Close())
	}
}
