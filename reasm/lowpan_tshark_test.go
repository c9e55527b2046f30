package reasm

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var recordTshark = flag.Bool("tshark", false, "ask the installed tshark anew what testdata/lowpan-tshark.jsonl says")

const tsharkFile = "testdata/lowpan-tshark.jsonl"

// linkVector is one datagram and what tshark made of its frames. The frames are in
// order of arrival; link addresses are in hexadecimal.
type linkVector struct {
	Src, Dst string
	Frames   []string
	Packet   string
}

func linkAddr(t *testing.T, s string) LinkAddr {
	v, err := strconv.ParseUint(s, 16, 64)
	require.NoError(t, err)
	return LinkAddr{v, uint8(len(s) / 2)}
}

// An implementation that shares nothing with this one, Wireshark's, decompresses
// and reassembles the same. Recorded with tshark 4.0.17 by go test -run Tshark
// -tshark, from frames of the builder in lowpan_build_test.go.
func TestLoWPANMatchesTshark(t *testing.T) {
	if *recordTshark {
		record(t)
	}
	file, err := os.Open(tsharkFile)
	require.NoError(t, err)
	defer file.Close()
	n := 0
	for lines := bufio.NewScanner(file); lines.Scan(); n++ {
		var v linkVector
		require.NoError(t, json.Unmarshal(lines.Bytes(), &v))
		for _, mode := range []Mode{Copy, Borrow} {
			cfg := DefaultConfig()
			cfg.Mode, cfg.Free = mode, func([]Buffer) {}
			c, err := New(Default, cfg)
			require.NoError(t, err)
			var r Result
			for i, s := range v.Frames {
				frame, err := hex.DecodeString(s)
				require.NoError(t, err)
				var f Fragment
				require.Equal(t, Held, Parser{}.LoWPAN(frame, linkAddr(t, v.Src), linkAddr(t, v.Dst), 0, &f), s)
				r = c.Lane(0).Add(0, &f)
				require.Equal(t, i == len(v.Frames)-1, r.Verdict == Complete, "%v of fragment %d", r.Verdict, i)
			}
			got := r.Datagram.Bytes()
			want, err := hex.DecodeString(v.Packet)
			require.NoError(t, err)
			if want[6] == nhUDP && binary.BigEndian.Uint16(want[46:]) == 0xffff {
				// What tshark puts where the checksum of a fragment was left out.
				binary.BigEndian.PutUint16(want[46:], slowUDPSum(want))
			}
			require.Equal(t, hex.EncodeToString(want), hex.EncodeToString(got))
			r.Datagram.Release()
			require.NoError(t, c.Close())
		}
	}
	require.Equal(t, tsharkVectors, n)
}

const tsharkVectors = 48

// record makes frames and asks tshark.
func record(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	var vs []linkVector
	var frames [][]byte
	last := map[int]int{} // number of a datagram's last frame, from 1, to its index
	links := []LinkAddr{linkA, linkB, ExtendedAddr([8]byte{1, 2, 3, 4, 5, 6, 7, 8}), ShortAddr(0x1234)}
	for i := range tsharkVectors {
		src, dst := links[rng.IntN(4)], links[rng.IntN(4)]
		size := 200 + rng.IntN(200)
		if i < 2 {
			size = []int{1280, 2047}[i]
		}
		packet := linkUDP(size, src, dst, rng.IntN)
		head, lead, _ := compress(packet, src, dst, rng.IntN)
		d := linkDatagram{packet, uint16(rng.Uint32())}
		if i%5 == 4 {
			head, lead = d.plain(), 0
		}
		v := linkVector{Src: src.String(), Dst: dst.String()}
		cut := d.cut(head, lead, nil)
		rng.Shuffle(len(cut), func(i, j int) { cut[i], cut[j] = cut[j], cut[i] })
		for _, f := range cut {
			v.Frames = append(v.Frames, hex.EncodeToString(f))
			frames = append(frames, wpanFrame(f, src, dst, len(frames)))
		}
		last[len(frames)] = i
		vs = append(vs, v)
	}
	file := filepath.Join(t.TempDir(), "frames.pcap")
	require.NoError(t, os.WriteFile(file, pcapOf(frames, 230), 0o600))
	dump, err := exec.Command("tshark", "-r", file, "-x").Output()
	require.NoError(t, err)
	n := 0
	for section := range bytes.SplitSeq(dump, []byte("\n\n")) {
		n++
		if i, ok := last[n]; ok {
			vs[i].Packet = dataSource(t, string(section), "Reassembled 6LoWPAN")
		}
	}
	var out bytes.Buffer
	for _, v := range vs {
		require.NotEmpty(t, v.Packet)
		line, err := json.Marshal(v)
		require.NoError(t, err)
		out.Write(append(line, '\n'))
	}
	require.NoError(t, os.WriteFile(tsharkFile, out.Bytes(), 0o644))
}

// dataSource returns the bytes of one of the hex dumps that tshark -x prints for
// a frame.
func dataSource(t *testing.T, section, name string) (digits string) {
	_, dump, ok := strings.Cut(section, name+" (")
	require.True(t, ok, "no %s in\n%s", name, section)
	for line := range strings.Lines(dump) {
		if len(line) < 6 || line[4:6] != "  " {
			if digits != "" {
				break // the next dump
			}
			continue
		}
		digits += strings.ReplaceAll(line[6:min(len(line), 54)], " ", "")
	}
	return digits
}

// wpanFrame puts an IEEE 802.15.4 data header in front of a payload.
func wpanFrame(payload []byte, src, dst LinkAddr, seq int) []byte {
	mode := map[uint8]uint16{2: 2, 8: 3}
	const data, onePAN, version = 1, 1 << 6, 1 << 12
	b := binary.LittleEndian.AppendUint16(nil, data|onePAN|version|mode[dst.size]<<10|mode[src.size]<<14)
	b = append(b, byte(seq), 0xcd, 0xab)
	for _, a := range []LinkAddr{dst, src} {
		for i := range a.size {
			b = append(b, byte(a.bits>>(8*i)))
		}
	}
	return append(b, payload...)
}

// pcapOf is a capture file of frames a second apart.
func pcapOf(frames [][]byte, link uint32) []byte {
	b := binary.LittleEndian.AppendUint32(nil, 0xa1b2c3d4)
	b = append(b, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, link)
	for i, f := range frames {
		b = binary.LittleEndian.AppendUint32(b, uint32(i))
		b = binary.LittleEndian.AppendUint32(b, 0)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(f)))
		b = binary.LittleEndian.AppendUint32(b, uint32(len(f)))
		b = append(b, f...)
	}
	return b
}
