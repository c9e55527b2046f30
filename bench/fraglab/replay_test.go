package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket/layers"
	"github.com/stretchr/testify/require"

	"corelane/bench/capture"
	"corelane/reasm"
)

// replay runs `fraglab replay` with some arguments.
func replay(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return replayStdin(t, nil, args...)
}

func replayStdin(t *testing.T, stdin io.Reader, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := newRootCommand()
	var out, progress bytes.Buffer
	cmd.SetIn(stdin)
	cmd.SetOut(&out)
	cmd.SetErr(&progress)
	cmd.SetArgs(append([]string{"replay"}, args...))
	err = cmd.ExecuteContext(t.Context())
	return out.String(), progress.String(), err
}

// object decodes the JSON that replay printed, which must be all it printed.
func object(t *testing.T, stdout string) (r replayReport) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(stdout))
	dec.DisallowUnknownFields()
	require.NoError(t, dec.Decode(&r), stdout)
	require.False(t, dec.More(), "one object and nothing else")
	return r
}

// packetsOf reads a capture that must not be damaged.
func packetsOf(t *testing.T, path string) (ps []capture.Packet) {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	r, err := capture.NewReader(f)
	require.NoError(t, err)
	for {
		var p capture.Packet
		if err := r.Next(&p); err == io.EOF {
			return ps
		} else {
			require.NoError(t, err)
		}
		p.Frame = slices.Clone(p.Frame)
		ps = append(ps, p)
	}
}

func TestReplayPrintsOneJSONObject(t *testing.T) {
	k := madeCapture(t, t.TempDir())
	stdout, stderr, err := replay(t, k.file, "--json")
	require.NoError(t, err)
	require.Empty(t, stderr)
	var keys map[string]any
	require.NoError(t, json.Unmarshal([]byte(stdout), &keys))
	for _, key := range []string{
		"frames", "fragments_v4", "fragments_v6", "atomic_v6", "datagrams_v4", "datagrams_v6", "malformed", "overlaps",
		"duplicates", "incomplete", "passed",
	} {
		require.IsType(t, float64(0), keys[key], key)
	}
	require.Equal(t, replayReport{
		Frames: k.frames, FragmentsV4: k.frags4, FragmentsV6: k.frags6, AtomicV6: k.atom6,
		DatagramsV4: k.datagrams4, DatagramsV6: k.datagrams6, Overlaps: 1, Duplicates: 1,
		Incomplete: 3, Expired: 2, // two expired in the pause; the late fragment is held at the end
		Passed: 3, Merged: 23, LeftOut: 9, NoIP: 1, Design: reasm.Default,
		Verdicts: map[string]uint64{"held": 24, "complete": 6, "whole": 1, "atomic": 1, "duplicate": 1, "overlap": 1},
	}, object(t, stdout))
}

func TestReplayPrintsATableForPeople(t *testing.T) {
	k := madeCapture(t, t.TempDir())
	stdout, _, err := replay(t, k.file)
	require.NoError(t, err)
	require.Contains(t, stdout, fmt.Sprintf("│ whole datagrams               │    %d │    %d │   %d │", k.datagrams4, k.datagrams6, k.datagrams4+k.datagrams6))
}

func TestReplayReadsStandardInput(t *testing.T) {
	k := madeCapture(t, t.TempDir())
	f, err := os.Open(k.file)
	require.NoError(t, err)
	defer f.Close()
	stdout, _, err := replayStdin(t, f, "-", "--json")
	require.NoError(t, err)
	require.Equal(t, k.frames, object(t, stdout).Frames)
}

func TestReplayWithEveryDesign(t *testing.T) {
	k := madeCapture(t, t.TempDir())
	for _, d := range reasm.Designs() {
		stdout, _, err := replay(t, k.file, "--json", "--design", d.Name)
		require.NoError(t, err)
		r := object(t, stdout)
		require.Equal(t, d.Name, r.Design)
		require.Equal(t, k.datagrams4, r.DatagramsV4)
	}
	stdout, _, err := replay(t, k.file, "--json", "--design", "no-such")
	require.ErrorContains(t, err, "no-such")
	require.Empty(t, stdout)
}

