package reasm

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"corelane/internal/vectors"
)

// frag describes one packet for a test; see packet for what each field does.
// Fill 0 is the default here, so pieces of one datagram agree about its bytes.
type frag vectors.Step

// packet builds the packet; i is the fill if the step names none.
func (s frag) packet(family, i int) []byte {
	if family == loWPAN {
		return linkPacket(s)
	}
	return (*vectors.Step)(&s).Packet(family, i)
}

// piece is the usual fragment: payload bytes [off, off+n) of datagram id.
func piece(id uint32, off, n int, more bool) frag { return frag{ID: id, Off: off, Len: n, MF: more} }

// of gives a fragment another source of payload bytes.
func (s frag) of(fill int) frag {
	s.Fill = &fill
	return s
}

// way is one of the ways to use a cache that must not differ in what they say.
type way struct {
	design string
	mode   Mode
	batch  bool
	family int
}

func (w way) String() string {
	return fmt.Sprintf("design=%s/mode=%s/call=%s/family=%d", w.design, modeName(w.mode), callName(w.batch), w.family)
}

func modeName(m Mode) string { return [...]string{"copy", "borrow"}[m] }

func callName(batch bool) string {
	if batch {
		return "AddBatch"
	}
	return "Add"
}

// ways lists all of them.
func ways() (ws []way) {
	for _, d := range Designs() {
		for _, mode := range []Mode{Copy, Borrow} {
			for _, batch := range []bool{false, true} {
				for _, family := range []int{4, 6} {
					ws = append(ws, way{d.Name, mode, batch, family})
				}
			}
		}
	}
	return ws
}

// forEachWay runs test on a fresh cache for every design, mode, call and family.
// adapt may change the configuration, which is DefaultConfig otherwise.
func forEachWay(t *testing.T, adapt func(*Config), test func(*testing.T, *rig)) {
	t.Helper()
	for _, w := range ways() {
		t.Run(w.String(), func(t *testing.T) { test(t, newRig(t, w, adapt)) })
	}
}

// rig is a cache under test, and the books about it: every packet, every verdict
// and, in Borrow, every buffer. Its cleanup closes the cache and demands that
// the books balance: no bytes, no queues, each kept buffer back exactly once.
type rig struct {
	way
	t      *testing.T
	cache  Cache
	lane   Lane
	parser Parser
	now    int64

	sent    uint64             // packets given to the lane
	kept    map[uint64][]byte  // by ref: buffers that the cache has
	back    map[uint64]bool    // refs that came back
	out     map[*Datagram]bool // delivered, not released
	expired []Key
	onFree  func([]Buffer) // what else Config.Free does
}

func newRig(t *testing.T, w way, adapt func(*Config)) *rig {
	t.Helper()
	r := &rig{
		way: w, t: t, now: int64(time.Hour),
		kept: map[uint64][]byte{}, back: map[uint64]bool{}, out: map[*Datagram]bool{},
	}
	cfg := DefaultConfig()
	cfg.OnExpire = func(e *Expired) { r.expired = append(r.expired, e.Key) }
	if adapt != nil {
		adapt(&cfg)
	}
	if w.design == "percpu-lru" && cfg.Limits.High < math.MaxInt64/2 { // its limits are per lane, and half of these
		cfg.Limits.High, cfg.Limits.Low = 2*cfg.Limits.High, 2*cfg.Limits.Low
	}
	cfg.Mode = w.mode
	cfg.Free = r.free
	cache, err := New(w.design, cfg)
	require.NoError(t, err)
	r.cache, r.lane = cache, cache.Lane(0)
	t.Cleanup(r.close)
	return r
}

// close is the end of every test: whatever it did, the books must balance.
func (r *rig) close() {
	if r.t.Failed() {
		return
	}
	require.NoError(r.t, r.cache.Close())
	for d := range r.out {
		r.release(d)
	}
	s := r.cache.Stats()
	require.Zero(r.t, s.Bytes, "bytes charged at the end")
	require.Zero(r.t, s.Queues, "queues at the end")
	require.Empty(r.t, r.kept, "buffers that never came back")
	var verdicts uint64
	for _, n := range s.Verdicts {
		verdicts += n
	}
	require.Equal(r.t, r.sent, verdicts, "packets and verdicts (Q1)")
}

