package reasm

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// linkModel is a slow reassembler of 6LoWPAN that is obviously right: it reads
// frames with slowLoWPAN, keeps lists of pieces, and has no limit.
type linkModel struct {
	cfg    Config
	now    int64
	queues map[linkModelKey]*linkModelQueue
}

type linkModelKey struct {
	src, dst LinkAddr
	size     int
	tag      uint16
}

type linkModelQueue struct {
	created, last int64
	pieces        []slowLink
}

type linkModelResult struct {
	verdict   Verdict
	restarted bool
	packet    []byte
	fragments int
}

// expire ends what is out of time and returns the beginnings of the datagrams.
func (m *linkModel) expire() (first [][]byte) {
	for k, q := range m.queues {
		if m.now >= q.created+int64(m.cfg.TimeoutLoWPAN) {
			delete(m.queues, k)
			first = append(first, q.first())
		}
	}
	return first
}

func (q *linkModelQueue) first() []byte {
	for _, p := range q.pieces {
		if p.off == 0 {
			return slices.Concat(p.head, p.payload)
		}
	}
	return nil
}

func (m *linkModel) add(p slowLink) (r linkModelResult, expired [][]byte) {
	if r.verdict = p.verdict; r.verdict != Held {
		return r, nil
	}
	k := linkModelKey{p.src, p.dst, p.size, p.tag}
	q := m.queues[k]
	if q != nil && m.now > q.created {
		late := m.now >= q.created+int64(m.cfg.TimeoutLoWPAN)
		if late {
			expired = append(expired, q.first())
		}
		if late || m.cfg.MaxAge > 0 && m.now > q.created+int64(m.cfg.MaxAge) {
			q, r.restarted = nil, true
		}
	}
	if q == nil {
		q = &linkModelQueue{created: m.now}
		m.queues[k] = q
	}
	conflict := false
	for _, o := range q.pieces {
		switch {
		case o.off == p.off && o.end == p.end:
			r.verdict = Duplicate
			return r, expired
		case o.off < p.end && p.off < o.end:
			conflict = true
		}
	}
	if conflict {
		q.pieces, q.created, r.restarted = nil, m.now, true
	}
	q.pieces, q.last = append(q.pieces, p), m.now
	if q.bytes() == p.size {
		delete(m.queues, k)
		r.verdict, r.packet, r.fragments = Complete, q.build(p.size), len(q.pieces)
	}
	return r, expired
}

func (q *linkModelQueue) bytes() (n int) {
	for _, p := range q.pieces {
		n += p.end - p.off
	}
	return n
}

func (q *linkModelQueue) build(size int) []byte {
	b := make([]byte, size)
	unsummed := false
	for _, p := range q.pieces {
		copy(b[p.off:], slices.Concat(p.head, p.payload))
		unsummed = unsummed || p.unsummed
	}
	if unsummed {
		binary.BigEndian.PutUint16(b[46:], slowUDPSum(b))
	}
	return b
}

// linkOp is one operation: a frame, after some time.
type linkOp struct {
	frame    []byte
	src, dst LinkAddr
	wait     time.Duration
	step     bool
}

