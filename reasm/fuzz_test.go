package reasm

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// parsed is what a packet means, by a parser that reads the RFCs slowly.
type parsed struct {
	verdict  Verdict
	length   int // of Packet
	hdr      int
	off      int
	more, df bool
	ecn      byte
	src, dst string
	id       uint32
	proto    byte
	problem  *Problem
}

func slowIPv4(b []byte, verify bool) parsed {
	switch {
	case len(b) == 0, b[0]>>4 != 4:
		return parsed{verdict: BadHeader}
	case len(b) < 20:
		return parsed{verdict: Truncated}
	}
	u16 := func(at int) int { return int(b[at])<<8 | int(b[at+1]) }
	p := parsed{hdr: int(b[0]) % 16 * 4, length: u16(2)}
	switch {
	case p.hdr < 20, p.length < p.hdr:
		return parsed{verdict: BadHeader}
	case len(b) < p.hdr:
		return parsed{verdict: Truncated}
	}
	sum := 0
	for at := 0; at < p.hdr; at += 2 {
		sum += u16(at)
	}
	switch {
	case verify && sum%65535 != 0:
		return parsed{verdict: BadChecksum}
	case len(b) < p.length:
		return parsed{verdict: Truncated}
	}
	p.off, p.more, p.df = u16(6)%8192*8, u16(6)/8192%2 == 1, u16(6)/16384%2 == 1
	p.ecn, p.id, p.proto = b[1]%4, uint32(u16(4)), b[9]
	p.src, p.dst = string(b[12:16]), string(b[16:20])
	if p.off == 0 && !p.more {
		p.verdict = Whole
	} else if p.more {
		p.length -= (p.length - p.hdr) % 8
	}
	return p
}

func slowIPv6(b []byte) parsed {
	switch {
	case len(b) == 0, b[0]>>4 != 6:
		return parsed{verdict: BadHeader}
	case len(b) < 40:
		return parsed{verdict: Truncated}
	}
	u16 := func(at int) int { return int(b[at])<<8 | int(b[at+1]) }
	p := parsed{length: 40 + u16(4), ecn: b[1] >> 4 % 4, src: string(b[8:24]), dst: string(b[24:40])}
	if len(b) < p.length {
		return parsed{verdict: Truncated}
	}
	b = b[:p.length]
	at, kind := 40, b[6]
	for kind == 0 || kind == 43 || kind == 60 {
		if at+1 >= len(b) || at+int(b[at+1])*8+8 > len(b) {
			return parsed{verdict: Whole, length: p.length}
		}
		kind, at = b[at], at+int(b[at+1])*8+8
	}
	switch {
	case kind != 44:
		return parsed{verdict: Whole, length: p.length}
	case at+8 > len(b):
		return parsed{verdict: NoRoom, length: p.length, problem: &Problem{Due: true, Pointer: uint32(at)}}
	}
	p.hdr = at + 8
	p.off, p.more = u16(at+2)/8*8, u16(at+2)%2 == 1
	p.id = binary.BigEndian.Uint32(b[at+4:])
	end := p.off + p.length - p.hdr
	switch {
	case p.off == 0 && !p.more:
		p.verdict = Atomic
	case p.off == 0 && !wholeChain(b[p.hdr:], b[at]):
		p.verdict, p.problem = ShortChain, &Problem{Due: true, Code: 3}
	case end > 65535:
		p.verdict, p.problem = OffsetTooLarge, &Problem{Due: true, Pointer: uint32(at + 2)}
	case p.more && end%8 != 0:
		p.verdict, p.problem = BadLength, &Problem{Due: true, Pointer: 4}
	}
	return p
}

// wholeChain reports whether a chain that starts with a header of this kind
// reaches its upper layer within b, as the kernel looks at it: what it cannot
// read of an extension header it does not miss.
func wholeChain(b []byte, kind byte) bool {
	size := map[byte]int{6: 20, 17: 8, 58: 8}
	switch kind {
	case 59:
		return true
	case 0, 43, 60, 51, 44:
		n := 8
		if len(b) < 2 || kind == 44 && (len(b) < 4 || b[2] != 0 || b[3] > 7) { // a Fragment header is read up to its offset
			return true
		}
		if kind == 51 {
			n = 8 + 4*int(b[1])
		} else if kind != 44 {
			n = 8 + 8*int(b[1])
		}
		return wholeChain(b[min(n, len(b)):], b[0]) && (n <= len(b) || cutIsMissed(b[0]))
	}
	return len(b) >= max(size[kind], 1)
}

