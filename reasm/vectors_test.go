package reasm

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// unjudged are the cases that even the host model cannot judge, and why.
var unjudged = map[string]string{}

// maxUnjudged is how many there may be, over both families.
const maxUnjudged = 20

// TestVectors replays what a Linux 6.18 kernel did with fragments, step by step,
// under LinuxConfig with that kernel's charges. CORELANE_VECTORS names a
// directory of such files, absolute or from the module's root; without it a part
// of them is replayed from testdata.
func TestVectors(t *testing.T) {
	dir := "testdata"
	if env := os.Getenv("CORELANE_VECTORS"); env != "" {
		dir = fromRoot(env)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl*"))
	require.NoError(t, err)
	require.NotEmpty(t, files, "no vectors in %s", dir)
	require.LessOrEqual(t, len(unjudged), maxUnjudged)
	for _, file := range files {
		t.Run("file="+strings.TrimSuffix(strings.TrimSuffix(filepath.Base(file), ".gz"), ".jsonl"), func(t *testing.T) {
			t.Parallel()
			judgeFile(t, file)
		})
	}
}

// fromRoot resolves a path that is relative to the module's root, as the tests
// of a package run one level below it.
func fromRoot(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join("..", path)
}

func judgeFile(t *testing.T, file string) {
	cases, err := readVectors(file)
	require.NoError(t, err)
	require.NotEmpty(t, cases)
	if why := otherKind(&cases[0]); why != "" {
		t.Logf("not judged: %d cases, %s", len(cases), why)
		return
	}
	for i := range cases {
		if why, ok := unjudged[cases[i].Name]; ok {
			t.Logf("not judged: %s: %s", cases[i].Name, why)
		}
	}
	name := strings.TrimPrefix(t.Name(), "TestVectors/file=")
	for _, d := range Designs() {
		judged, elsewhere := 0, 0
		for _, mode := range []Mode{Copy, Borrow} {
			for _, batch := range []bool{false, true} {
				judged, elsewhere = judgeCases(t, cases, d.Name, mode, batch)
			}
		}
		note := ""
		if elsewhere > 0 {
			note = fmt.Sprintf("; %d are about the limit, which only hard-limit shares with the kernel", elsewhere)
		}
		t.Logf("%s: judged %d of %d with design=%s, mode=copy and borrow, call=Add and AddBatch%s",
			name, judged, len(cases), d.Name, note)
	}
}

// otherKind says why a file holds nothing for this test, by its first case.
func otherKind(c *vecCase) string {
	switch {
	case len(c.Out) == 0:
		return "computed, not recorded: overlap policies"
	case c.Family == 6 && c.Path == "nf":
		return "IPv6 conntrack is another reassembler, with other reactions"
	case len(c.Out[0].Queues) != 2:
		return "recorded from another program, or without the kernel's table"
	}
	return ""
}

func judgeCases(t *testing.T, cases []vecCase, design string, mode Mode, batch bool) (judged, elsewhere int) {
	failed := 0
	hosts := make(map[vecCfg]*vecHost)
	for i := range cases {
		c := &cases[i]
		if unjudged[c.Name] != "" {
			continue
		}
		if design != "hard-limit" && aboutLimit(c) {
			elsewhere++
			continue
		}
		judged++
		h := hosts[c.Cfg]
		if h == nil {
			h = newVecHost(t, c.Cfg, design, mode, batch)
			hosts[c.Cfg] = h
		}
		if diff := h.judge(c); diff != "" {
			delete(hosts, c.Cfg) // its table may be in any state
			if failed++; failed <= 10 {
				t.Errorf("design=%s mode=%v batch=%v case %s\n%s", design, mode, batch, c.Name, diff)
			}
		}
	}
	if failed > 10 {
		t.Errorf("design=%s mode=%v batch=%v: %d cases failed in all", design, mode, batch, failed)
	}
	for _, h := range hosts {
		require.NoError(t, h.cache.Close())
	}
	return judged, elsewhere
}

// aboutLimit reports whether a case shows what the kernel does when its memory
// is full.
func aboutLimit(c *vecCase) bool {
	return c.Cfg.High != 0 || strings.Contains(c.Name, "/limit/") || strings.Contains(c.Name, "lmix")
}

// vecHost is a host with a cache set up as the kernel was.
type vecHost struct {
	hostModel
	cfg    vecCfg
	before LinuxStats
	lent   int // buffers in the cache, or in a datagram
}

func newVecHost(t *testing.T, vc vecCfg, design string, mode Mode, batch bool) *vecHost {
	h := &vecHost{cfg: vc}
	cfg := LinuxConfig()
	cfg.Mode = mode
	cfg.Timeout4, cfg.Timeout6 = 30*time.Second, 30*time.Second
	if vc.TimeoutMS != 0 {
		cfg.Timeout4 = time.Duration(vc.TimeoutMS) * time.Millisecond
		cfg.Timeout6 = cfg.Timeout4
	}
	if vc.MaxDist != 0 {
		cfg.MaxDist = max(vc.MaxDist, 0)
	}
	if vc.High != 0 {
		cfg.Limits = Limits{High: int64(vc.High), Low: int64(vc.High) * 3 / 4}
	}
	cfg.Charge = Charge{Queue: kernelQueueCharge, Fragment: kernelPacketCharge}
	cfg.OnExpire = h.expired
	cfg.Free = func(bs []Buffer) { h.lent -= len(bs) }
	cache, err := New(design, cfg)
	require.NoError(t, err)
	lane := cache.Lane(0)
	h.cache = cache
	h.parser.VerifyChecksum = true
	h.add = func(now int64, f *Fragment) (r Result) {
		if batch {
			rs := make([]Result, 1)
			lane.AddBatch(now, []Fragment{*f}, rs)
			r = rs[0]
		} else {
			r = lane.Add(now, f)
		}
		if mode == Borrow && r.Verdict.Kept() {
			h.lent++
		}
		return r
	}
	return h
}

// kernelQueueCharge is the size of Linux 6.18's queues.
func kernelQueueCharge(f *Fragment) int64 {
	if f.Key.Family() == IPv4 {
		return 200
	}
	return 184
}

// kernelPacketCharge is the true size of a packet from a TUN device: a 256-byte
// descriptor and a power of two that holds 64 bytes in front, the packet as it
// arrived (padding included, so capacity, not length) and 320 behind it; beyond
// a page the rest stands in whole pages.
func kernelPacketCharge(f *Fragment) int64 {
	const page, around = 4096, 64 + 320
	n := cap(f.Packet)
	if n > page-around {
		return 256 + page + int64((n-(page-around)+page-1)/page*page)
	}
	for _, size := range []int{576, 1024, 2048, page} {
		if n+around <= size {
			return 256 + int64(size)
		}
	}
	panic("unreachable")
}

// judge replays a case and describes the first step that differs.
func (h *vecHost) judge(c *vecCase) string {
	h.family, h.nf = c.Family, c.Path == "nf"
	var packets [][]byte
	h.before = h.linux()
	for i := range c.Steps {
		s, want := &c.Steps[i], &c.Out[i]
		h.out = hostOut{}
		var packet []byte
		if s.Pause > 0 {
			h.pause(time.Duration(s.Pause) * time.Millisecond)
		} else {
			packet = s.packet(c.Family, i)
			h.receive(packet, s.If)
		}
		packets = append(packets, packet)
		if diff := h.compare(c, want, packets); diff != "" {
			return fmt.Sprintf("  step %d of %d: %s\n  %+v", i, len(c.Steps), diff, *s)
		}
	}
	// Every case starts with an empty table; time empties it.
	h.pause(time.Hour)
	if s := h.cache.Stats(); s.Queues != 0 || s.Bytes != 0 || h.lent != 0 {
		return fmt.Sprintf("  after the timeout: %d queues, %d bytes charged, %d buffers lent", s.Queues, s.Bytes, h.lent)
	}
	return ""
}

func (h *vecHost) linux() LinuxStats {
	s := h.cache.Stats()
	return s.Linux()
}

func (h *vecHost) compare(c *vecCase, want *vecOut, packets [][]byte) string {
	s := h.cache.Stats()
	now, was := s.Linux(), h.before
	h.before = now
	counters := []int{
		int(now.ReasmReqds - was.ReasmReqds), int(now.ReasmOKs - was.ReasmOKs), int(now.ReasmFails - was.ReasmFails),
		int(now.ReasmTimeout - was.ReasmTimeout), int(now.ReasmOverlaps - was.ReasmOverlaps),
	}
	wantCounters := make([]int, 5)
	copy(wantCounters, want.Counters)
	switch {
	case !slices.Equal(counters, wantCounters):
		return fmt.Sprintf("counters %v, want %v", counters, wantCounters)
	case s.Queues != want.Queues[0] || s.Bytes != int64(want.Queues[1]):
		return fmt.Sprintf("%d queues and %d bytes, want %v", s.Queues, s.Bytes, want.Queues)
	case !maps.Equal(h.out.other, want.Other):
		return fmt.Sprintf("other counters %v, want %v", h.out.other, want.Other)
	case len(h.out.datagrams) != len(want.Datagrams):
		return fmt.Sprintf("%d datagrams, want %d", len(h.out.datagrams), len(want.Datagrams))
	}
	for i := range want.Datagrams {
		if diff := compareDatagram(c.Family, &h.out.datagrams[i], &want.Datagrams[i]); diff != "" {
			return fmt.Sprintf("datagram %d: %s", i, diff)
		}
	}
	return compareICMP(h.out.icmp, want.ICMP, packets)
}

func compareDatagram(family int, got *hostDatagram, want *vecDatagram) string {
	if got.proto != want.Proto || len(got.payload) != want.Len || got.max != want.Max {
		return fmt.Sprintf("protocol %d, %d bytes, largest fragment %d; want %d, %d, %d",
			got.proto, len(got.payload), got.max, want.Proto, want.Len, want.Max)
	}
	at := 0
	for _, m := range want.Map { // where each byte comes from
		for p := m[1]; p < m[2]; p, at = p+1, at+1 {
			if m[0] >= 0 && got.payload[at] != patternByte(m[0], p) {
				return fmt.Sprintf("byte %d is %#x, want byte %d of fill %d", at, got.payload[at], p, m[0])
			}
		}
	}
	if sum := sha256.Sum256(got.payload); hex.EncodeToString(sum[:8]) != want.Sum {
		return "the payload's digest differs"
	}
	if family == 4 {
		if hdr := hex.EncodeToString(got.header); hdr != want.Hdr {
			return fmt.Sprintf("header %s, want %s", hdr, want.Hdr)
		}
		return ""
	}
	b := got.header
	if n := int(b[4])<<8 | int(b[5]); n != len(b)-ipv6Header+len(got.payload) {
		return fmt.Sprintf("payload length %d", n)
	}
	class, flow := int(b[0]&15)<<4|int(b[1]>>4), int(b[1]&15)<<16|int(b[2])<<8|int(b[3])
	if class != want.Class || flow != want.Flow || int(b[7]) != want.Hop {
		return fmt.Sprintf("class %#x, flow %#x, hop limit %d; want %#x, %#x, %d",
			class, flow, b[7], want.Class, want.Flow, want.Hop)
	}
	for _, e := range []struct {
		name string
		got  []byte
		want string
	}{{"hop-by-hop", got.hbh, want.HBH}, {"destination options", got.dopt, want.DOpt}, {"routing", got.rt, want.RT}} {
		if hex.EncodeToString(e.got) != e.want {
			return fmt.Sprintf("%s header %x, want %s", e.name, e.got, e.want)
		}
	}
	return ""
}

// compareICMP pairs errors sent with errors recorded, whose order within a pause
// says nothing.
func compareICMP(got []hostICMP, want []vecICMP, packets [][]byte) string {
	got = slices.Clone(got)
	for _, w := range want {
		i := slices.IndexFunc(got, func(g hostICMP) bool {
			if g.typ != w.Type || g.code != w.Code || g.ptr != w.Ptr || len(g.quote) != w.N {
				return false
			}
			if w.Of < 0 {
				return hex.EncodeToString(g.quote[:min(len(g.quote), 64)]) == w.Quote
			}
			return bytes.HasPrefix(packets[w.Of], g.quote)
		})
		if i < 0 {
			return fmt.Sprintf("no error %+v among %s", w, describeICMP(got))
		}
		got = slices.Delete(got, i, i+1)
	}
	if len(got) > 0 {
		return "too many errors: " + describeICMP(got)
	}
	return ""
}

func describeICMP(es []hostICMP) string {
	var b strings.Builder
	for _, e := range es {
		fmt.Fprintf(&b, "{type %d code %d pointer %d, %d bytes: %x...} ", e.typ, e.code, e.ptr, len(e.quote), e.quote[:min(len(e.quote), 64)])
	}
	return b.String()
}