// A round trip over every link type: datagrams come out whole and unchanged,
// with a right checksum, in the place of their last fragment, behind their link
// header; everything else stays as it was.
func TestReplayOutputHoldsWholeDatagramsInPlace(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	dir := t.TempDir()
	sll := func(et ...byte) []byte {
		return append([]byte{0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0}, et...)
	}
	sll2 := func(et ...byte) []byte {
		return append(et, 0, 0, 0, 0, 0, 3, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0)
	}
	for _, c := range []struct {
		name string
		link layers.LinkType
		four []byte // link header in front of IPv4
		six  []byte // nil: the link carries IPv4 only
	}{
		{"ethernet", layers.LinkTypeEthernet, ether4, ether6},
		{"qinq", layers.LinkTypeEthernet, vlan(5, 6), ether6},
		{"raw", layers.LinkTypeRaw, []byte{}, []byte{}},
		{"raw-12", 12, []byte{}, []byte{}},
		{"raw-14", 14, []byte{}, []byte{}},
		{"ipv4", layers.LinkTypeIPv4, []byte{}, nil},
		{"ppp", layers.LinkTypePPP, []byte{0xff, 3, 0, 0x21}, []byte{0, 0x57}},
		{"sll", layers.LinkTypeLinuxSLL, sll(0x08, 0), sll(0x86, 0xdd)},
		{"sll2", layers.LinkTypeLinuxSLL2, sll2(0x08, 0), sll2(0x86, 0xdd)},
		{"null", layers.LinkTypeNull, []byte{2, 0, 0, 0}, []byte{30, 0, 0, 0}},
		{"loop", layers.LinkTypeLoop, []byte{0, 0, 0, 2}, []byte{0, 0, 0, 28}},
	} {
		t.Run("link="+c.name, func(t *testing.T) {
			// Two large datagrams with interleaved fragments, another packet between.
			var whole, other, in []sent
			at := time.Duration(0)
			next := func(frame []byte) sent {
				at += 1234567 // nanoseconds
				s := sent{at: at, frame: frame}
				in = append(in, s)
				return s
			}
			a, b := datagram4(rng, 1, 65000), datagram4(rng, 2, 4000)
			bh, fb := c.four, fragments4(b, 1480)
			if c.six != nil {
				b = datagram6(rng, 4000)
				bh, fb = c.six, fragments6(b, 2, 1480)
			}
			fa := fragments4(a, 1480)
			rng.Shuffle(len(fa), func(i, j int) { fa[i], fa[j] = fa[j], fa[i] })
			var last sent
			for i, f := range fa {
				last = next(join(c.four, f))
				if i < len(fb) {
					if s := next(join(bh, fb[i])); i == len(fb)-1 {
						whole = append(whole, sent{at: s.at, frame: join(bh, b)})
					}
				}
				if i == 5 {
					other = append(other, next(join(c.four, datagram4(rng, 3, 50))))
				}
			}
			want := append(slices.Clone(whole), other...)
			want = append(want, sent{at: last.at, frame: join(c.four, a)})

			file, out := filepath.Join(dir, c.name+".pcap"), filepath.Join(dir, c.name+"-out.pcap")
			writePcap(t, file, c.link, in...)
			stdout, _, err := replay(t, file, "-o", out, "--json")
			require.NoError(t, err)
			r := object(t, stdout)
			require.Equal(t, uint64(2), r.DatagramsV4+r.DatagramsV6)
			require.Zero(t, r.LeftOut)

			got := packetsOf(t, out)
			require.Len(t, got, len(want))
			for i, w := range want {
				require.Equal(t, w.frame, got[i].Frame, "packet %d", i)
				require.Equal(t, len(w.frame), got[i].Length)
				require.True(t, got[i].Time.Equal(began.Add(w.at)), "packet %d: %v", i, got[i].Time)
				require.Equal(t, c.link, got[i].Link)
			}
			require.Equal(t, uint16(0xffff), sum4(got[len(got)-1].Frame[len(c.four):]))

			// What is whole stays whole.
			stdout, _, err = replay(t, out, "--json", "--verify-checksum")
			require.NoError(t, err)
			r = object(t, stdout)
			require.Equal(t, uint64(len(want)), r.Passed)
			require.Zero(t, r.Malformed+r.FragmentsV4+r.FragmentsV6)
		})
	}
}

