package main

import (
	"bufio"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket/layers"
	"github.com/stretchr/testify/require"

	"corelane/bench/capture"
	"corelane/reasm"
)

// known is what is known about one capture.
type known struct {
	file                          string
	frames, frags4, frags6, atom6 uint64
	datagrams4, datagrams6        uint64
}

// TestCaptures replays captures whose answers are known, with every design. One
// it makes itself. With CORELANE_PCAPS, a directory (absolute, or relative to the
// top of the repository), it takes those that the directory's linux.tsv lists:
// what a Linux 6.18 kernel made of them.
func TestCaptures(t *testing.T) {
	t.Run("source=made", func(t *testing.T) { checkKnown(t, madeCapture(t, t.TempDir())) })
	t.Run("source=recorded", func(t *testing.T) {
		dir := os.Getenv("CORELANE_PCAPS")
		if dir == "" {
			t.Skip("CORELANE_PCAPS names no directory with captures and linux.tsv")
		}
		dir = repoPath(t, dir)
		all := readKnown(t, dir)
		for _, k := range all {
			checkKnown(t, k)
		}
		checkNoneForgotten(t, dir, all)
		t.Logf("%d captures, %d designs", len(all), len(reasm.Designs()))
	})
}

// checkKnown replays one capture with every design.
func checkKnown(t *testing.T, k known) {
	for _, d := range reasm.Designs() {
		t.Run("design="+d.Name+"/file="+filepath.Base(k.file), func(t *testing.T) {
			f, err := os.Open(k.file)
			require.NoError(t, err)
			defer f.Close()
			in, err := capture.NewReader(f)
			require.NoError(t, err)
			r, err := newReplayer(d.Name, reasm.DefaultConfig(), reasm.Parser{}, nil)
			require.NoError(t, err)
			got, err := r.run(t.Context(), in, func() {})
			require.NoError(t, err)
			require.Equal(t, k, known{
				k.file, got.Frames, got.FragmentsV4, got.FragmentsV6, got.AtomicV6, got.DatagramsV4, got.DatagramsV6,
			})
			checkBooks(t, got)
			require.Zero(t, r.cache.Stats().Bytes)
			t.Logf("frames %d, fragments %d+%d, datagrams %d+%d", got.Frames, got.FragmentsV4, got.FragmentsV6, got.DatagramsV4, got.DatagramsV6)
		})
	}
}

// checkBooks checks that every frame is accounted for once.
func checkBooks(t *testing.T, r *replayReport) {
	sum := uint64(0)
	for _, n := range r.Verdicts {
		sum += n
	}
	require.Equal(t, r.Frames, r.NoIP+sum, "every IP packet has one verdict")
	require.Equal(t, r.Frames, r.Passed+r.Merged+r.LeftOut)
	refused := r.Verdicts["truncated"] + r.Verdicts["bad-header"] + r.Verdicts["bad-checksum"]
	require.Equal(t, r.Passed, r.NoIP+r.Verdicts["whole"]+r.Verdicts["atomic"]+refused)
	require.GreaterOrEqual(t, r.Merged, 2*(r.DatagramsV4+r.DatagramsV6))
	require.LessOrEqual(t, r.Merged, r.Verdicts["held"]+r.Verdicts["complete"])
	require.Equal(t, r.DatagramsV4+r.DatagramsV6, r.Verdicts["complete"])
}

// readKnown reads linux.tsv.
func readKnown(t *testing.T, dir string) (all []known) {
	f, err := os.Open(filepath.Join(dir, "linux.tsv"))
	require.NoError(t, err)
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "#") || strings.HasPrefix(lines.Text(), "file\t") {
			continue
		}
		fields := strings.Split(lines.Text(), "\t")
		require.Len(t, fields, 7, lines.Text())
		var n [7]uint64
		for i := 1; i < len(fields); i++ {
			n[i], err = strconv.ParseUint(fields[i], 10, 64)
			require.NoError(t, err, lines.Text())
		}
		all = append(all, known{filepath.Join(dir, fields[0]), n[1], n[2], n[3], n[4], n[5], n[6]})
	}
	require.NoError(t, lines.Err())
	require.NotEmpty(t, all)
	return all
}

// checkNoneForgotten checks that linux.tsv lists every capture in dir.
func checkNoneForgotten(t *testing.T, dir string, all []known) {
	listed := make(map[string]bool)
	for _, k := range all {
		listed[k.file] = true
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.pcap*"))
	require.NoError(t, err)
	for _, f := range files {
		require.True(t, listed[f], "%s is not in linux.tsv", f)
	}
}

// madeCapture writes a capture with mixed link types: datagrams in and out of
// order, a duplicate, an overlap, an atomic fragment, and one that is late.
func madeCapture(t *testing.T, dir string) known {
	rng := rand.New(rand.NewPCG(1, 2))
	k := known{file: filepath.Join(dir, "made.pcapng")}
	var frames []sent
	at := time.Duration(0)
	add := func(iface int, header []byte, packets ...[]byte) {
		for _, p := range packets {
			at += time.Millisecond
			frames = append(frames, sent{at, join(header, p), iface})
		}
	}
	four := func(id uint16) [][]byte { return fragments4(datagram4(rng, id, 1000), 256) }

	add(0, ether4, four(1)...) // in order
	f := four(2)
	add(0, ether4, f[3], f[1], f[0], f[2]) // shuffled, on the second link type
	f = four(3)
	add(1, nil, f[0], f[1], f[1], f[2], f[3]) // raw IP, with a duplicate
	k.frags4, k.datagrams4 = 13, 3

	f = four(4)
	overlap := append([]byte{}, f[2]...)
	overlap[7] -= 8 // begins 64 bytes before the end of f[1]
	checksum4(overlap)
	add(0, ether4, f[0], f[1], overlap, f[3]) // discarded; f[3] then waits for ever
	k.frags4 += 4

	// The same identification on two VLANs, interleaved: two datagrams.
	a, b := four(5), four(5)
	for i := range a {
		add(0, vlan(1, 2), a[i])
		add(0, vlan(1, 3), b[i])
	}
	k.frags4, k.datagrams4 = k.frags4+8, k.datagrams4+2

	six := fragments6(datagram6(rng, 3000), 6, 1024)
	add(0, ether6, six[2], six[0], six[1])
	add(1, nil, fragments6(datagram6(rng, 100), 7, 1024)...) // one fragment: atomic
	k.frags6, k.atom6, k.datagrams6 = 4, 1, 1

	f = four(8)
	add(0, ether4, f[:3]...)
	at += 31 * time.Second
	add(0, ether4, f[3]) // too late
	k.frags4 += 4

	add(0, ether4, datagram4(rng, 9, 100)) // no fragment
	add(0, join(macs, []byte{8, 6}), make([]byte, 28))
	k.frames = uint64(len(frames))
	writePcapNG(t, k.file, []layers.LinkType{layers.LinkTypeEthernet, layers.LinkTypeRaw}, frames...)
	return k
}
