package reasm

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"corelane/internal/vectors"
)

// reference is a slow reassembler that is obviously right: maps, lists of runs
// in order of arrival, bytes in a slice, packets built from scratch. It has no
// limit, no lock, no pool, and shares no code with the real one but the list of
// runs that the tests of holes use.
type reference struct {
	cfg    Config
	now    int64
	queues map[refKey]*refQueue
	seen   map[string]uint32 // fragments by source, for MaxDist
}

type refKey struct {
	family   int
	src, dst string
	id       uint32
	proto    byte // IPv4 only
}

type refQueue struct {
	created, last, deadline int64
	runs                    slowHoles
	bytes                   []byte // as far as any fragment reached
	held, fragments, end    int
	max, maxDF              int
	ecn                     [4]bool
	first                   *frag // at offset 0
	firstLen                int
	mark                    uint32 // seen[source] at its latest fragment
}

// refResult is what must come out of one fragment.
type refResult struct {
	verdict   Verdict
	restarted bool
	problem   *Problem
	packet    []byte // the datagram's, nil if there is none
	max       int
	fragments int
	created   int64
}

// refExpired is a queue that ran out of time.
type refExpired struct {
	key   refKey
	first []byte
	bytes int
}

func newReference(cfg Config) *reference {
	return &reference{cfg: cfg, now: math.MinInt64, queues: map[refKey]*refQueue{}, seen: map[string]uint32{}}
}

func keyOf(family int, f *frag) refKey {
	k := refKey{family: family, src: f.Src, dst: f.Dst, id: f.ID}
	if family == 4 {
		k.proto = byte(f.Proto)
	}
	return k
}

// add judges one well-formed packet.
func (r *reference) add(family int, f *frag) (res refResult, expired []refExpired) {
	packet := f.packet(family, 0)
	n := f.Len
	hdr := len(packet) - n
	if family == 4 {
		if f.Off == 0 && !f.MF {
			return refResult{verdict: Whole}, nil
		}
		if f.MF {
			n -= n % 8
		}
	} else if v, p := judge6(f, hdr-8); v != Held {
		res = refResult{verdict: v, problem: p}
		if !r.cfg.Quirks.EmptyQueue6 || v != BadLength && v != OffsetTooLarge {
			return res, nil
		}
		_, _, expired = r.find(family, f)
		return res, expired
	}
	if n == 0 && !r.has(family, f) {
		_, expired = r.stale(family, f)
		res.restarted = len(expired) > 0 || r.droppedOld(family, f)
		r.seen[f.Src]++
		res.verdict = ZeroLength
		return res, expired
	}
	q, restarted, expired := r.find(family, f)
	res.restarted = restarted
	if family == 4 {
		r.seen[f.Src]++
		distance := r.seen[f.Src] - q.mark
		q.mark = r.seen[f.Src]
		if r.cfg.MaxDist > 0 && distance > uint32(r.cfg.MaxDist) && q.fragments > 0 {
			fresh := r.fresh(family)
			fresh.mark = q.mark
			if r.cfg.Quirks.SizesSurviveRestart {
				fresh.max, fresh.maxDF = q.max, q.maxDF
			}
			*q = *fresh
			res.restarted = true
		}
	}
	res.verdict = q.insert(r, family, f, packet[hdr:hdr+n], hdr)
	switch res.verdict {
	case Overlap, BadEnd, ZeroLength, TooLong, BadECN:
		delete(r.queues, keyOf(family, f))
	case Complete:
		res.packet, res.max, res.fragments, res.created = q.build(family), q.max, q.fragments, q.created
		delete(r.queues, keyOf(family, f))
	}
	return res, expired
}

// judge6 is what IPv6 refuses without looking at the datagram; ext is where its
// Fragment header stands.
func judge6(f *frag, ext int) (Verdict, *Problem) {
	switch {
	case f.Off == 0 && !f.MF:
		return Atomic, nil
	case f.Off == 0 && f.Len == 0:
		return ShortChain, &Problem{Code: 3}
	case f.Off+f.Len > 65535:
		return OffsetTooLarge, &Problem{Pointer: uint32(ext + 2)}
	case f.MF && (f.Off+f.Len)%8 != 0:
		return BadLength, &Problem{Pointer: 4}
	}
	return Held, nil
}

