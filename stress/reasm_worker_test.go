package stress

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"corelane/reasm"
)

// workerSuite is the stress of mail 001 on one host: "flooding the machine with
// fragmented packets from different sources with frag timeout set to 0 (so
// there're lots of timeouts) and low_thresh set to 1 byte (so evictions are
// happening all the time) and on top of that running a namespace create/destroy
// endless loop".
type workerSuite struct {
	host    *reasm.Host
	cache   reasm.Cache // of the lanes that flood
	buffers *reasmBuffers
	clock   atomic.Int64
	next    atomic.Uint32
	opened  atomic.Int64 // namespaces
	guests  atomic.Int64 // newcomers that got in
}

const (
	workerLanes = 4                          // the last is the namespaces'
	workerStuck = 20 * time.Second           // a newcomer refused for so long means a stall
	workerHigh  = int64(1 << 18)             // little: it is always full
	workerTimer = 100 * time.Microsecond     // of Run
	workerFlood = uint64(0x9e3779b97f4a7c15) // spreads the sources
	workerSmall = int64(workerHigh / 4)      // of a namespace that comes and goes
)

func newWorkerSuite(t *testing.T, design string, timeout time.Duration) *workerSuite {
	s := &workerSuite{buffers: newReasmBuffers()}
	cfg := reasm.DefaultConfig()
	cfg.Lanes, cfg.Mode, cfg.Free = workerLanes, reasm.Borrow, s.buffers.back
	cfg.Limits = reasm.Limits{High: workerHigh, Low: 1}
	cfg.Timeout4, cfg.Timeout6, cfg.MaxAge = timeout, timeout, 0
	var err error
	if s.host, err = reasm.NewHost(design, cfg); err != nil {
		t.Fatal(err)
	}
	if s.cache, err = s.host.Namespace(cfg.Limits); err != nil {
		t.Fatal(err)
	}
	return s
}

// send lends a packet to a lane: piece i of datagram n, from a source of its own.
func (s *workerSuite) send(lane reasm.Lane, n uint32, i int) (reasm.Verdict, error) {
	var (
		f      reasm.Fragment
		parser reasm.Parser
		ref    int
	)
	select {
	case ref = <-s.buffers.free:
	default:
		return 0, fmt.Errorf("all %d buffers are out", reasmBufferCount)
	}
	if err := s.buffers.ledger.Out(ref); err != nil {
		return 0, err
	}
	packet := reasmPacket(n, i)
	at := 12 // the source address, or the end of it
	if n%2 == 1 {
		at = 16
	}
	binary.BigEndian.PutUint32(packet[at:], uint32(uint64(n)*workerFlood>>32))
	parser.Parse(packet, 0, &f)
	f.Ref = uint64(ref)
	r := lane.Add(s.clock.Load(), &f)
	if !r.Verdict.Kept() {
		if err := s.buffers.ledger.Back(ref); err != nil {
			return 0, err
		}
		s.buffers.free <- ref
	}
	if p := s.buffers.err.Load(); p != nil {
		return 0, *p
	}
	switch r.Verdict {
	case reasm.Held, reasm.Duplicate, reasm.Refused, reasm.Closed:
		return r.Verdict, nil
	case reasm.Complete:
		_, err := reasmCheck(r.Datagram)
		r.Datagram.Release()
		return r.Verdict, err
	}
	return r.Verdict, fmt.Errorf("verdict %v for a fragment that is in order", r.Verdict)
}

// flood sends datagrams of which most lack a piece.
func (s *workerSuite) flood(w *Worker) error {
	lane := s.cache.Lane(w.ID)
	for w.Next() {
		n := s.next.Add(1)
		for i := range reasmParts {
			if w.Rand.IntN(8) == 0 {
				continue
			}
			if _, err := s.send(lane, n, i); err != nil {
				return err
			}
		}
	}
	return nil
}

// guest sends newcomers one by one and insists: each gets in sooner or later, or
// the worker has stalled.
func (s *workerSuite) guest(w *Worker) error {
	lane := s.cache.Lane(workerLanes - 2)
	n, since := s.next.Add(1), time.Now()
	for w.Next() {
		v, err := s.send(lane, n, 0)
		switch {
		case err != nil:
			return err
		case v != reasm.Refused:
			n, since = s.next.Add(1), time.Now()
			s.guests.Add(1)
		case time.Since(since) > workerStuck:
			return fmt.Errorf("a newcomer was refused for %v: the worker has stalled", workerStuck)
		}
		runtime.Gosched()
	}
	return nil
}

