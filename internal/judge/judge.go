package judge

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"corelane/internal/vectors"
	"corelane/reasm"
)

// Way is one of the ways to use a cache that must not differ in what they say.
type Way struct {
	Design string
	Mode   reasm.Mode
	// Batch is how many fragments one AddBatch takes at most; 0 means Add. Where
	// a case is about the limit it is 1 at most: a batch's datagrams stay charged
	// until it returns, while the kernel delivers each at once.
	Batch int
}

func (w Way) String() string {
	mode, call := "copy", "Add"
	if w.Mode == reasm.Borrow {
		mode = "borrow"
	}
	if w.Batch > 0 {
		call = fmt.Sprintf("AddBatch(%d)", w.Batch)
	}
	return fmt.Sprintf("design=%s mode=%s call=%s", w.Design, mode, call)
}

// Judge is a host with a cache, set up as the kernel was. It is used for one case
// after the other; after one that differs its table may be in any state.
type Judge struct {
	host
	way     Way
	lane    reasm.Lane
	timeout time.Duration
	before  reasm.LinuxStats
	lent    int // buffers in the cache, or in a datagram

	// For the steps of one call.
	outs     []outcome
	arrivals []arrival
	fs       []reasm.Fragment
	rs       []reasm.Result
}

// New makes a judge for cases with this configuration.
func New(vc vectors.Cfg, way Way) (*Judge, error) {
	j := &Judge{way: way}
	cfg := reasm.LinuxConfig()
	cfg.Mode = way.Mode
	j.timeout = 30 * time.Second
	if vc.TimeoutMS != 0 {
		j.timeout = time.Duration(vc.TimeoutMS) * time.Millisecond
	}
	cfg.Timeout4, cfg.Timeout6 = j.timeout, j.timeout
	if vc.MaxDist != 0 {
		cfg.MaxDist = max(vc.MaxDist, 0)
	}
	if vc.High != 0 {
		cfg.Limits = reasm.Limits{High: int64(vc.High), Low: int64(vc.High) * 3 / 4}
	}
	cfg.Charge = reasm.Charge{Queue: queueCharge, Fragment: packetCharge}
	cfg.OnExpire = j.expired
	cfg.Free = func(bs []reasm.Buffer) { j.lent -= len(bs) }
	var err error
	if j.cache, err = reasm.New(way.Design, cfg); err != nil {
		return nil, err
	}
	j.lane = j.cache.Lane(0)
	j.parser.VerifyChecksum = true
	return j, nil
}

// Close closes the cache.
func (j *Judge) Close() error { return j.cache.Close() }

// Case replays a case whose steps send these packets (Packets builds them) and
// describes where the cache first differs from the recorded outcome, if it does.
//
// Steps that one AddBatch takes are compared one by one, but for counters and
// memory: those are compared as the last of them left them.
func (j *Judge) Case(c *vectors.Case, packets [][]byte) (diff string) {
	j.family, j.nf = c.Family, c.Path == "nf"
	j.before = j.linux()
	batch := j.way.Batch
	if AboutLimit(c) {
		batch = min(batch, 1)
	}
	for i := 0; i < len(c.Steps); {
		n := 1
		if c.Steps[i].Pause > 0 {
			j.start(1)
			j.out = &j.outs[0]
			j.pause(time.Duration(c.Steps[i].Pause) * time.Millisecond)
		} else {
			for n < batch && i+n < len(c.Steps) && c.Steps[i+n].Pause == 0 {
				n++
			}
			j.send(c.Steps[i:i+n], packets[i:i+n])
		}
		if at, diff := j.compare(c, i, n, packets); diff != "" {
			return fmt.Sprintf("  step %d of %d: %s\n  %+v", at, len(c.Steps), diff, c.Steps[at])
		}
		i += n
	}
	// Every case starts with an empty table; time empties it.
	j.start(1)
	j.out = &j.outs[0]
	j.pause(j.timeout + time.Second)
	if s := j.cache.Stats(); s.Queues != 0 || s.Bytes != 0 || j.lent != 0 {
		return fmt.Sprintf("  after the timeout: %d queues, %d bytes charged, %d buffers lent", s.Queues, s.Bytes, j.lent)
	}
	return ""
}

