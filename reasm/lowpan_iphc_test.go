package reasm

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// slowLink is what a frame means, by a parser that reads RFC 4944 and RFC 6282
// slowly: bits are characters, and addresses are written out and read again.
type slowLink struct {
	verdict  Verdict
	src, dst LinkAddr
	size     int
	tag      uint16
	off, end int
	payload  []byte
	head     []byte // what a first fragment's headers stand for
	unsummed bool
}

// bitString is a frame as a string of 0 and 1.
type bitString struct {
	s    string
	over bool // something was taken that is not there
}

func (b *bitString) bits(n int) (v uint64) {
	if n > len(b.s) {
		b.over, b.s = true, ""
		return 0
	}
	for _, c := range b.s[:n] {
		v = v*2 + uint64(c-'0')
	}
	b.s = b.s[n:]
	return v
}

func (b *bitString) rest() (out []byte) {
	for len(b.s) > 0 {
		out = append(out, byte(b.bits(8)))
	}
	return out
}

func slowLoWPAN(frame []byte, src, dst LinkAddr) slowLink {
	b := bitString{}
	for _, c := range frame {
		b.s += fmt.Sprintf("%08b", c)
	}
	p := slowLink{src: src, dst: dst}
	if strings.HasPrefix(b.s, "10") {
		b.bits(2)
		short := []bool{b.bits(1) == 1, b.bits(1) == 1}
		if b.bits(4) == 15 {
			b.bits(8)
		}
		for i, a := range []*LinkAddr{&p.src, &p.dst} {
			if short[i] {
				*a = ShortAddr(uint16(b.bits(16)))
			} else {
				*a = ExtendedAddr([8]byte(binary.BigEndian.AppendUint64(nil, b.bits(64))))
			}
		}
	}
	if strings.HasPrefix(b.s, "01010000") {
		b.bits(16)
	}
	if b.over || len(b.s) == 0 {
		return slowLink{verdict: Truncated}
	}
	kind := b.bits(5)
	if kind != 0b11000 && kind != 0b11100 {
		return slowLink{verdict: Whole}
	}
	p.size, p.tag = int(b.bits(11)), uint16(b.bits(16))
	if kind == 0b11100 {
		p.off = int(b.bits(8)) * 8
	}
	switch {
	case b.over:
		return slowLink{verdict: Truncated}
	case p.size < 40:
		return slowLink{verdict: BadHeader}
	case kind == 0b11000:
		if v := p.expand(&b); v != Held {
			return slowLink{verdict: v}
		}
	case p.off < 40:
		return slowLink{verdict: BadHeader}
	}
	p.payload = b.rest()
	p.end = p.off + len(p.head) + len(p.payload)
	switch {
	case p.end > p.size:
		p.verdict = OffsetTooLarge
	case p.end == p.off, p.end < p.size && p.end%8 != 0:
		p.verdict = BadLength
	}
	return p
}

// expand writes the header as its fields, in order.
func (p *slowLink) expand(b *bitString) Verdict {
	switch {
	case len(b.s) == 0:
		return Truncated
	case strings.HasPrefix(b.s, "01000001"):
		b.bits(8)
		for range 40 {
			p.head = append(p.head, byte(b.bits(8)))
		}
		switch {
		case b.over:
			return ShortChain
		case p.head[0]/16 != 6, int(p.head[4])*256+int(p.head[5]) != p.size-40:
			return BadHeader
		}
		return Held
	case !strings.HasPrefix(b.s, "011"):
		return Unsupported
	case len(b.s) < 16:
		return Truncated
	}
	b.bits(3)
	tf, nh, hlim := b.bits(2), b.bits(1), b.bits(2)
	cid, sac, sam, m, dac, dam := b.bits(1), b.bits(1), b.bits(2), b.bits(1), b.bits(1), b.bits(2)
	b.bits(int(cid) * 8)
	var ecn, dscp, flow uint64
	switch tf {
	case 0:
		ecn, dscp, _, flow = b.bits(2), b.bits(6), b.bits(4), b.bits(20)
	case 1:
		ecn, _, flow = b.bits(2), b.bits(2), b.bits(20)
	case 2:
		ecn, dscp = b.bits(2), b.bits(6)
	}
	next := uint64(17)
	if nh == 0 {
		next = b.bits(8)
	}
	hops := map[uint64]uint64{1: 1, 2: 64, 3: 255}[hlim]
	if hlim == 0 {
		hops = b.bits(8)
	}
	src, v := slowUnicast(b, sam, p.src, sac == 1)
	if v != Held {
		return v
	}
	var dst string
	switch m<<3 | dac<<2 | dam {
	case 0b0100, 0b1101, 0b1110, 0b1111:
		return BadHeader
	case 0b0101, 0b0110, 0b0111, 0b1100:
		return Unsupported
	case 0b1000:
		dst = slowGroups(b, 8)
	case 0b1001:
		dst = fmt.Sprintf("ff%02x::%02x:%x:%x", b.bits(8), b.bits(8), b.bits(16), b.bits(16))
	case 0b1010:
		dst = fmt.Sprintf("ff%02x::%02x:%x", b.bits(8), b.bits(8), b.bits(16))
	case 0b1011:
		dst = fmt.Sprintf("ff02::%02x", b.bits(8))
	default:
		if dst, v = slowUnicast(b, dam, p.dst, false); v != Held {
			return v
		}
	}
	var udp []byte
	if nh == 1 {
		udp, v = p.expandUDP(b)
	}
	switch {
	case b.over:
		return Truncated
	case v != Held:
		return v
	}
	p.head = binary.BigEndian.AppendUint32(nil, uint32(6<<28|dscp<<22|ecn<<20|flow))
	p.head = binary.BigEndian.AppendUint16(p.head, uint16(p.size-40))
	p.head = append(p.head, byte(next), byte(hops))
	p.head = append(p.head, netip.MustParseAddr(src).AsSlice()...)
	p.head = append(p.head, netip.MustParseAddr(dst).AsSlice()...)
	p.head = append(p.head, udp...)
	return Held
}