// cutIsMissed: behind a header that is cut, only an upper layer is missed.
func cutIsMissed(kind byte) bool { return slices.Contains([]byte{59, 0, 43, 60, 51, 44}, kind) }

// checkParsed compares a Fragment with what the slow parser made of the packet.
func checkParsed(t *testing.T, b []byte, f *Fragment, want parsed, fam Family) {
	require.Equal(t, want.verdict.String(), f.Verdict.String())
	require.Equal(t, want.problem != nil, f.problem.Due)
	if want.problem != nil {
		require.Equal(t, *want.problem, f.problem)
	}
	require.LessOrEqual(t, len(f.Packet), len(b))
	if len(f.Packet) > 0 {
		require.True(t, &f.Packet[0] == &b[0], "the packet is not copied")
	}
	if want.verdict.Malformed() {
		return
	}
	require.Len(t, f.Packet, want.length)
	if want.hdr == 0 {
		return
	}
	got := parsed{
		want.verdict, len(f.Packet), int(f.HeaderLen), int(f.Offset), f.More, f.DF, f.ECN,
		string(f.Key.Src().AsSlice()), string(f.Key.Dst().AsSlice()), f.Key.ID(), f.Key.Proto(), want.problem,
	}
	require.Equal(t, want, got)
	require.Equal(t, fam, f.Key.Family())
	require.Equal(t, b[want.hdr:want.length], f.Payload())
}

// someWays is every mode and call of one design, which n selects: a fuzz target
// tries many inputs rather than few inputs everywhere.
func someWays(n int) (ws []way) {
	ds := Designs()
	for _, w := range waysOnce() {
		if w.design == ds[n%len(ds)].Name {
			ws = append(ws, w)
		}
	}
	return ws
}

// addSomewhere gives a packet to a cache: whatever the network sends, nothing
// panics and the books balance.
func addSomewhere(t *testing.T, f *Fragment) {
	for _, w := range someWays(len(f.Packet)) {
		if w.batch {
			continue
		}
		cfg := LinuxConfig()
		cfg.Mode, cfg.Free = w.mode, func([]Buffer) {}
		c, err := New(w.design, cfg)
		require.NoError(t, err)
		g := *f
		r := c.Lane(0).Add(0, &g)
		require.NotEqual(t, Complete, r.Verdict, "one packet makes no datagram")
		require.NoError(t, c.Close())
		require.Zero(t, c.Stats().Bytes)
	}
}

func FuzzParseIPv4(f *testing.F) {
	for _, s := range []frag{
		piece(1, 0, 8, true), piece(2, 8, 5, false), piece(3, 0, 13, true), {Len: 8, RB: true, DF: true},
		{ID: 4, Len: 16, MF: true, Opt: "94040000", TOS: 3}, {ID: 5, Len: 8, Length: 19}, {ID: 6, Len: 9, Cut: 1, Trail: 7},
	} {
		b := s.packet(4, 0)
		f.Add(b, true)
		f.Add(b[:len(b)/2], false)
	}
	f.Fuzz(func(t *testing.T, b []byte, verify bool) {
		var frag Fragment
		p := Parser{VerifyChecksum: verify}
		require.Equal(t, p.IPv4(b, 7, &frag), frag.Verdict)
		checkParsed(t, b, &frag, slowIPv4(b, verify), IPv4)
		addSomewhere(t, &frag)
		if len(b) > 0 && b[0]>>4 != 6 {
			again := Fragment{DF: true, nextHeaderAt: 9, problem: Problem{true, 1, 2}}
			require.Equal(t, frag.Verdict, p.Parse(b, 7, &again))
			checkParsed(t, b, &again, slowIPv4(b, verify), IPv4)
		}
	})
}