// free is Config.Free. It overwrites what comes back, as its owner may, so that
// a datagram that is read too late is a wrong one.
func (r *rig) free(bs []Buffer) {
	for _, b := range bs {
		packet, ok := r.kept[b.Ref]
		require.True(r.t, ok, "buffer %d came back twice, or was not kept", b.Ref)
		require.True(r.t, len(packet) >= len(b.Packet) && &packet[0] == &b.Packet[0], "buffer %d is another one", b.Ref)
		delete(r.kept, b.Ref)
		r.back[b.Ref] = true
		scribble(packet)
	}
	if r.onFree != nil {
		r.onFree(bs)
	}
}

func scribble(b []byte) {
	for i := range b {
		b[i] = 0xdb
	}
}

// send parses and adds packets in one go: a single AddBatch, or Add for each.
func (r *rig) send(frags ...frag) []Result {
	r.t.Helper()
	packets := make([][]byte, len(frags))
	for i := range frags {
		f := frags[i]
		if f.Fill == nil {
			f = f.of(0)
		}
		packets[i] = f.packet(r.family, 0)
	}
	return r.sendPackets(packets...)
}

func (r *rig) sendPackets(packets ...[]byte) []Result {
	r.t.Helper()
	fs := make([]Fragment, len(packets))
	rs := make([]Result, len(packets))
	for i, b := range packets {
		if r.family == loWPAN {
			r.parser.LoWPAN(b, linkA, linkB, 0, &fs[i])
		} else {
			r.parser.Parse(b, 0, &fs[i])
		}
		fs[i].Ref = r.sent
		r.sent++
		r.kept[fs[i].Ref] = b // until we know better: it may come back within the call
	}
	if r.batch {
		require.Equal(r.t, len(fs), r.lane.AddBatch(r.now, fs, rs))
	} else {
		for i := range fs {
			rs[i] = r.lane.Add(r.now, &fs[i])
		}
	}
	for i := range rs {
		ref := fs[i].Ref
		if r.mode == Borrow && rs[i].Verdict.Kept() {
			continue
		}
		require.False(r.t, r.back[ref], "packet %d was %v, yet it came back", ref, rs[i].Verdict)
		delete(r.kept, ref)
		scribble(packets[i]) // Q7: nobody may look at it any more
	}
	for i := range rs {
		require.Equal(r.t, rs[i].Verdict == Complete, rs[i].Datagram != nil)
		if d := rs[i].Datagram; d != nil {
			r.out[d] = true
		}
	}
	return rs
}

// verdicts sends fragments and demands these verdicts.
func (r *rig) verdicts(want []Verdict, frags ...frag) []Result {
	r.t.Helper()
	rs := r.send(frags...)
	require.Equal(r.t, fmt.Sprint(want), fmt.Sprint(verdictsOf(rs)))
	return rs
}

func verdictsOf(rs []Result) []Verdict {
	vs := make([]Verdict, len(rs))
	for i := range rs {
		vs[i] = rs[i].Verdict
	}
	return vs
}

// one sends a fragment and demands a verdict.
func (r *rig) one(want Verdict, f frag) Result {
	r.t.Helper()
	return r.verdicts([]Verdict{want}, f)[0]
}

// payload checks that d carries these bytes, in every form, and releases it. The
// bytes are given as runs of [fill, start, end), as in the vectors.
func (r *rig) payload(d *Datagram, runs ...[3]int) {
	r.t.Helper()
	var want []byte
	for _, run := range runs {
		for p := run[1]; p < run[2]; p++ {
			want = append(want, vectors.PatternByte(run[0], p))
		}
	}
	require.NotNil(r.t, d)
	all := d.Bytes()
	require.Len(r.t, all, d.Len())
	require.Equal(r.t, d.Header(), all[:len(all)-len(want)])
	require.Equal(r.t, want, all[len(all)-len(want):])
	require.Equal(r.t, all, d.AppendTo(nil))
	require.Equal(r.t, all, d.Prepend(14)[14:])
	r.release(d)
}

func (r *rig) release(d *Datagram) {
	delete(r.out, d)
	d.Release()
}

// step lets time pass and runs the background work.
func (r *rig) step(d time.Duration) {
	r.now += int64(d)
	for r.cache.Step(r.now, 100) {
	}
}

// held demands that so many queues are held.
func (r *rig) held(queues int) Stats {
	r.t.Helper()
	s := r.cache.Stats()
	require.Equal(r.t, queues, s.Queues)
	n := 0
	var charged int64
	for q := range r.cache.Walk() {
		n++
		charged += q.Charged
	}
	require.Equal(r.t, queues, n, "queues that Walk finds")
	if len(r.out) == 0 {
		require.Equal(r.t, s.Bytes, charged, "Q8: Bytes is the sum of the charges")
	}
	return s
}

func (r *rig) linux() LinuxStats {
	s := r.cache.Stats()
	return s.Linux()
}