// has reports whether a queue can be joined.
func (r *reference) has(family int, f *frag) bool {
	q := r.queues[keyOf(family, f)]
	return q != nil && !r.tooLate(q) && !r.tooOld(q)
}

func (r *reference) tooLate(q *refQueue) bool { return r.now > q.created && r.now >= q.deadline }
func (r *reference) tooOld(q *refQueue) bool {
	return r.cfg.MaxAge > 0 && r.now-q.created > int64(r.cfg.MaxAge)
}

// stale drops the queue of f if its time is over.
func (r *reference) stale(family int, f *frag) (dropped bool, expired []refExpired) {
	k := keyOf(family, f)
	if q := r.queues[k]; q != nil && r.tooLate(q) {
		delete(r.queues, k)
		return true, []refExpired{q.expire(k)}
	}
	return false, nil
}

// droppedOld drops the queue of f if it is too old to be joined.
func (r *reference) droppedOld(family int, f *frag) bool {
	k := keyOf(family, f)
	if q := r.queues[k]; q != nil && r.tooOld(q) {
		delete(r.queues, k)
		return true
	}
	return false
}

// find returns the queue of f, a new one if need be.
func (r *reference) find(family int, f *frag) (q *refQueue, restarted bool, expired []refExpired) {
	restarted, expired = r.stale(family, f)
	restarted = r.droppedOld(family, f) || restarted
	k := keyOf(family, f)
	if q = r.queues[k]; q == nil {
		q = r.fresh(family)
		q.mark = r.seen[f.Src]
		r.queues[k] = q
	}
	return q, restarted, expired
}

func (r *reference) fresh(family int) *refQueue {
	timeout := int64(r.cfg.Timeout4)
	if family == 6 {
		timeout = int64(r.cfg.Timeout6)
	}
	return &refQueue{created: r.now, last: r.now, deadline: r.now + timeout, end: -1}
}

func (q *refQueue) insert(r *reference, family int, f *frag, payload []byte, hdr int) Verdict {
	off, end := f.Off, f.Off+len(payload)
	top, _ := q.runs.top()
	switch {
	case f.MF && q.end >= 0 && end > q.end,
		!f.MF && q.end >= 0 && end != q.end,
		!f.MF && end < int(top):
		return BadEnd
	case off == end:
		return ZeroLength
	}
	fit := q.runs.classify(uint32(off), uint32(end))
	if !f.MF && (fit == fits || r.cfg.Quirks.EndFromDuplicate) {
		q.end = end
	}
	switch fit {
	case duplicate:
		return Duplicate
	case overlaps:
		return Overlap
	}
	q.runs.add(uint32(off), uint32(end))
	q.bytes = append(q.bytes, make([]byte, max(0, end-len(q.bytes)))...)
	copy(q.bytes[off:], payload)
	q.held += len(payload)
	q.fragments++
	q.last = r.now
	size := hdr + len(payload)
	if size > q.max {
		q.max = size
		if r.cfg.Quirks.MaxSize16 {
			q.max = size % 65536
		}
	}
	if f.DF && family == 4 {
		q.maxDF = max(q.maxDF, size)
	}
	q.ecn[f.TOS&3] = true
	if off == 0 {
		first := *f
		q.first, q.firstLen = &first, len(payload)
	}
	if q.held != q.end {
		return Held
	}
	limit := 65535
	if family == 4 {
		limit -= 20 + len(q.first.Opt)/2
	} else {
		for _, e := range q.first.Pre {
			limit -= len(e.Hex) / 2
		}
	}
	switch {
	case q.ecn[0] && (q.ecn[1] || q.ecn[2] || q.ecn[3]):
		return BadECN
	case q.end > limit:
		return TooLong
	}
	return Complete
}

