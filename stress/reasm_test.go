package stress

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"corelane/reasm"
)

// What a datagram of the reasm suites looks like: reasmParts pieces of
// reasmPiece bytes, every byte of which names the datagram.
const (
	reasmParts = 4
	reasmPiece = 24
	reasmLanes = 4
)

// reasmPacket builds piece i of datagram n, with IPv4 or IPv6 around it.
func reasmPacket(n uint32, i int) []byte {
	var b []byte
	word := uint16(i * reasmPiece / 8)
	if n%2 == 0 {
		b = make([]byte, 20+reasmPiece)
		b[0], b[8], b[9] = 0x45, 64, 253
		binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
		binary.BigEndian.PutUint16(b[4:], uint16(n))
		if i < reasmParts-1 {
			word |= 0x2000
		}
		binary.BigEndian.PutUint16(b[6:], word)
		binary.BigEndian.PutUint32(b[12:], n>>16)
	} else {
		b = make([]byte, 48+reasmPiece)
		b[0], b[6], b[7], b[40] = 0x60, 44, 64, 253
		binary.BigEndian.PutUint16(b[4:], uint16(len(b)-40))
		word *= 8
		if i < reasmParts-1 {
			word |= 1
		}
		binary.BigEndian.PutUint16(b[42:], word)
		binary.BigEndian.PutUint32(b[44:], n)
	}
	for k := len(b) - reasmPiece; k < len(b); k += 8 {
		binary.BigEndian.PutUint32(b[k:], n)
		binary.BigEndian.PutUint32(b[k+4:], uint32(i*reasmPiece+k))
	}
	return b
}

// reasmCheck says which datagram d is, and whether its bytes are all its own.
func reasmCheck(d *reasm.Datagram) (n uint32, err error) {
	payload := d.Bytes()[len(d.Header()):]
	if len(payload) != reasmParts*reasmPiece {
		return 0, fmt.Errorf("a datagram of %d bytes", len(payload))
	}
	n = binary.BigEndian.Uint32(payload)
	for i := range reasmParts {
		want := reasmPacket(n, i)
		if !bytes.Equal(payload[i*reasmPiece:(i+1)*reasmPiece], want[len(want)-reasmPiece:]) {
			return n, fmt.Errorf("datagram %d: piece %d is not its own", n, i)
		}
	}
	return n, nil
}

// reasmBuffers lends packets to a cache, and knows which are out.
type reasmBuffers struct {
	ledger *Ledger
	free   chan int
	err    atomic.Pointer[error] // the first claim that Free saw broken
}

const reasmBufferCount = 1 << 15

func newReasmBuffers() *reasmBuffers {
	b := &reasmBuffers{ledger: NewLedger("buffers", reasmBufferCount), free: make(chan int, reasmBufferCount)}
	for i := range reasmBufferCount {
		b.free <- i
	}
	return b
}

// back is Config.Free: it takes the buffers and spoils what they held.
func (b *reasmBuffers) back(bufs []reasm.Buffer) {
	for _, buf := range bufs {
		clear(buf.Packet)
		if err := b.ledger.Back(int(buf.Ref)); err != nil {
			b.err.CompareAndSwap(nil, &err)
			return
		}
		b.free <- int(buf.Ref)
	}
}

// reasmSuite is one cache under stress, and the claims about it.
type reasmSuite struct {
	cache     reasm.Cache
	borrow    bool
	buffers   *reasmBuffers
	delivered *Ledger // datagrams, by number modulo its size; each is sent by few, once
	pieces    []atomic.Uint32
	clock     atomic.Int64
	next      atomic.Uint32
	complete  atomic.Int64
}

const reasmDatagrams = 1 << 20

