package reasm

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"corelane/internal/vectors"
)

// bugCase replays one entry of the public catalogue, or several with the same
// input: the fragments, what must become of each, and what is held afterwards.
type bugCase struct {
	ids    string // RE-x of the catalogue
	what   string // went wrong, where
	family int    // 0: both
	frags  []frag
	want   string // verdicts; the runs below are those of the datagrams, in order
	data   [][][3]int
	held   int
	check  func(*testing.T, *rig, []Result)
}

// bytes0 is a datagram of n bytes that all have fill 0.
func bytes0(n int) [][3]int { return [][3]int{{0, 0, n}} }

// row makes n fragments of one size, the last one without "more".
func row(id uint32, n, size int) (fs []frag) {
	for i := range n {
		fs = append(fs, piece(id, i*size, size, i < n-1))
	}
	return fs
}

func backwards(fs []frag) (rs []frag) {
	for i := range fs {
		rs = append(rs, fs[len(fs)-1-i])
	}
	return rs
}

// times repeats a verdict.
func times(n int, v string) (s string) {
	for range n {
		s += v + " "
	}
	return s
}

// repeat repeats fragments, each time with the next identification.
func repeat(n int, fs ...frag) (rs []frag) {
	for i := range n {
		for _, f := range fs {
			f.ID += uint32(i)
			rs = append(rs, f)
		}
	}
	return rs
}

var routing8 = []vectors.Ext{{NH: 43, Hex: "0000000000000000"}}