// build makes the packet as its sender would have, had it not fragmented it.
func (q *refQueue) build(family int) []byte {
	f := *q.first
	f.MF, f.Off, f.Len, f.Plain = false, 0, q.end, true
	f.DF = family == 4 && q.maxDF == q.max
	if q.ecn[3] {
		f.TOS |= 3
	}
	b := f.packet(family, 0)
	copy(b[len(b)-q.end:], q.bytes)
	return b
}

func (q *refQueue) expire(k refKey) refExpired {
	e := refExpired{key: k, bytes: q.held}
	if q.first != nil {
		b := q.first.packet(k.family, 0)
		e.first = b[:len(b)-q.first.Len+q.firstLen]
	}
	return e
}

// step lets what is due expire.
func (r *reference) step() (expired []refExpired) {
	for k, q := range r.queues {
		if q.deadline <= r.now {
			delete(r.queues, k)
			expired = append(expired, q.expire(k))
		}
	}
	return expired
}

// op is one operation on a cache: a fragment, or time.
type op struct {
	family int
	frag   frag
	wait   time.Duration // time that passes before
	step   bool          // Step before
	keep   bool          // release the datagram only at the end
}

// opConfigs are the configurations that operation lists run under.
var opConfigs = []func() Config{
	LinuxConfig,
	DefaultConfig,
	func() Config {
		c := LinuxConfig()
		c.MaxDist, c.MaxAge, c.Timeout6 = 3, 2*time.Second, 3*time.Second
		return c
	},
	func() Config {
		c := DefaultConfig()
		c.Quirks, c.MaxDist, c.Timeout4 = Quirks{}, 2, 0
		return c
	},
}

// playOps runs ops on a cache and on the reference, and compares all there is
// to see.
func playOps(t require.TestingT, w way, cfg Config, ops []op) {
	ref := newReference(cfg)
	var (
		gone []refExpired
		late []*Datagram // kept, and what they must still be
		want [][]byte
		lent = map[uint64]bool{}
	)
	cfg.Mode = w.mode
	cfg.Limits = Limits{High: 1 << 40, Low: 1 << 40}
	cfg.OnExpire = func(e *Expired) {
		gone = append(gone, refExpired{keyOfReal(&e.Key), slices.Clone(e.First), e.Bytes})
	}
	cfg.Free = func(bs []Buffer) {
		for _, b := range bs {
			require.True(t, lent[b.Ref], "buffer %d came back, but is not out", b.Ref)
			delete(lent, b.Ref)
			scribble(b.Packet)
		}
	}
	cache, err := New(w.design, cfg)
	require.NoError(t, err)
	lane := cache.Lane(0)
	now := int64(time.Hour)
	for i := 0; i < len(ops); {
		var expired []refExpired
		gone = nil
		now += int64(ops[i].wait)
		ref.now = now
		if ops[i].step {
			for cache.Step(now, 3) {
			}
			expired = ref.step()
		}
		n := 1 // AddBatch takes all fragments of one instant
		for w.batch && i+n < len(ops) && ops[i+n].wait == 0 && !ops[i+n].step && n < 9 {
			n++
		}
		fs, rs := make([]Fragment, n), make([]Result, n)
		for k := range n {
			o := &ops[i+k]
			Parser{VerifyChecksum: true}.Parse(o.frag.packet(o.family, 0), 0, &fs[k])
			fs[k].Ref = uint64(i + k)
			lent[fs[k].Ref] = w.mode == Borrow
		}
		if w.batch {
			require.Equal(t, n, lane.AddBatch(now, fs, rs))
		} else {
			rs[0] = lane.Add(now, &fs[0])
		}
		for k := range n {
			o := &ops[i+k]
			if w.mode == Copy || !rs[k].Verdict.Kept() {
				delete(lent, fs[k].Ref)
				scribble(fs[k].Packet)
			}
			res, more := ref.add(o.family, &o.frag)
			expired = append(expired, more...)
			compareResult(t, &res, &rs[k], "op %d: %+v", i+k, &o.frag)
			d := rs[k].Datagram
			if d == nil {
				continue
			}
			require.Equal(t, now, d.Completed())
			if o.keep {
				late, want = append(late, d), append(want, res.packet)
			} else {
				d.Release()
			}
		}
		if len(expired)+len(gone) > 0 {
			require.ElementsMatch(t, expired, gone, "what expired before op %d", i+n)
		}
		if i += n; i%5 == 0 || i == len(ops) { // it walks the whole table
			compareHeld(t, ref, cache)
		}
	}
	require.NoError(t, cache.Close())
	for i, d := range late {
		require.Equal(t, want[i], d.AppendTo(nil))
		d.Release()
	}
	require.Empty(t, lent)
	require.Zero(t, cache.Stats().Bytes)
}