func newReasmSuite(t *testing.T, design string, mode reasm.Mode, adapt func(*reasm.Config)) *reasmSuite {
	s := &reasmSuite{borrow: mode == reasm.Borrow, buffers: newReasmBuffers(), delivered: NewLedger("datagrams", reasmDatagrams)}
	cfg := reasm.DefaultConfig()
	cfg.Lanes, cfg.Mode, cfg.Free = reasmLanes, mode, s.buffers.back
	cfg.Timeout4, cfg.Timeout6 = 50*time.Millisecond, 50*time.Millisecond
	if adapt != nil {
		adapt(&cfg)
	}
	cache, err := reasm.New(design, cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.cache = cache
	return s
}

// sender adds pieces of datagrams that other lanes send pieces of, too: it takes
// a window of numbers that all of them share, shuffled, with duplicates, now and
// then one short; one batch in three.
func (s *reasmSuite) sender(w *Worker) error {
	var (
		lane   = s.cache.Lane(w.ID)
		parser reasm.Parser
		fs     = make([]reasm.Fragment, 8)
		rs     = make([]reasm.Result, 8)
		kept   []*reasm.Datagram
	)
	defer func() {
		for _, d := range kept {
			d.Release()
		}
	}()
	for w.Next() {
		n := 1
		if w.Rand.IntN(3) == 0 {
			n = 1 + w.Rand.IntN(len(fs))
		}
		base := s.next.Load()
		took := 0
		for ; took < n; took++ {
			number := base + w.Rand.Uint32N(16)
			if number >= reasmDatagrams {
				return nil // enough
			}
			ref := -1
			if s.borrow {
				select {
				case ref = <-s.buffers.free:
				default:
					return fmt.Errorf("all %d buffers are out", reasmBufferCount)
				}
				if err := s.buffers.ledger.Out(ref); err != nil {
					return err
				}
			}
			parser.Parse(reasmPacket(number, w.Rand.IntN(reasmParts)), 0, &fs[took])
			fs[took].Ref = uint64(ref)
		}
		if w.Rand.IntN(8) == 0 {
			s.next.Add(1) // the window moves on; what is incomplete is left to time
		}
		now := s.clock.Load() - w.Rand.Int64N(int64(time.Millisecond)) // lanes do not agree about the time
		if n == 1 {
			rs[0] = lane.Add(now, &fs[0])
		} else if got := lane.AddBatch(now, fs[:took], rs[:took]); got != took {
			return fmt.Errorf("AddBatch took %d of %d", got, took)
		}
		for i := range took {
			if s.borrow && !rs[i].Verdict.Kept() {
				if err := s.buffers.ledger.Back(int(fs[i].Ref)); err != nil {
					return fmt.Errorf("not kept, verdict %v: %w", rs[i].Verdict, err)
				}
				s.buffers.free <- int(fs[i].Ref)
			}
			if err := s.judge(&rs[i], w, &kept); err != nil {
				return err
			}
		}
		if p := s.buffers.err.Load(); p != nil {
			return *p
		}
	}
	return nil
}

// judge checks one verdict, and the datagram that came with it.
func (s *reasmSuite) judge(r *reasm.Result, w *Worker, kept *[]*reasm.Datagram) error {
	switch r.Verdict {
	case reasm.Held, reasm.Duplicate, reasm.Refused, reasm.Closed:
		return nil
	case reasm.Complete:
	default:
		return fmt.Errorf("verdict %v for a fragment that is in order", r.Verdict)
	}
	d := r.Datagram
	if _, err := reasmCheck(d); err != nil {
		return err
	}
	s.complete.Add(1)
	if w.Rand.IntN(4) > 0 {
		d.Release()
		return nil
	}
	*kept = append(*kept, d)
	if len(*kept) > 30 {
		i := w.Rand.IntN(len(*kept))
		old := (*kept)[i]
		if _, err := reasmCheck(old); err != nil {
			return fmt.Errorf("a datagram that was kept: %w", err)
		}
		old.Release()
		*kept = append((*kept)[:i], (*kept)[i+1:]...)
	}
	return nil
}

func (s *reasmSuite) expirer(w *Worker) error {
	for w.Next() {
		s.cache.Step(s.clock.Add(int64(w.Rand.IntN(200))*int64(time.Microsecond)), 1+w.Rand.IntN(64))
	}
	return nil
}

func (s *reasmSuite) walker(w *Worker) error {
	for w.Next() {
		for q := range s.cache.Walk() {
			if q.Fragments > reasmParts || q.Bytes > reasmParts*reasmPiece || q.Bytes != q.Fragments*reasmPiece {
				return fmt.Errorf("Walk shows %d bytes in %d fragments", q.Bytes, q.Fragments)
			}
		}
	}
	return nil
}

func (s *reasmSuite) limiter(w *Worker) error {
	for w.Next() {
		high := int64(w.Rand.IntN(1 << 18))
		if err := s.cache.SetLimits(reasm.Limits{High: high, Low: high * 3 / 4}); err != nil {
			return err
		}
		if b := s.cache.Stats().Bytes; b < 0 {
			return fmt.Errorf("%d bytes are charged", b)
		}
	}
	return nil
}

// end closes the cache and balances the books.
func (s *reasmSuite) end() error {
	if err := s.cache.Close(); err != nil {
		return err
	}
	st := s.cache.Stats()
	switch {
	case st.Bytes != 0 || st.Queues != 0:
		return fmt.Errorf("%d bytes and %d queues at the end", st.Bytes, st.Queues)
	case st.Verdicts[reasm.Complete] != uint64(s.complete.Load()):
		return fmt.Errorf("%d completions counted, %d datagrams delivered", st.Verdicts[reasm.Complete], s.complete.Load())
	}
	if p := s.buffers.err.Load(); p != nil {
		return *p
	}
	return s.buffers.ledger.Balanced()
}

// reasmScale keeps the suites of all designs within the budget of a few. So
// short a plan may see an actor starve on a busy machine: reasmMin allows it, and
// forEachReasm demands that something was done in all.
const reasmScale = 0.1

var reasmMin = map[string]int{"lane": 0, "step": 0, "walk": 0, "limits": 0, "close": 0}

func forEachReasm(t *testing.T, adapt func(*reasm.Config), run func(*testing.T, *reasmSuite)) {
	complete := int64(0)
	for _, d := range reasm.Designs() {
		for mode, name := range map[reasm.Mode]string{reasm.Copy: "copy", reasm.Borrow: "borrow"} {
			t.Run("design="+d.Name+"/mode="+name, func(t *testing.T) {
				s := newReasmSuite(t, d.Name, mode, adapt)
				run(t, s)
				complete += s.complete.Load()
			})
		}
	}
	t.Logf("%d datagrams were completed and checked", complete)
	if complete == 0 && !t.Failed() {
		t.Error("no datagram was completed")
	}
}

// TestStressReasmSharedDatagrams.
//
//   - Actors: 4 lanes that send pieces of the same datagrams, duplicates included;
//     one that lets time pass and steps; a walker; one that changes the limits.
//   - Claims: every datagram has exactly its own bytes, also one that is kept
//     while others use what was next to it; Q8, the books balance at the end; Q7,
//     in Borrow every buffer comes back exactly once.
func TestStressReasmSharedDatagrams(t *testing.T) {
	forEachReasm(t, nil, func(t *testing.T, s *reasmSuite) {
		Run(t, Plan{
			Scale: reasmScale,
			Procs: []int{2, 1, 4},
			Actors: []Actor{
				{Name: "lane", Workers: reasmLanes, Run: s.sender},
				{Name: "step", Run: s.expirer},
				{Name: "walk", Run: s.walker},
				{Name: "limits", Run: s.limiter},
			},
			Min:   reasmMin,
			Check: s.end,
		})
	})
}

// TestStressReasmEachDatagramOnce.
//
//   - Actors: 4 lanes, each piece of each datagram is sent once, by any of them;
//     the expirer; a walker.
//   - Claims: Q3 and Q5 with plenty of memory and time: every datagram whose
//     pieces were all sent is delivered, exactly once.
func TestStressReasmEachDatagramOnce(t *testing.T) {
	adapt := func(c *reasm.Config) {
		c.Limits = reasm.Limits{High: 1 << 40, Low: 1 << 39}
		c.Timeout4, c.Timeout6, c.MaxAge = 1<<61, 1<<61, 0 // never
	}
	forEachReasm(t, adapt, func(t *testing.T, s *reasmSuite) {
		s.pieces = make([]atomic.Uint32, reasmDatagrams)
		Run(t, Plan{
			Scale: reasmScale,
			Procs: []int{2, 4},
			Actors: []Actor{
				{Name: "lane", Workers: reasmLanes, Run: s.onceSender},
				{Name: "step", Run: s.expirer},
				{Name: "walk", Run: s.walker},
			},
			Min: reasmMin,
			Check: func() error {
				for n := range s.pieces {
					err := error(nil)
					if s.pieces[n].Load() == 1<<reasmParts-1 {
						err = s.delivered.Back(n) // it must be out
					}
					if err != nil {
						return fmt.Errorf("never delivered: %w", err)
					}
				}
				if err := s.delivered.Balanced(); err != nil {
					return fmt.Errorf("delivered without all its pieces: %w", err)
				}
				return s.end()
			},
		})
	})
}

// onceSender takes each piece of a moving window at most once.
func (s *reasmSuite) onceSender(w *Worker) error {
	var (
		lane   = s.cache.Lane(w.ID)
		parser reasm.Parser
		f      reasm.Fragment
	)
	for w.Next() {
		number := s.next.Load() + w.Rand.Uint32N(8)
		if number >= reasmDatagrams {
			return nil
		}
		piece := w.Rand.IntN(reasmParts)
		bit := uint32(1) << piece
		if s.pieces[number].Or(bit)&bit != 0 {
			if w.Rand.IntN(16) == 0 {
				s.next.Add(1)
			}
			continue // somebody sent it
		}
		ref := -1
		if s.borrow {
			select {
			case ref = <-s.buffers.free:
			default:
				s.pieces[number].And(^bit) // all are out: incomplete datagrams hold them
				return nil
			}
			if err := s.buffers.ledger.Out(ref); err != nil {
				return err
			}
		}
		parser.Parse(reasmPacket(number, piece), 0, &f)
		f.Ref = uint64(ref)
		r := lane.Add(s.clock.Load(), &f)
		switch r.Verdict {
		case reasm.Held:
		case reasm.Complete:
			n, err := reasmCheck(r.Datagram)
			if err != nil {
				return err
			}
			if err := s.delivered.Out(int(n)); err != nil {
				return err
			}
			s.complete.Add(1)
			r.Datagram.Release()
		default:
			return fmt.Errorf("verdict %v", r.Verdict)
		}
	}
	return nil
}

// TestStressReasmClose.
//
//   - Actors: 4 lanes, the expirer, and one that closes the cache in the middle.
//   - Claims: Q5 and Q8 across Close: no queue and no byte is left behind, no
//     buffer lost, whatever the lanes are in the middle of.
func TestStressReasmClose(t *testing.T) {
	forEachReasm(t, nil, func(t *testing.T, s *reasmSuite) {
		Run(t, Plan{
			Scale: reasmScale / 2,
			Procs: []int{2, 4},
			Actors: []Actor{
				{Name: "lane", Workers: reasmLanes, Run: s.sender},
				{Name: "step", Run: s.expirer},
				{Name: "close", Run: func(w *Worker) error {
					for n := 0; w.Next(); n++ {
						if s.complete.Load() > 200 || n > 1<<20 {
							return s.cache.Close()
						}
						s.cache.Stats()
					}
					return nil
				}},
			},
			Min:   reasmMin,
			Check: s.end,
		})
	})
}

// TestLitmusReasmLastPieces: the last two pieces of a datagram on two lanes, and
// its deadline: it is delivered once, or expires once.
func TestLitmusReasmLastPieces(t *testing.T) {
	cfg := reasm.DefaultConfig()
	cfg.Lanes, cfg.Timeout4 = 3, time.Second
	var expired atomic.Int32
	cfg.OnExpire = func(*reasm.Expired) { expired.Add(1) }
	cache, err := reasm.New("hard-limit", cfg)
	if err != nil {
		t.Fatal(err)
	}
	number, now := uint32(0), int64(0)
	RunLitmus(t, Litmus{
		New: func() ([]func(), func() string) {
			number += 2
			now += int64(time.Hour)
			for cache.Step(now, 100) {
			}
			expired.Store(0)
			var done atomic.Int32
			start := now
			send := func(lane, piece int) {
				var f reasm.Fragment
				reasm.Parser{}.Parse(reasmPacket(number, piece), 0, &f)
				if r := cache.Lane(lane).Add(start, &f); r.Verdict == reasm.Complete {
					done.Add(1)
					r.Datagram.Release()
				}
			}
			send(0, 0)
			send(0, 1)
			return []func(){
					func() { send(1, 2) },
					func() { send(2, 3) },
					func() { cache.Step(start+int64(time.Second), 100) },
				}, func() string {
					return fmt.Sprintf("delivered=%d expired=%d", done.Load(), expired.Load())
				}
		},
		Table: map[string]Outcome{
			"delivered=1 expired=0": {Acceptable, "both pieces came before the deadline"},
			"delivered=0 expired=1": {Interesting, "the deadline came before one of them"},
			"delivered=0 expired=2": {Interesting, "the deadline came twice: what came behind the first made a queue of its own, and was due at once"},
		},
	})
	if err := cache.Close(); err != nil {
		t.Fatal(err)
	}
}