// playLinks runs ops on a cache and on the model, and compares all there is to
// see.
func playLinks(t require.TestingT, w way, cfg Config, ops []linkOp) (reached map[string]int) {
	reached = map[string]int{}
	m := &linkModel{cfg: cfg, now: int64(time.Hour), queues: map[linkModelKey]*linkModelQueue{}}
	var gone [][]byte
	lent := map[uint64][]byte{}
	cfg.Mode = w.mode
	cfg.Limits = Limits{High: 1 << 40, Low: 1 << 40}
	cfg.OnExpire = func(e *Expired) { gone = append(gone, slices.Clone(e.First)) }
	cfg.Free = func(bs []Buffer) {
		for _, b := range bs {
			require.Contains(t, lent, b.Ref)
			delete(lent, b.Ref)
			scribble(b.Packet)
		}
	}
	cache, err := New(w.design, cfg)
	require.NoError(t, err)
	lane := cache.Lane(0)
	for i := 0; i < len(ops); {
		var expired [][]byte
		gone = nil
		m.now += int64(ops[i].wait)
		if ops[i].step {
			for cache.Step(m.now, 3) {
			}
			expired = m.expire()
		}
		n := 1 // AddBatch takes all frames of one instant
		for w.batch && i+n < len(ops) && ops[i+n].wait == 0 && !ops[i+n].step && n < 9 {
			n++
		}
		fs, rs := make([]Fragment, n), make([]Result, n)
		for k, o := range ops[i : i+n] {
			Parser{}.LoWPAN(slices.Clone(o.frame), o.src, o.dst, 7, &fs[k])
			fs[k].Ref = uint64(i + k)
			lent[fs[k].Ref] = fs[k].Packet
		}
		if w.batch {
			require.Equal(t, n, lane.AddBatch(m.now, fs, rs))
		} else {
			rs[0] = lane.Add(m.now, &fs[0])
		}
		for k, o := range ops[i : i+n] {
			if w.mode == Copy || !rs[k].Verdict.Kept() {
				delete(lent, fs[k].Ref)
				scribble(fs[k].Packet)
			}
			want, more := m.add(slowLoWPAN(o.frame, o.src, o.dst))
			expired = append(expired, more...)
			reached[want.verdict.String()]++
			if want.restarted {
				reached["restarted"]++
			}
			if want.verdict != rs[k].Verdict || want.restarted != rs[k].Restarted {
				require.Fail(t, "differs", "op %d: %x: %v %v, want %v %v", i+k, o.frame,
					rs[k].Verdict, rs[k].Restarted, want.verdict, want.restarted)
			}
			if d := rs[k].Datagram; d != nil {
				if want.fragments > 2 {
					reached["three fragments"]++
				}
				require.Equal(t, want.packet, d.Bytes())
				require.Equal(t, want.packet, d.AppendTo(nil))
				require.Equal(t, want.fragments, d.Fragments())
				d.Release()
			}
		}
		slices.SortFunc(expired, bytes.Compare)
		slices.SortFunc(gone, bytes.Compare)
		require.Equal(t, expired, gone, "what expired before op %d", i+n)
		reached["expired"] += len(gone)
		i += n
	}
	compareLinks(t, m, cache)
	require.NoError(t, cache.Close())
	require.Empty(t, lent)
	require.Zero(t, cache.Stats().Bytes)
	return reached
}

// compareLinks compares the tables.
func compareLinks(t require.TestingT, m *linkModel, cache Cache) {
	require.Equal(t, len(m.queues), cache.Stats().Queues)
	for info := range cache.Walk() {
		k := linkModelKey{info.Key.LinkSrc(), info.Key.LinkDst(), int(info.Key.linkSize()), uint16(info.Key.ID())}
		q := m.queues[k]
		require.NotNil(t, q, "%v is held", &info.Key)
		pieces := slices.Clone(q.pieces)
		slices.SortFunc(pieces, func(a, b slowLink) int { return a.off - b.off })
		gaps, at := 0, 0
		for _, p := range pieces {
			if p.off > at {
				gaps++
			}
			at = p.end
		}
		require.Equal(t, QueueInfo{
			Key: info.Key, Created: q.created, Last: q.last, Bytes: q.bytes(), Charged: info.Charged,
			Fragments: len(pieces), Holes: gaps, End: k.size,
		}, info)
	}
}

// linkOps makes operations that meet each other: pieces of a few datagrams,
// usually along a grid so that they fit, sometimes beside it.
func linkOps(choose chooser, n int) (ops []linkOp) {
	type source struct {
		d        linkDatagram
		src, dst LinkAddr
		grid     int
	}
	var ds []source
	for i := range 1 + choose(4) {
		s := source{src: linkA, dst: linkB, grid: 8 * (1 + choose(4))}
		if choose(4) == 0 {
			s.src, s.dst = s.dst, LinkAddr{}
		}
		size := 48 + s.grid*choose(8) + choose(9)
		if choose(20) == 0 {
			size, s.grid = 2047, 8*16
		}
		s.d = linkDatagram{linkUDP(size, s.src, s.dst, choose), uint16(i / 2)}
		ds = append(ds, s)
	}
	for range n {
		s := &ds[choose(len(ds))]
		o := linkOp{src: s.src, dst: s.dst}
		size := len(s.d.packet)
		first := 48 + s.grid // where the second fragment starts
		off, end := 0, min(first, size)
		if pieces := (size - end + s.grid - 1) / s.grid; pieces > 0 && choose(pieces+1) > 0 {
			off = first + s.grid*choose(pieces)
			end = min(off+s.grid, size)
		}
		switch choose(12) {
		case 0: // another border, or nonsense
			off = max(0, off-8*choose(4))
			end = min(max(end-8*choose(4), off), size)
		case 1:
			end = min(end+choose(2*s.grid), size)
		}
		switch {
		case off > 0:
			o.frame = s.d.next(off, end)
		case choose(3) == 0:
			o.frame = s.d.first(s.d.plain(), 0, end)
		default:
			head, lead, _ := compress(s.d.packet, s.src, s.dst, choose)
			o.frame = s.d.first(head, lead, max(end, lead))
		}
		switch choose(40) {
		case 0:
			o.wait = time.Duration(choose(4000)) * time.Millisecond
		case 1:
			o.wait, o.step = time.Duration(choose(9000))*time.Millisecond, true
		case 2:
			o.frame[choose(len(o.frame))] ^= 1 << choose(8)
		case 3:
			o.frame = o.frame[:choose(len(o.frame)+1)]
		}
		ops = append(ops, o)
	}
	return ops
}