// compareResult compares what came out of one fragment.
func compareResult(t require.TestingT, want *refResult, got *Result, what ...any) {
	require.Equal(t, want.verdict.String(), got.Verdict.String(), what...)
	require.Equal(t, want.restarted, got.Restarted, what...)
	require.Equal(t, want.problem != nil, got.HasProblem, what...)
	if want.problem != nil {
		require.Equal(t, *want.problem, got.Problem, what...)
	}
	d := got.Datagram
	require.Equal(t, want.packet != nil, d != nil, what...)
	if d != nil {
		require.Equal(t, want.packet, d.Bytes(), what...)
		require.Equal(t, want.max, d.MaxFragment(), what...)
		require.Equal(t, want.fragments, d.Fragments(), what...)
		require.Equal(t, want.created, d.Created(), what...)
	}
}

func keyOfReal(k *Key) refKey {
	r := refKey{family: int(k.Family()), src: k.Src().String(), dst: k.Dst().String(), id: k.ID()}
	if r.family == 4 {
		r.proto = k.Proto()
	}
	return r
}

// compareHeld compares the tables.
func compareHeld(t require.TestingT, ref *reference, cache Cache) {
	require.Equal(t, len(ref.queues), cache.Stats().Queues)
	seen := 0
	for info := range cache.Walk() {
		seen++
		q := ref.queues[keyOfReal(&info.Key)]
		require.NotNil(t, q, "%v is held", &info.Key)
		gaps, at := 0, uint32(0)
		runs := slices.Clone(q.runs.runs)
		slices.SortFunc(runs, func(a, b run) int { return int(a.off) - int(b.off) })
		for _, r := range runs {
			if r.off > at {
				gaps++
			}
			at = r.end
		}
		require.Equal(t, QueueInfo{
			Key: info.Key, Created: q.created, Last: q.last, Bytes: q.held, Charged: info.Charged,
			Fragments: q.fragments, Holes: gaps, End: q.end,
		}, info)
	}
	require.Equal(t, len(ref.queues), seen)
}

// opBytes is how many bytes decodeOps takes for each operation, behind a header
// of as many.
const opBytes = 4