var bugCases = []bugCase{
	{
		ids: "L4", what: "Linux refused IPv6 fragments below 1280 bytes, and broke real traffic", family: 6,
		frags: row(1, 2, 64), want: "held complete", data: [][][3]int{bytes0(128)},
	}, {
		ids: "L6 O10", what: "overlaps were trimmed, and trimming was attackable",
		frags: []frag{piece(1, 8, 16, true), piece(1, 0, 16, true), piece(1, 8, 16, true), piece(1, 16, 16, true), piece(2, 0, 24, true), piece(2, 8, 24, false)},
		want:  "held overlap held overlap held overlap",
	}, {
		ids: "L8", what: "some bad fragments were dropped alone; one that is no multiple of 8 may only be padded", family: 4,
		frags: []frag{piece(1, 0, 13, true), piece(1, 8, 3, false), piece(2, 0, 8, true), piece(2, 8, 0, false)},
		want:  "held complete held zero-length", data: [][][3]int{bytes0(11)},
	}, {
		ids: "L11 D5", what: "a duplicate was answered by dropping its connection, or destroyed the datagram",
		frags: []frag{piece(1, 0, 8, true), piece(1, 0, 8, true), piece(1, 16, 8, true), piece(1, 16, 8, true), piece(1, 24, 8, false), piece(1, 24, 8, false), piece(1, 8, 8, true)},
		want:  "held duplicate held duplicate held duplicate complete", data: [][][3]int{bytes0(32)},
	}, {
		ids: "L13", what: "DF fragments were sent on larger than they came, or without DF", family: 4,
		frags: []frag{{ID: 1, Len: 1200, MF: true, DF: true}, {ID: 1, Off: 1200, Len: 100}},
		want:  "held complete",
		check: func(t *testing.T, r *rig, rs []Result) {
			require.Equal(t, 1220, rs[1].Datagram.MaxFragment())
			require.EqualValues(t, 0x40, rs[1].Datagram.Header()[6])
		},
	}, {
		ids: "L14 O11 O34", what: "several Fragment headers passed rules, or crashed Windows", family: 6,
		frags: []frag{
			{ID: 1, Proto: nhFragment, Len: 16, MF: true, Data: "fd00000100000007"}, {ID: 1, Proto: nhFragment, Off: 16, Len: 8},
		},
		want: "held complete",
		check: func(t *testing.T, r *rig, rs []Result) { // the result is a fragment again, and no more
			var f Fragment
			whole := append([]byte(nil), rs[1].Datagram.Bytes()...)
			require.Equal(t, Held, Parser{}.Parse(whole, 0, &f))
			require.EqualValues(t, 7, f.Key.ID())
			require.EqualValues(t, 40, f.HeaderLen-fragHeader)
			require.Len(t, f.Payload(), 16)
		},
	}, {
		ids: "L15 O14", what: "the length overflowed 16 bits with extension headers in front", family: 6,
		frags: []frag{
			{ID: 1, Len: 65480, MF: true, Pre: vecPad(8)}, {ID: 1, Off: 65480, Len: 55, Pre: vecPad(8)},
			{ID: 2, Len: 65480, MF: true, Pre: vecPad(8)}, {ID: 2, Off: 65480, Len: 47, Pre: vecPad(8)},
		},
		want: "held too-long held complete", data: [][][3]int{bytes0(65527)},
	}, {
		ids: "L23", what: "a refused fragment left an empty queue for a minute", family: 6,
		frags: repeat(100, piece(1, 0, 175, true)), want: times(100, "bad-length"),
	}, {
		ids: "G4", what: "IPv6 datagrams above 65535 bytes", family: 6,
		frags: []frag{piece(1, 65520, 16, false)}, want: "offset-too-large",
		check: func(t *testing.T, r *rig, rs []Result) {
			require.Equal(t, Problem{Due: true, Code: 0, Pointer: 42}, rs[0].Problem)
		},
	}, {
		ids: "G7", what: "the next header was taken from any fragment", family: 6,
		frags: []frag{{ID: 1, Off: 8, Len: 8, Proto: 58}, {ID: 1, Len: 8, MF: true, Proto: 17}}, want: "held complete",
		check: func(t *testing.T, r *rig, rs []Result) { require.EqualValues(t, 17, rs[1].Datagram.Header()[6]) },
	}, {
		ids: "P1 S10", what: "a completed list was not emptied: the same identification failed, copies counted",
		frags: []frag{
			piece(1, 0, 8, true).of(1), piece(1, 0, 8, true).of(1), piece(1, 0, 8, true).of(1), piece(1, 16, 8, false).of(1), piece(1, 8, 8, true).of(1),
			piece(1, 0, 8, true).of(2), piece(1, 16, 1, false).of(2), piece(1, 8, 8, true).of(2),
		},
		want: "held duplicate duplicate held complete held held complete", data: [][][3]int{{{1, 0, 24}}, {{2, 0, 17}}},
	}, {
		ids: "P2 O30", what: "completed datagrams were counted as expired, or not delivered",
		frags: row(1, 3, 8), want: "held held complete", data: [][][3]int{bytes0(24)},
		check: func(t *testing.T, r *rig, rs []Result) {
			require.EqualValues(t, 1, r.linux().ReasmOKs)
			r.step(time.Hour)
			require.Empty(t, r.expired)
			require.Zero(t, r.cache.Stats().Expired)
		},
	}, {
		ids: "P3 O8", what: "at most 8, or 64, fragments",
		frags: append(row(1, 9, 8), row(2, 65, 8)...), want: times(8, "held") + "complete " + times(64, "held") + "complete",
		data: [][][3]int{bytes0(72), bytes0(520)},
	}, {
		ids: "O31 O35", what: "16 or 50 fragments were the limit: a ping of 65535 bytes, or a real capture, failed",
		frags: append(row(1, 44, 1480), row(2, 313, 16)...), want: times(43, "held") + "complete " + times(312, "held") + "complete",
		data: [][][3]int{bytes0(44 * 1480), bytes0(313 * 16)},
	}, {
		ids: "P4", what: "the offset was compared in the wrong unit",
		frags: []frag{piece(1, 8183*8, 8, false), piece(2, 8189*8, 3, false)}, want: "held held", held: 2,
	}, {
		ids: "P5", what: "the identification of the result was 0", family: 4,
		frags: row(0xbeef, 2, 8), want: "held complete",
		check: func(t *testing.T, r *rig, rs []Result) {
			require.Equal(t, []byte{0xbe, 0xef}, rs[1].Datagram.Header()[4:6])
		},
	}, {
		ids: "P6", what: "a last fragment below 8 bytes was refused",
		frags: []frag{piece(1, 0, 8, true), piece(1, 8, 7, false)}, want: "held complete", data: [][][3]int{bytes0(15)},
	}, {
		ids: "P9 D8 O9", what: "65535 was checked in 16 bits, and never exceeded", family: 4,
		frags: []frag{piece(1, 65528, 64, false), piece(1, 0, 65512, true), piece(1, 65512, 16, true)},
		want:  "held held too-long", // Linux stores it, and drops it when complete
	}, {
		ids: "S15", what: "a datagram past the largest size was accepted", family: 4,
		frags: []frag{piece(1, 8183*8, 71, false), piece(1, 0, 8183*8, true)}, want: "held too-long",
	}, {
		ids: "V1", what: "offset and length wrapped: an assertion failed", family: 4,
		frags: []frag{piece(1, 65520, 116, false), piece(2, 0, 8, true), piece(2, 8, 8, false)},
		want:  "held held complete", data: [][][3]int{bytes0(16)}, held: 1,
	}, {
		ids: "P10", what: "fragments with DF were passed by", family: 4,
		frags: []frag{{ID: 1, Len: 8, MF: true, DF: true}, {ID: 1, Off: 8, Len: 8, DF: true}}, want: "held complete", data: [][][3]int{bytes0(16)},
	}, {
		ids: "D1", what: "zero length and overlap corrupted buffers",
		frags: []frag{piece(1, 0, 104, true), piece(1, 96, 104, true), piece(1, 200, 0, true), piece(1, 200, 100, false)},
		want:  "held overlap zero-length held", held: 1,
	}, {
		ids: "D2", what: "a key of zeros looked like an empty slot", family: 4,
		frags: []frag{{Src: "0.0.0.0", Dst: "0.0.0.0", Proto: -1, Len: 504, MF: true}, {Src: "0.0.0.0", Dst: "0.0.0.0", Proto: -1, Off: 504, Len: 496}},
		want:  "held complete", data: [][][3]int{bytes0(1000)},
	}, {
		ids: "D3", what: "keys were compared in 32 of 64 bits", family: 6,
		frags: []frag{{ID: 1, Src: "fd09:0:1::1", Len: 8, MF: true}, {ID: 1, Src: "fd09:0:2::1", Off: 8, Len: 8}}, want: "held held", held: 2,
	}, {
		ids: "D4", what: "Ethernet padding became payload",
		frags: []frag{{ID: 1, Len: 8, MF: true, Trail: 18}, {ID: 1, Off: 8, Len: 5, Trail: 21}}, want: "held complete", data: [][][3]int{bytes0(13)},
	}, {
		ids: "D6 O7", what: "overlaps were accepted",
		frags: []frag{
			piece(1, 0, 600, true), piece(1, 304, 600, true), piece(2, 304, 600, true), piece(2, 0, 600, true),
			piece(3, 200, 200, true), piece(3, 0, 600, true), piece(4, 0, 16, true), piece(4, 8, 16, true),
		},
		want: "held overlap held overlap held overlap held overlap",
	}, {
		ids: "D7 S8", what: "the protocol was no part of the key", family: 4,
		frags: []frag{{ID: 1, Len: 8, MF: true, Proto: 17}, {ID: 1, Off: 8, Len: 8, Proto: 1}, {ID: 1, Off: 8, Len: 8, MF: true, Proto: 6}}, want: "held held held", held: 3,
	}, {
		ids: "D9", what: "an extension header in front corrupted the result", family: 6,
		frags: []frag{{ID: 1, Len: 8, MF: true, Pre: routing8}, {ID: 1, Off: 8, Len: 8, Pre: routing8}}, want: "held complete",
		check: func(t *testing.T, r *rig, rs []Result) {
			h := rs[1].Datagram.Header()
			require.Len(t, h, 48)
			require.EqualValues(t, 43, h[6])
			require.EqualValues(t, 253, h[40])
			require.EqualValues(t, 24, h[5])
		},
	}, {
		ids: "D11 S5", what: "the sum of the bytes equalled the end, with a hole in between",
		frags: []frag{piece(1, 16, 16, true), piece(1, 40, 8, true), piece(1, 8, 16, true), piece(1, 0, 8, true), piece(1, 48, 8, false)},
		want:  "held held overlap held held", held: 1,
	}, {
		ids: "V2", what: "a first fragment of one byte crashed", family: 4,
		frags: []frag{piece(7, 0, 1, true), piece(7, 8, 1, false)}, want: "zero-length held", held: 1,
	}, {
		ids: "V3", what: "an overlap within a longer chain freed buffers twice",
		frags: []frag{piece(1, 0, 8, true), piece(1, 8, 8, true), piece(1, 24, 8, true), piece(1, 40, 8, true), piece(1, 4*8, 16, true)},
		want:  "held held held held overlap",
	}, {
		ids: "V4", what: "large datagrams in random order were put together wrongly",
		frags: []frag{piece(1, 17952, 8976, true), piece(1, 26928, 3080, false), piece(1, 0, 8976, true), piece(1, 8976, 8976, true)},
		want:  "held held held complete", data: [][][3]int{bytes0(30008)},
	}, {
		ids: "V6", what: "duplicates counted against the limit of fragments",
		frags: append(row(1, 2, 8)[:1], append(repeatSame(200, piece(1, 0, 8, true)), piece(1, 8, 8, false))...),
		want:  "held " + times(200, "duplicate") + "complete", data: [][][3]int{bytes0(16)},
	}, {
		ids: "V12 O1", what: "zero-length fragments were stored, or noticed under one policy only",
		frags: []frag{{ID: 1, Off: 8, MF: true}, {ID: 1, Off: 8, MF: true}, {ID: 1, Off: 8}, piece(2, 0, 8, true), {ID: 2, Off: 8, MF: true}},
		want:  "zero-length zero-length zero-length held zero-length",
	}, {
		ids: "V13", what: "use after free where a fragment covers another one whole",
		frags: []frag{piece(1, 8, 8, true), piece(1, 24, 8, true), piece(1, 0, 40, true), piece(1, 0, 40, true), piece(1, 40, 8, false)},
		want:  "held held overlap held complete", data: [][][3]int{bytes0(48)},
	}, {
		ids: "V15", what: "buffers leaked on every error",
		frags: append(repeat(50, piece(1, 0, 192, true), piece(1, 0, 200, true)), repeat(50, frag{ID: 200, Off: 8, MF: true})...),
		want:  times(50, "held overlap") + times(50, "zero-length"),
	}, {
		ids: "V17", what: "two datagrams with equal keys at once were mixed",
		frags: []frag{piece(1, 0, 16, true).of(1), piece(1, 0, 24, true).of(2), piece(1, 24, 8, false).of(2), piece(1, 16, 8, false).of(1)},
		want:  "held overlap held bad-end",
	}, {
		ids: "S6 S7", what: "overlap policies of other hosts; this one discards, as Linux does",
		frags: []frag{piece(1, 8, 24, false), piece(1, 0, 24, true), piece(2, 0, 24, true), piece(2, 32, 16, true), piece(2, 8, 32, true)},
		want:  "held overlap held held overlap",
	}, {
		ids: "S11", what: "a total length below the header was read beyond", family: 4,
		frags: []frag{{ID: 1, Len: 8, MF: true, Length: 19}, {ID: 1, Len: 8, MF: true, Opt: "01010101", Length: 23}, {ID: 1, Len: 8, MF: true, Length: -1}},
		want:  "bad-header bad-header bad-header",
	}, {
		ids: "S18", what: "an overlap was not noticed",
		frags: []frag{piece(1, 0, 408, true), piece(1, 808, 400, false), piece(1, 408, 528, true)}, want: "held held overlap",
	}, {
		ids: "S19", what: "offset minus 1 underflowed at offset 0",
		frags: []frag{piece(1, 8, 8, false), piece(1, 0, 8, true)}, want: "held complete", data: [][][3]int{bytes0(16)},
	}, {
		ids: "O15", what: "more holes than the table had places lost data silently",
		frags: append(holesOf(400), append(fillersOf(400), piece(1, 6400, 8, false))...),
		want:  times(800, "held") + "complete", data: [][][3]int{bytes0(6408)},
	}, {
		ids: "O16", what: "the time to live was taken for a timeout", family: 4,
		frags: []frag{{ID: 1, Len: 8, MF: true, TTL: 1}}, want: "held", held: 1,
		check: func(t *testing.T, r *rig, _ []Result) { r.step(14 * time.Second); r.held(1) },
	}, {
		ids: "O18", what: "addresses were no part of the key, and nothing expired without a last fragment",
		frags: []frag{{ID: 1, Len: 8, MF: true}, {ID: 1, Off: 8, Len: 8, Src: "?"}}, want: "held held", held: 2,
		check: func(t *testing.T, r *rig, _ []Result) { r.step(time.Minute); r.held(0) },
	}, {
		ids: "O19 O29", what: "the last received fragment's flag was used; later ones before the first were dropped",
		frags: backwards(row(1, 5, 8)), want: times(4, "held") + "complete", data: [][][3]int{bytes0(40)},
	}, {
		ids: "O22", what: "the flow label was part of the key, the offset in the wrong unit", family: 6,
		frags: []frag{{ID: 1, Len: 8, MF: true, Flow: 1}, {ID: 1, Off: 8, Len: 8, Flow: 2}}, want: "held complete", data: [][][3]int{bytes0(16)},
	}, {
		ids: "O26", what: "ending one datagram removed those of other hosts with its identification",
		frags: []frag{{ID: 1, Len: 8, MF: true}, {ID: 1, Len: 8, MF: true, Src: "?"}, {ID: 1, Len: 16, MF: true}, {ID: 1, Off: 8, Len: 8, Src: "?"}},
		want:  "held held overlap complete", data: [][][3]int{bytes0(16)},
	},
}

func repeatSame(n int, f frag) (fs []frag) {
	for range n {
		fs = append(fs, f)
	}
	return fs
}

// holesOf leaves a hole in front of each fragment, fillersOf fills them.
func holesOf(n int) (fs []frag) {
	for i := range n {
		fs = append(fs, piece(1, 16*i+8, 8, true))
	}
	return fs
}

func fillersOf(n int) (fs []frag) {
	for i := range n {
		fs = append(fs, piece(1, 16*(i*7%n), 8, true))
	}
	return fs
}
