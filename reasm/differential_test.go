package reasm

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"corelane/internal/vectors"
)

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
		fs, rs := make([]Fragment, n), slices.Repeat([]Result{{Verdict: Closed, Losses: Losses{true, 9}}}, n)
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
	require.Equal(t, want.problem != nil, got.Problem.Due, what...)
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