// linkConfigs are the configurations that operations run under.
var linkConfigs = []func() Config{
	DefaultConfig,
	LinuxConfig,
	func() Config {
		c := LinuxConfig()
		c.TimeoutLoWPAN, c.MaxAge = 3*time.Second, 2*time.Second
		return c
	},
}

// Every design, mode and call does what the model does, in plenty of memory.
func TestLoWPANMatchesTheReference(t *testing.T) {
	for _, d := range Designs() {
		t.Run("design="+d.Name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				config := rapid.SampledFrom(linkConfigs).Draw(t, "config")
				seed := rapid.Uint64().Draw(t, "seed")
				ops := linkOps(rand.New(rand.NewPCG(seed, 1)).IntN, rapid.IntRange(1, 60).Draw(t, "n"))
				for _, w := range waysOnce() {
					if w.design == d.Name {
						playLinks(t, w, config(), ops)
					}
				}
			})
		})
	}
}

// The generator of operations must reach everything, or the comparison proves
// little.
func TestLoWPANOperationsReachEveryVerdict(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	reached := map[string]int{}
	for i := range fewerUnderRace(300) {
		w := way{design: Default, mode: Mode(i % 2), batch: i%4 > 1}
		for s, n := range playLinks(t, w, linkConfigs[i%3](), linkOps(rng.IntN, 200)) {
			reached[s] += n
		}
	}
	t.Log(reached)
	for _, v := range []Verdict{
		Held, Complete, Whole, Duplicate, BadLength, OffsetTooLarge, ShortChain, Unsupported, Truncated, BadHeader,
	} {
		require.Positive(t, reached[v.String()], v.String())
	}
	for _, s := range []string{"restarted", "expired", "three fragments"} {
		require.Greater(t, reached[s], 20, s)
	}
}

// FuzzLoWPAN reads frames out of its input, each behind a byte that tells its
// length and another one that tells its addresses and the time, and compares
// parser and cache with the slow ones.
func FuzzLoWPAN(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range byte(12) {
		var b []byte
		for _, o := range linkOps(rng.IntN, 4+int(i)) {
			if len(o.frame) < 256 {
				b = append(b, byte(len(o.frame)), i&^3|map[LinkAddr]byte{linkA: 0, linkB: 1}[o.src])
				b = append(b, o.frame...)
			}
		}
		f.Add(i, b)
	}
	links := []LinkAddr{linkA, linkB, {}, ExtendedAddr([8]byte{1})}
	f.Fuzz(func(t *testing.T, config byte, b []byte) {
		var ops []linkOp
		for len(b) >= 2 && len(ops) < 40 {
			n, how := min(int(b[0]), len(b)-2), b[1]
			o := linkOp{frame: b[2 : 2+n], src: links[how&3], dst: links[(how+1)&3]}
			if how>>2 > 48 {
				o.wait, o.step = time.Duration(how>>2-48)*time.Second, how>>2 > 56
			}
			b = b[2+n:]
			var frag, again Fragment
			p := Parser{}
			want := slowLoWPAN(o.frame, o.src, o.dst)
			require.Equal(t, p.LoWPAN(o.frame, o.src, o.dst, 7, &frag), frag.Verdict)
			checkLink(t, o.frame, &frag, want)
			again = Fragment{DF: true, nextHeaderAt: 9, lead: 9, problem: Problem{true, 1, 2}, ECN: 3, Offset: 7}
			p.LoWPAN(o.frame, o.src, o.dst, 7, &again)
			checkLink(t, o.frame, &again, want)
			ops = append(ops, o)
		}
		for _, w := range someWays(int(config) / len(linkConfigs)) {
			playLinks(t, w, linkConfigs[int(config)%len(linkConfigs)](), ops)
		}
	})
}