func (p *slowLink) expandUDP(b *bitString) ([]byte, Verdict) {
	kind, c, ports := b.bits(5), b.bits(1), b.bits(2)
	switch {
	case b.over:
		return nil, Truncated
	case kind != 0b11110:
		return nil, Unsupported
	case p.size < 48:
		return nil, BadHeader
	}
	var src, dst uint64
	switch ports {
	case 0:
		src, dst = b.bits(16), b.bits(16)
	case 1:
		src, dst = b.bits(16), 0xf000+b.bits(8)
	case 2:
		src, dst = 0xf000+b.bits(8), b.bits(16)
	case 3:
		src, dst = 0xf0b0+b.bits(4), 0xf0b0+b.bits(4)
	}
	sum := uint64(0)
	if p.unsummed = c == 1; c == 0 {
		sum = b.bits(16)
	}
	return binary.BigEndian.AppendUint64(nil, src<<48|dst<<32|uint64(p.size-40)<<16|sum), Held
}

// slowUnicast reads an address that is none of a group, as text.
func slowUnicast(b *bitString, mode uint64, link LinkAddr, context bool) (string, Verdict) {
	switch {
	case context && mode == 0:
		return "::", Held
	case context:
		return "", Unsupported
	case mode == 0:
		return slowGroups(b, 8), Held
	case mode == 1:
		return "fe80::" + slowGroups(b, 4), Held
	case mode == 2:
		return fmt.Sprintf("fe80::ff:fe00:%x", b.bits(16)), Held
	}
	switch text := link.String(); len(text) {
	case 4:
		if text != "none" {
			return "fe80::ff:fe00:" + text, Held
		}
	case 16:
		var high uint64
		fmt.Sscanf(text[:2], "%x", &high)
		return fmt.Sprintf("fe80::%02x%s:%s:%s:%s", high^2, text[2:4], text[4:8], text[8:12], text[12:]), Held
	}
	return "", BadHeader
}

func slowGroups(b *bitString, n int) string {
	var groups []string
	for range n {
		groups = append(groups, fmt.Sprintf("%x", b.bits(16)))
	}
	return strings.Join(groups, ":")
}

// checkLink compares a Fragment with what the slow parser made of the frame.
func checkLink(t require.TestingT, frame []byte, f *Fragment, want slowLink) {
	require.Equal(t, want.verdict.String(), f.Verdict.String(), "%x", frame)
	require.False(t, f.problem.Due)
	require.Len(t, f.Packet, len(frame))
	if want.verdict != Held {
		return
	}
	require.Equal(t, want.src, f.Key.LinkSrc())
	require.Equal(t, want.dst, f.Key.LinkDst())
	require.Equal(t, KeyLoWPAN(want.src, want.dst, want.tag, uint16(want.size), 7), f.Key)
	require.EqualValues(t, want.off, f.Offset)
	require.EqualValues(t, want.end, f.end())
	require.EqualValues(t, len(want.head), f.lead)
	require.Equal(t, string(want.payload), string(f.Payload()))
	require.Equal(t, want.end < want.size, f.More)
	if want.off == 0 {
		var h lowpanHeader
		require.Equal(t, Held, h.expand(frame[f.nextHeaderAt:], &f.Key))
		require.Equal(t, hex.EncodeToString(want.head), hex.EncodeToString(h.b[:h.n]))
		require.Equal(t, want.unsummed, h.unsummed)
	}
}

// Whatever a sender may leave out comes back, and every cut frame is Truncated.
func TestLoWPANHeaderComesBackFromEveryCompression(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	modes := map[string]int{}
	for range 20000 {
		links := []LinkAddr{linkA, linkB, ExtendedAddr([8]byte{1, 2, 3, 4, 5, 6, 7, 8}), {}}
		src, dst := links[rng.IntN(4)], links[rng.IntN(4)]
		packet := linkUDP(48+rng.IntN(60), src, dst, rng.IntN)
		head, lead, nhc := compress(packet, src, dst, rng.IntN)
		var h lowpanHeader
		k := KeyLoWPAN(src, dst, 1, uint16(len(packet)), 0)
		require.Equal(t, Held, h.expand(head, &k), "%x of %x", head, packet)
		require.Equal(t, len(head), h.used)
		require.Equal(t, lead, h.n)
		if h.unsummed {
			require.Zero(t, binary.BigEndian.Uint16(h.b[46:]))
			copy(h.b[46:], packet[46:48])
		}
		require.Equal(t, hex.EncodeToString(packet[:lead]), hex.EncodeToString(h.b[:h.n]), "%x", head)
		for n := range head {
			var cut lowpanHeader
			require.Equal(t, Truncated, cut.expand(head[:n], &k))
		}
		modes[fmt.Sprint("tf ", head[0]>>3&3)]++
		modes[fmt.Sprint("hlim ", head[0]&3)]++
		modes[fmt.Sprint("source ", head[1]>>4&7)]++
		modes[fmt.Sprint("destination ", head[1]&15)]++
		if lead == 48 {
			modes[fmt.Sprint("ports ", nhc&3, " unsummed ", h.unsummed)]++
		}
	}
	t.Log(modes)
	require.Len(t, modes, 4+4+5+8+8, "every mode that needs no context")
	for m, n := range modes {
		require.Greater(t, n, 20, m)
	}
}