// Any capture: the output has the packets that the report counts, and replaying
// it finds no fragment that could be joined.
func TestReplayOutputOfAMixedCapture(t *testing.T) {
	dir := t.TempDir()
	k := madeCapture(t, dir)
	for _, name := range []string{"out.pcapng", "out.pcap", "out.pcapng.gz"} {
		t.Run("name="+name, func(t *testing.T) {
			out := filepath.Join(dir, name)
			stdout, _, err := replay(t, k.file, "-o", out, "--json")
			require.NoError(t, err)
			r := object(t, stdout)
			ps := packetsOf(t, out)
			require.Len(t, ps, int(r.Passed+r.DatagramsV4+r.DatagramsV6))
			require.True(t, slices.IsSortedFunc(ps, func(a, b capture.Packet) int { return a.Time.Compare(b.Time) }))
			links := map[layers.LinkType]bool{}
			for _, p := range ps {
				links[p.Link] = true
			}
			require.Len(t, links, 2, "both link types are kept")
			stdout, _, err = replay(t, out, "--json")
			require.NoError(t, err)
			again := object(t, stdout)
			require.Equal(t, k.atom6, again.FragmentsV6)
			require.Zero(t, again.FragmentsV4)
		})
	}
}

// Whatever is wrong with a file: the object tells what was good before it, the
// error says what it is, and the output holds what was good.
func TestReplayOfADamagedCaptureReportsWhatWasGood(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	dir := t.TempDir()
	fs := fragments4(datagram4(rng, 1, 1000), 256)
	var frames []sent
	for i, f := range append(fs, datagram4(rng, 2, 100)) {
		frames = append(frames, sent{at: time.Duration(i), frame: join(ether4, f)})
	}
	good := filepath.Join(dir, "good.pcap")
	writePcap(t, good, layers.LinkTypeEthernet, frames...)
	goodNG := filepath.Join(dir, "good.pcapng")
	writePcapNG(t, goodNG, []layers.LinkType{layers.LinkTypeEthernet}, frames...)
	read := func(path string) []byte {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		return b
	}
	pcap, ng := read(good), read(goodNG)
	badBlock := slices.Clone(ng)
	badBlock[len(badBlock)-(12+20+136)+4] = 0x04 // the last block claims to be 4 bytes long
	for _, c := range []struct {
		name      string
		file      []byte
		frames    uint64
		datagrams uint64
	}{
		{"cut", pcap[:len(pcap)-1], 4, 1},
		{"cut-in-header", pcap[:10], 0, 0},
		{"garbage", bytes.Repeat([]byte("garbage "), 100), 0, 0},
		{"empty", nil, 0, 0},
		{"bad-block", badBlock, 4, 1},
		{"garbage-behind", append(slices.Clone(ng), bytes.Repeat([]byte{0xa5}, 99)...), 5, 1},
	} {
		t.Run("damage="+c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "in")
			require.NoError(t, os.WriteFile(file, c.file, 0o600))
			out := filepath.Join(t.TempDir(), "out")
			stdout, _, err := replay(t, file, "--json", "-o", out)
			require.ErrorContains(t, err, file)
			r := object(t, stdout)
			require.Equal(t, c.frames, r.Frames, err)
			require.Equal(t, c.datagrams, r.DatagramsV4)
			checkBooks(t, &r)
			if c.frames > 0 {
				require.ErrorContains(t, err, fmt.Sprintf("damaged behind packet %d", c.frames))
				require.Len(t, packetsOf(t, out), int(r.Passed+r.DatagramsV4))
			}
		})
	}
}

func TestReplayRefusesToOverwriteItsInput(t *testing.T) {
	k := madeCapture(t, t.TempDir())
	before, err := os.ReadFile(k.file)
	require.NoError(t, err)
	link := k.file + ".link"
	require.NoError(t, os.Link(k.file, link))
	for _, out := range []string{k.file, link} {
		_, _, err = replay(t, k.file, "-o", out)
		require.ErrorContains(t, err, "same file")
	}
	after, err := os.ReadFile(k.file)
	require.NoError(t, err)
	require.Equal(t, before, after)
}

func TestReplayWithoutACapturePrintsNothing(t *testing.T) {
	for _, args := range [][]string{{"no-such-file"}, {t.TempDir()}, {}, {"a", "b"}} {
		stdout, _, err := replay(t, args...)
		require.Error(t, err)
		require.Empty(t, stdout)
	}
}