// decodeOps turns bytes into a list of operations that meet each other: the
// header says how large a datagram is and how many there are, each operation
// sends a piece of one, usually one that fits, and sometimes lets time pass.
func decodeOps(b []byte) (ops []op) {
	if len(b) < opBytes {
		return nil
	}
	head := b[:opBytes]
	units := 1 + int(head[0]&7)
	scale := 8
	if head[0]>>3 == 0 {
		scale = []int{8 * 1000, 8 * 1023, 8 * 4100, 8 * 2047}[head[1]&3]
	}
	odd := int(head[1] >> 2 & 7) // bytes of the last unit that are missing
	keys := 1 + int(head[1]>>5&3)
	ecns := [][]int{{0}, {2, 2, 1, 3}, {0, 0, 0, 0, 0, 0, 3}, {0}}[head[2]&3]
	pauses := head[2]>>2&3 == 0 // long ones

	for b = b[opBytes:]; len(b) >= opBytes; b = b[opBytes:] {
		var (
			key, place, how, misc = int(b[0]), int(b[1]), int(b[2]), int(b[3])
			o                     = op{family: 4 + 2*(key&1)}
			f                     = &o.frag
		)
		f.Src, f.Dst = "10.9.1.1", "10.9.0.1"
		if o.family == 6 {
			f.Src, f.Dst = "fd09::1:1", "fd09::1"
		}
		if key>>5 == 7 {
			f.Src = map[int]string{4: "10.9.1.2", 6: "fd09::1:2"}[o.family]
		}
		f.ID, f.Proto = uint32(key>>1&3%keys), 253+key>>4&1*(key>>3&1)
		if o.family == 6 {
			f.Proto = 253
		}
		f.Off = place & 15 % (units + 1) * scale
		f.Len = (1 + place>>4&3) * scale
		end := units*scale - odd
		f.MF = true
		switch how & 15 {
		case 0: // anything goes
			f.MF = how>>4&1 == 1
			f.Len += how >> 5
		case 1:
			f.Len = 0
			f.MF = how>>4&1 == 1
		default:
			if f.Off+f.Len >= end {
				f.MF = false
				f.Len = max(end-f.Off, 1)
			}
		}
		f.Off = min(f.Off, 8191*8)
		f.Len = min(f.Len, 65400)
		f.TOS = ecns[misc&15%len(ecns)] | how>>4&1<<4
		f.DF = o.family == 4 && how>>5&1 == 1
		f.TTL = 1 + len(ops)%250
		if how>>6 == 3 {
			if o.family == 4 {
				f.Opt = "01010101"
			} else {
				f.Pre = []vectors.Ext{{NH: 60, Hex: "00001e0411223344"}}
			}
		}
		fill := len(ops)
		f.Fill = &fill
		switch t := time.Duration(misc>>1&0x78 | how>>4); misc >> 4 {
		case 13:
			o.wait = t * time.Millisecond
		case 14:
			o.step, o.keep = true, how>>4&1 == 1
		case 15:
			if pauses {
				t *= 1000
			}
			o.wait, o.step = t*10*time.Millisecond, how>>4&1 == 1
		}
		ops = append(ops, o)
	}
	return ops
}

// waysOnce is every design, mode and call; the families are in the operations.
func waysOnce() (ws []way) {
	for _, w := range ways() {
		if w.family == 4 {
			ws = append(ws, w)
		}
	}
	return ws
}

// Every design, mode and call does what the reference does, in plenty of memory.
func TestDesignsMatchTheReference(t *testing.T) {
	for _, d := range Designs() {
		t.Run("design="+d.Name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				config := rapid.SampledFrom(opConfigs).Draw(t, "config")
				n := rapid.IntRange(1, 80).Draw(t, "n") * opBytes
				ops := decodeOps(rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "ops"))
				for _, w := range waysOnce() {
					if w.design == d.Name {
						playOps(t, w, config(), ops)
					}
				}
			})
		})
	}
}

// The generator of operations must reach everything, or the comparison proves
// little.
func TestOperationListsReachEveryVerdict(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	seen := map[string]int{}
	for i := range 3000 {
		b := make([]byte, 80*opBytes)
		for k := range b {
			b[k] = byte(rng.Uint32())
		}
		ref := newReference(opConfigs[i%len(opConfigs)]())
		for _, o := range decodeOps(b) {
			ref.now = max(ref.now, 0) + int64(o.wait)
			if o.step {
				seen["expired by Step"] += len(ref.step())
			}
			res, expired := ref.add(o.family, &o.frag)
			seen[res.verdict.String()]++
			seen["expired by Add"] += len(expired)
			if res.restarted {
				seen["restarted"]++
			}
			if res.fragments > 2 {
				seen["three fragments"]++
			}
		}
	}
	t.Log(seen)
	for v := range numVerdicts {
		if v != Refused && v != Closed && !v.Malformed() && v != NoRoom && v != Unsupported {
			require.Greater(t, seen[v.String()], 3, v.String())
		}
	}
	for _, s := range []string{"expired by Step", "expired by Add", "restarted", "three fragments"} {
		require.Greater(t, seen[s], 10, s)
	}
}