// Packets builds the packets of a case.
func Packets(c *vectors.Case) [][]byte {
	packets := make([][]byte, len(c.Steps))
	for i := range c.Steps {
		packets[i] = c.Steps[i].Packet(c.Family, i)
	}
	return packets
}

// AboutLimit reports whether a case shows what the kernel does when its memory is
// full. Only the design that refuses newcomers shares that.
func AboutLimit(c *vectors.Case) bool {
	return c.Cfg.High != 0 || strings.Contains(c.Name, "/limit/") || strings.Contains(c.Name, "lmix")
}

// start makes room for the outcomes of n steps.
func (j *Judge) start(n int) {
	j.outs = slices.Grow(j.outs[:0], n)[:n]
	clear(j.outs)
}

// send lets the packets of these steps arrive, by one call.
func (j *Judge) send(steps []vectors.Step, packets [][]byte) {
	n := len(steps)
	j.start(n)
	j.arrivals = slices.Grow(j.arrivals[:0], n)[:n]
	j.fs = j.fs[:0]
	for i := range steps {
		j.out = &j.outs[i]
		a := &j.arrivals[i]
		if j.enter(packets[i], steps[i].If, a); a.offered {
			j.fs = append(j.fs, a.f)
		}
	}
	j.rs = slices.Grow(j.rs[:0], len(j.fs))[:len(j.fs)]
	if j.way.Batch > 0 {
		if took := j.lane.AddBatch(j.now, j.fs, j.rs); took != len(j.fs) {
			panic(fmt.Sprintf("judge: AddBatch took %d of %d", took, len(j.fs)))
		}
	} else {
		for i := range j.fs {
			j.rs[i] = j.lane.Add(j.now, &j.fs[i])
		}
	}
	k := 0
	for i := range steps {
		if a := &j.arrivals[i]; a.offered {
			if j.way.Mode == reasm.Borrow && j.rs[k].Verdict.Kept() {
				j.lent++
			}
			j.out = &j.outs[i]
			j.leave(a, j.rs[k])
			k++
		}
	}
}

func (j *Judge) linux() reasm.LinuxStats {
	s := j.cache.Stats()
	return s.Linux()
}

// compare compares the n steps from first on and returns the one that differs.
func (j *Judge) compare(c *vectors.Case, first, n int, packets [][]byte) (at int, diff string) {
	want := make([]int, 5)
	for i := range n {
		at = first + i
		if diff := compareStep(c.Family, &j.outs[i], &c.Out[at], packets); diff != "" {
			return at, diff
		}
		for k, v := range c.Out[at].Counters {
			want[k] += v
		}
	}
	s := j.cache.Stats()
	now, was := s.Linux(), j.before
	j.before = now
	counters := []int{
		int(now.ReasmReqds - was.ReasmReqds), int(now.ReasmOKs - was.ReasmOKs), int(now.ReasmFails - was.ReasmFails),
		int(now.ReasmTimeout - was.ReasmTimeout), int(now.ReasmOverlaps - was.ReasmOverlaps),
	}
	held := c.Out[at].Queues
	switch {
	case !slices.Equal(counters, want):
		return at, fmt.Sprintf("counters %v, want %v", counters, want)
	case s.Queues != held[0] || s.Bytes != int64(held[1]):
		return at, fmt.Sprintf("%d queues and %d bytes, want %v", s.Queues, s.Bytes, held)
	}
	return at, ""
}

// compareStep compares what one step caused outside of the cache.
func compareStep(family int, got *outcome, want *vectors.Out, packets [][]byte) string {
	switch {
	case !maps.Equal(got.other, want.Other):
		return fmt.Sprintf("other counters %v, want %v", got.other, want.Other)
	case len(got.datagrams) != len(want.Datagrams):
		return fmt.Sprintf("%d datagrams, want %d", len(got.datagrams), len(want.Datagrams))
	}
	for i := range want.Datagrams {
		if diff := compareDatagram(family, &got.datagrams[i], &want.Datagrams[i]); diff != "" {
			return fmt.Sprintf("datagram %d: %s", i, diff)
		}
	}
	return compareICMP(got.icmp, want.ICMP, packets)
}