func TestReplayVerifiesChecksumsOnlyWhenAsked(t *testing.T) {
	fs := fragments4(datagram4(rand.New(rand.NewPCG(7, 8)), 1, 1000), 256)
	fs[1][10] ^= 1
	var frames []sent
	for _, f := range fs {
		frames = append(frames, sent{frame: f})
	}
	file := filepath.Join(t.TempDir(), "x.pcap")
	writePcap(t, file, layers.LinkTypeRaw, frames...)
	stdout, _, err := replay(t, file, "--json")
	require.NoError(t, err)
	require.Equal(t, uint64(1), object(t, stdout).DatagramsV4)
	stdout, _, err = replay(t, file, "--json", "--verify-checksum")
	require.NoError(t, err)
	r := object(t, stdout)
	require.Zero(t, r.DatagramsV4)
	require.Equal(t, []uint64{1, 1, 4, 1}, []uint64{r.Malformed, r.Passed, r.FragmentsV4, r.Incomplete})
}

func TestReplayPassesLinkTypesItDoesNotKnow(t *testing.T) {
	dir := t.TempDir()
	file, out := filepath.Join(dir, "wifi.pcap"), filepath.Join(dir, "out.pcap")
	writePcap(t, file, layers.LinkTypeIEEE802_11, sent{frame: make([]byte, 40)}, sent{frame: make([]byte, 41)})
	stdout, stderr, err := replay(t, file, "--json", "-o", out)
	require.NoError(t, err)
	require.Contains(t, stderr, "2 frames of a link type that is not understood")
	r := object(t, stdout)
	require.Equal(t, []uint64{2, 2, 2}, []uint64{r.Passed, r.NoIP, r.Unknown})
	require.Equal(t, packetsOf(t, file), packetsOf(t, out))
}

// Capture time drives the cache: what it does is what it would do on a wire.
func TestReplayFollowsCaptureTime(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name      string
		at        []time.Duration // of the four fragments
		datagrams uint64
	}{
		{"together", []time.Duration{0, 0, 0, 0}, 1},
		{"slow", []time.Duration{0, 5 * s, 10 * s, 14 * s}, 1},
		{"too-slow", []time.Duration{0, 10 * s, 20 * s, 31 * s}, 0},
		{"jump-of-an-hour", []time.Duration{0, 0, 3600 * s, 3600 * s}, 0},
		{"jump-of-ten-years", []time.Duration{0, 0, 87600 * 3600 * s, 87600 * 3600 * s}, 0},
		{"step-back", []time.Duration{5 * s, 4 * s, 3 * s, 2 * s}, 1},
		{"far-step-back", []time.Duration{1e6 * s, 0, 1 * s, 2 * s}, 1},
		{"far-step-back-then-slow", []time.Duration{1e6 * s, 1e6 * s, 0, 31 * s}, 0},
		{"disorder", []time.Duration{10 * s, 10*s - 1e6, 10*s + 1e6, 10*s - 2e6}, 1},
	} {
		t.Run("time="+c.name, func(t *testing.T) {
			var frames []sent
			for i, f := range fragments4(datagram4(rand.New(rand.NewPCG(9, 1)), 1, 1000), 256) {
				frames = append(frames, sent{at: c.at[i], frame: f})
			}
			file := filepath.Join(t.TempDir(), "x.pcap")
			writePcap(t, file, layers.LinkTypeRaw, frames...)
			stdout, _, err := replay(t, file, "--json")
			require.NoError(t, err)
			require.Equal(t, c.datagrams, object(t, stdout).DatagramsV4)
		})
	}
}

func TestCaptureClockGoesOnFromStepsBack(t *testing.T) {
	var c captureClock
	const s = int64(time.Second)
	for _, x := range []struct{ capture, want int64 }{
		{1000 * s, 0},
		{1002 * s, 2 * s},
		{1002*s - s/2, 2 * s},   // disorder: time waits
		{1003 * s, 3 * s},       // and is not counted twice
		{10 * s, 3 * s},         // the clock was set back
		{11 * s, 4 * s},         // time goes on
		{1e9 * s, 4*s + 3600*s}, // a jump is cut
		{11 * s, 4*s + 3600*s},
		{12 * s, 5*s + 3600*s},
	} {
		require.Equal(t, x.want, c.at(time.Unix(0, x.capture)), x.capture)
	}
	require.Equal(t, 5*s+3600*s, c.at(time.Time{}), "a packet without a time")
	for range 1000 { // no number of broken times breaks the clock
		before := c.now
		c.at(time.Unix(1<<33, 0))
		c.at(time.Unix(1, 0))
		require.Equal(t, before+longestJump, c.now)
	}
}