func FuzzParseIPv6(f *testing.F) {
	pad := vecPad(8)
	for _, s := range []frag{
		piece(1, 0, 8, true), piece(2, 8, 5, false), piece(3, 0, 13, true), piece(4, 65528, 8, true), {Len: 8, Plain: true},
		{ID: 4, Len: 16, MF: true, Pre: pad, TOS: 3, RB: true}, {ID: 5, Len: 8, Pre: vecPad(264)}, {ID: 6, Len: 9, Length: 7},
		{ID: 7, Len: 16, MF: true, Proto: 6}, {ID: 7, Len: 16, MF: true, Proto: 60, Data: "06000104000000002c"},
		{ID: 7, Len: 32, MF: true, Proto: 44, Data: "3300000100000001"}, {ID: 7, Len: 8, MF: true, Proto: 51, Data: "11"},
	} {
		b := s.packet(6, 0)
		f.Add(b)
		f.Add(b[:len(b)-3])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var frag Fragment
		var p Parser
		require.Equal(t, p.IPv6(b, 7, &frag), frag.Verdict)
		checkParsed(t, b, &frag, slowIPv6(b), IPv6)
		addSomewhere(t, &frag)
		if len(b) > 0 && b[0]>>4 == 6 {
			again := Fragment{DF: true, nextHeaderAt: 9, problem: Problem{true, 1, 2}}
			require.Equal(t, frag.Verdict, p.Parse(b, 7, &again))
			checkParsed(t, b, &again, slowIPv6(b), IPv6)
		}
	})
}

// FuzzOps plays operation lists against the reference.
func FuzzOps(f *testing.F) {
	f.Add(byte(0), []byte("a few bytes of nothing in particular"))
	f.Add(byte(2), make([]byte, 40*opBytes))
	for i := range byte(8) {
		b := make([]byte, 30*opBytes)
		for k := range b {
			b[k] = byte(k*k*7+k) ^ i*29
		}
		f.Add(i, b)
	}
	f.Fuzz(func(t *testing.T, config byte, b []byte) {
		ops := decodeOps(b[:min(len(b), 80*opBytes)])
		for _, w := range someWays(int(config) / len(opConfigs)) {
			playOps(t, w, opConfigs[int(config)%len(opConfigs)](), ops)
		}
	})
}

// FuzzBuild cuts a packet as RFC 791 and RFC 8200 say, shuffles the pieces, and
// wants the packet back, byte for byte.
func FuzzBuild(f *testing.F) {
	f.Add(byte(0), []byte{1, 2, 3, 4}, []byte{9, 8, 7}, uint16(100), uint64(1))
	f.Add(byte(1), []byte{1, 2, 3, 4, 5}, []byte{1}, uint16(4000), uint64(2))
	f.Add(byte(3), []byte{}, []byte{200, 3, 100}, uint16(65000), uint64(3))
	f.Add(byte(2), []byte{0xff, 0xff, 0xff}, []byte{}, uint16(9), uint64(4))
	f.Fuzz(func(t *testing.T, kind byte, head, cuts []byte, length uint16, seed uint64) {
		family := 4 + 2*int(kind&1)
		packet := wholePacket(family, kind, head, int(length))
		pieces := cutPacket(family, packet, cuts)
		if len(pieces) < 2 {
			return
		}
		want := slices.Clone(packet)
		if ecn := ecnOf(family, packet); ecn != 0 && kind&8 != 0 {
			mark := int(seed % uint64(len(pieces))) // a router marks one of them
			setCE(family, pieces[mark])
			setCE(family, want)
		}
		for i := range pieces { // a shuffle by the seed
			seed = seed*6364136223846793005 + 1442695040888963407
			j := int(seed>>33) % (i + 1)
			pieces[i], pieces[j] = pieces[j], pieces[i]
		}
		for _, w := range someWays(int(kind) + len(cuts)) {
			cfg := DefaultConfig()
			cfg.Mode, cfg.Free = w.mode, func([]Buffer) {}
			c, err := New(w.design, cfg)
			require.NoError(t, err)
			fs, rs := make([]Fragment, len(pieces)), make([]Result, len(pieces))
			for i, b := range pieces {
				require.Equal(t, Held, Parser{VerifyChecksum: true}.Parse(slices.Clone(b), 0, &fs[i]))
			}
			if w.batch {
				c.Lane(0).AddBatch(0, fs, rs)
			} else {
				for i := range fs {
					rs[i] = c.Lane(0).Add(0, &fs[i])
				}
			}
			last := rs[len(rs)-1]
			require.Equal(t, Complete, last.Verdict)
			require.Equal(t, want, last.Datagram.Bytes())
			last.Datagram.Release()
			require.NoError(t, c.Close())
			require.Zero(t, c.Stats().Bytes)
		}
	})
}