// namespaces opens, floods and closes them.
func (s *workerSuite) namespaces(w *Worker) error {
	for w.Next() {
		c, err := s.host.Namespace(reasm.Limits{High: workerSmall, Low: 1})
		if err != nil {
			return err
		}
		lane := c.Lane(workerLanes - 1)
		for range w.Rand.IntN(50) {
			if _, err := s.send(lane, w.Rand.Uint32N(64), w.Rand.IntN(reasmParts)); err != nil {
				return err
			}
		}
		if err := c.Close(); err != nil {
			return err
		}
		if v, err := s.send(lane, 0, 0); err != nil || v != reasm.Closed {
			return fmt.Errorf("verdict %v in a namespace that was closed (%v)", v, err)
		}
		if st := c.Stats(); st.Bytes != 0 || st.Queues != 0 {
			return fmt.Errorf("%d bytes and %d queues in a namespace that was closed", st.Bytes, st.Queues)
		}
		s.opened.Add(1)
	}
	return nil
}

// runner is reasm.Run, stopped and started over.
func (s *workerSuite) runner(w *Worker) error {
	clock := func() int64 { return s.clock.Add(1000) }
	for w.Next() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		reasm.Run(ctx, s.host, clock, workerTimer)
		cancel()
	}
	return nil
}

// TestStressReasmWorkers is the stress of mail 001; -stress.for=240s runs each of
// its four for a minute.
//
//   - Actors: 2 lanes that flood from ever new sources; a guest that repeats each
//     newcomer until it is taken in; one that opens, floods and closes namespaces;
//     reasm.Run, over and over. Low is 1 byte; the timeout is 0, or never.
//   - Claims: nobody is refused for ever (no stall, no lost wake-up); Q7, every
//     buffer comes back exactly once; Q8, a closed namespace is charged nothing at
//     once, and the host nothing at the end.
func TestStressReasmWorkers(t *testing.T) {
	for _, design := range []string{"work-queue", "walker"} {
		for name, timeout := range map[string]time.Duration{"0": 0, "never": 1 << 61} {
			t.Run(fmt.Sprintf("design=%s/timeout=%s", design, name), func(t *testing.T) {
				s := newWorkerSuite(t, design, timeout)
				Run(t, Plan{
					Scale: 0.25,
					Procs: []int{2, 4, 1},
					Actors: []Actor{
						{Name: "flood", Workers: workerLanes - 2, Run: s.flood},
						{Name: "guest", Run: s.guest},
						{Name: "namespaces", Run: s.namespaces},
						{Name: "run", Run: s.runner},
					},
					Check: s.end,
					Until: func() bool { return s.guests.Load() > 0 && s.opened.Load() > 0 },
				})
				t.Logf("%d namespaces were opened and closed, %d guests got in", s.opened.Load(), s.guests.Load())
				if s.guests.Load() == 0 {
					t.Error("no guest got in")
				}
			})
		}
	}
}

// TestStressReasmRunEndsAtClose.
//
//   - Actors: 2 lanes that flood; three Runs without a context that ends; one that
//     closes the host in the middle.
//   - Claims: every Run returns; Q7 and Q8.
func TestStressReasmRunEndsAtClose(t *testing.T) {
	for _, design := range []string{"work-queue", "walker"} {
		t.Run("design="+design, func(t *testing.T) {
			s := newWorkerSuite(t, design, 0)
			var runs sync.WaitGroup
			for range 3 {
				runs.Go(func() {
					reasm.Run(context.Background(), s.host, func() int64 { return s.clock.Add(1000) }, workerTimer)
				})
			}
			Run(t, Plan{
				Scale: 0.1,
				Actors: []Actor{
					{Name: "flood", Workers: workerLanes - 2, Run: s.flood},
					{Name: "close", Run: func(w *Worker) error {
						for w.Next() && s.next.Load() < 500 {
							runtime.Gosched()
						}
						return s.host.Close()
					}},
				},
				Check: func() error { runs.Wait(); return s.end() },
			})
		})
	}
}

func (s *workerSuite) end() error {
	if err := s.host.Close(); err != nil {
		return err
	}
	if n := s.host.Bytes(); n != 0 {
		return fmt.Errorf("%d bytes are charged to the host at the end", n)
	}
	if st := s.cache.Stats(); st.Bytes != 0 || st.Queues != 0 {
		return fmt.Errorf("%d bytes and %d queues at the end", st.Bytes, st.Queues)
	}
	if p := s.buffers.err.Load(); p != nil {
		return *p
	}
	return s.buffers.ledger.Balanced()
}
