package live

import (
	"encoding/hex"

	"corelane/internal/vectors"
)

func (g *gen) disturbed() []vectors.Step {
	steps := g.pieces(1, g.between(2, 6), 1, pick(g, 1, 2, 3, 8))
	g.order(steps)
	for range pick(g, 0, 1, 1, 1, 2, 3) {
		steps = g.spoil(steps)
	}
	if g.chance(25) { // the identification is used again
		again := g.pieces(1, g.between(2, 3), 1, 2)
		g.order(again)
		steps = append(steps, again...)
	}
	return steps
}

func (g *gen) fragment(units int) vectors.Step {
	s := vectors.Step{ID: 1, Off: 8 * g.IntN(units), MF: g.chance(75)}
	s.Len = 8 * g.between(1, min(4, units))
	if g.chance(6) {
		s.Len = g.IntN(s.Len + 8)
	} else if !s.MF {
		s.Len -= g.IntN(8)
	}
	return s
}

func (g *gen) free() []vectors.Step {
	units := pick(g, 3, 4, 6, 12)
	steps := make([]vectors.Step, g.between(2, 9))
	for i := range steps {
		steps[i] = g.fragment(units)
	}
	return steps
}

func (g *gen) headers() []vectors.Step {
	steps := g.pieces(1, g.between(2, 5), 1, 4)
	g.order(steps)
	if g.chance(40) {
		steps = g.spoil(steps)
	}
	ecn := g.IntN(4) // the same for all, most of the time
	proto := pick(g, 0, 0, 0, 254, 200)
	for i := range steps {
		s := &steps[i]
		s.TOS, s.TTL = g.IntN(64)<<2|ecn, g.between(1, 255)
		if g.chance(20) {
			s.TOS ^= 1 + g.IntN(3)
		}
		if g.chance(15) {
			s.Trail = pick(g, 1, 8, 15, 200, 700)
		}
		s.RB = g.chance(5)
		if g.family == 4 {
			s.DF = g.chance(50)
			s.Proto = proto
			if g.chance(25) {
				s.Opt = pick(g, "01010101", "94040000", "9e04abcd", "88040102", "9e0201", "9f0c00112233445566778899")
			}
			continue
		}
		s.Flow = g.IntN(1 << 20)
		s.Proto = pick(g, 0, 0, 254, 59, 6, 17, 200)
		if s.Proto == 17 || s.Proto == 6 {
			s.Len += 8 * g.IntN(3)
		}
		s.Pre = g.before()
	}
	if g.family == 6 && g.chance(60) {
		for i := range steps { // one protocol for all, as it should be
			steps[i].Proto = steps[0].Proto
		}
	}
	return steps
}

// before is what stands in front of a Fragment header.
func (g *gen) before() (pre []vectors.Ext) {
	if g.chance(15) {
		pre = append(pre, vectors.Ext{NH: 0, Hex: g.options()})
	}
	if g.chance(15) {
		pre = append(pre, vectors.Ext{NH: 60, Hex: g.options()})
	}
	if g.chance(6) {
		left := pick(g, "00", "00", "00", "01")
		pre = append(pre, vectors.Ext{NH: 43, Hex: "0000fd" + left + "00000000"})
	}
	return pre
}

// options is a header of 8 or 16 bytes with options nobody knows; their highest
// bits say what to do then.
func (g *gen) options() string {
	b := make([]byte, pick(g, 8, 8, 16))
	for i := range b {
		b[i] = byte(g.Uint32())
	}
	b[0], b[1] = 0, byte(len(b)/8-1)
	b[2], b[3] = pick[byte](g, 0x1e, 0x1e, 0x1e, 0x1e, 0x1e, 0x3e, 0x5e, 0x9e, 0xde), byte(len(b)-4)
	if g.chance(20) { // PadN, right or not
		b[2] = 1
		for i := 4; i < len(b) && !g.chance(3); i++ {
			b[i] = 0
		}
	}
	return hex.EncodeToString(b)
}

// chained puts headers behind the Fragment header, where the first fragment may
// not hold them all, and second Fragment headers on either side of it.
func (g *gen) chained() []vectors.Step {
	steps := g.disturbed()
	fragment := func(id byte) []byte { // an inner or outer one; the builder may set its first byte
		word := byte(8*g.IntN(3) + pick(g, 0, 0, 1))
		return []byte{pick[byte](g, 253, 60, 6), 0, 0, word, 0, 0, 0, id}
	}
	for range g.between(1, 2) {
		s := &steps[g.IntN(len(steps))]
		switch g.IntN(3) {
		case 0:
			s.Pre = append(g.before(), vectors.Ext{NH: 44, Hex: hex.EncodeToString(fragment(1))})
		case 1:
			s.Proto, s.Data = 44, hex.EncodeToString(fragment(byte(g.between(1, 2))))
		case 2:
			n := 8 * g.between(1, 3)
			b := make([]byte, n)
			b[0], b[1] = pick[byte](g, 253, 254, 6, 17, 44, 58, 59, 60, 200), byte(n/8-1)
			b[2], b[3] = 0x1e, byte(n-4)
			s.Proto, s.Data = pick(g, 60, 60, 43, 51, 51, -1), hex.EncodeToString(b)
			if g.chance(70) { // a first fragment about as long as its headers
				s.Off, s.Len, s.MF = 0, n-8+8*g.between(0, 4), true
			}
			if s.Proto == 43 {
				s.Data = hex.EncodeToString(b[:2]) + "fd00" + hex.EncodeToString(b[4:])
			}
		}
	}
	if g.chance(50) { // one that completes with the first one's headers
		steps = append(steps, vectors.Step{ID: 9, Off: 64, Len: 8})
		first := steps[g.IntN(len(steps))]
		first.ID, first.Off, first.Len, first.MF = 9, 0, 64, true
		steps = append(steps, first)
	}
	return steps
}

// mixed interleaves datagrams whose keys differ in one thing or another.
func (g *gen) mixed() []vectors.Step {
	type key struct {
		src, dst string
		id       uint32
		iface    int
		proto    int
	}
	keys := []key{{id: 1}, {id: 2}, {id: 1, dst: "10.9.0.2"}, {id: 1, src: "10.9.1.2"}, {id: 1, proto: 254}, {id: 1, iface: 1},
		{id: 1, dst: "224.0.0.1"}, {id: 1, dst: "10.9.255.255"}, {id: 1, dst: "10.8.0.1"}}
	if g.family == 6 {
		keys = []key{{id: 1}, {id: 1 << 16}, {id: 1, dst: "fd09::2"}, {id: 1, src: "fd09::1:2"}, {id: 1, proto: 254}, {id: 1, iface: 1},
			{id: 1, dst: "ff02::1"}, {id: 1, dst: "ff02::1", iface: 1}, {id: 1, dst: "fe80::1", src: "fe80::2"},
			{id: 1, dst: "fe80::1", src: "fe80::2", iface: 1}, {id: 1, dst: "fd09::3"}}
	}
	var all [][]vectors.Step
	n := g.between(2, 3)
	for range n {
		k := pick(g, keys...)
		steps := g.pieces(k.id, g.between(2, 4), 1, 3)
		g.order(steps)
		if g.chance(30) {
			steps = g.spoil(steps)
		}
		for i := range steps {
			steps[i].Src, steps[i].Dst, steps[i].If, steps[i].Proto = k.src, k.dst, k.iface, k.proto
		}
		all = append(all, steps)
	}
	if g.chance(15) {
		all = append(all, []vectors.Step{{ID: 1, Len: g.between(1, 20), Plain: g.chance(50)}}) // whole or atomic
	}
	return g.interleave(all)
}

func (g *gen) interleave(all [][]vectors.Step) (steps []vectors.Step) {
	left := 0
	for _, s := range all {
		left += len(s)
	}
	for ; left > 0; left-- {
		i := g.IntN(len(all))
		for len(all[i]) == 0 {
			i = g.IntN(len(all))
		}
		steps = append(steps, all[i][0])
		all[i] = all[i][1:]
	}
	return steps
}

func (g *gen) distant() []vectors.Step {
	g.cfg.MaxDist = pick(g, 1, 1, 2, 2, 3, 4, 6, -1)
	steps := make([]vectors.Step, g.between(6, 16))
	for i := range steps {
		at := g.IntN(3)
		s := vectors.Step{ID: uint32(g.between(1, 3)), Off: 8 * at, Len: 8, MF: at < 2, DF: g.chance(30)}
		if g.chance(20) {
			s.Src = "10.9.1.2"
		}
		if g.chance(8) {
			s.Dst = "10.9.0.2"
		}
		if g.chance(8) {
			s.TOS = g.IntN(4)
		}
		if g.chance(5) {
			s.Len = pick(g, 0, 7, 9, 16, 600)
		}
		steps[i] = s
	}
	return steps
}

// far puts about as many strangers between two fragments as max_dist allows.
func (g *gen) far() []vectors.Step {
	two := g.pieces(1, 2, 1, 2)
	steps := []vectors.Step{two[0]}
	for i := range g.between(61, 66) {
		steps = append(steps, vectors.Step{ID: uint32(2 + i%pick(g, 1, 20)), Off: 8 * g.IntN(3), Len: 8, MF: true})
	}
	return append(steps, two[1])
}

func (g *gen) limited() []vectors.Step {
	g.cfg.High = pick(g, 1, 184, 200, 600, 1016, 1032, 1033, 1500, 2000, 2032, 2064, 2500, 3000, 4000, 5000, 6000, 8000)
	steps := make([]vectors.Step, g.between(5, 14))
	for i := range steps {
		at := g.IntN(3)
		s := vectors.Step{ID: uint32(g.between(1, 4)), Off: 8 * at, Len: 8, MF: at < 2, Trail: pick(g, 0, 0, 0, 200, 600)}
		if g.chance(15) {
			s.Len = pick(g, 0, 3, 9, 16, 16, 24, 700)
		}
		if g.chance(4) {
			s.Off, s.MF = 0, false
		}
		steps[i] = s
	}
	return steps
}

// many holds dozens of runs at once.
func (g *gen) many() []vectors.Step {
	steps := g.pieces(1, g.between(12, 40), 1, pick(g, 1, 3, 20))
	if g.chance(60) {
		g.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	} else {
		g.order(steps)
	}
	for range g.IntN(4) {
		steps = g.spoil(steps)
	}
	return steps
}

// big has datagrams around the greatest length, or many bytes.
func (g *gen) big() []vectors.Step {
	var steps []vectors.Step
	switch g.IntN(5) {
	case 0: // ends near 65535, give or take the headers
		end := 65535 - 80 + g.IntN(100)
		if g.chance(50) {
			end = pick(g, 65535, 65535, 65515) + g.between(-1, 1)
		}
		cut := 8 * g.between(1, end/8-1)
		if g.chance(50) {
			cut = end / 8 * 8
		}
		steps = []vectors.Step{{ID: 1, Len: cut, MF: true}, {ID: 1, Off: cut, Len: end - cut}}
		if cut > 60000 {
			steps = append([]vectors.Step{{ID: 1, Len: 30000, MF: true}}, steps...)
			steps[1].Off, steps[1].Len = 30000, cut-30000
		}
	case 1: // beyond it
		steps = g.pieces(1, g.between(2, 4), 1, 3)
		for i := range steps[1:] {
			steps[i+1].Off += 65536 - 8*g.between(1, 8)
		}
	case 2: // one fragment near the greatest packet, IPv6's of 65536 bytes among them
		cut := 65488 + 8*g.between(-2, 4)
		steps = []vectors.Step{{ID: 1, Len: cut, MF: true}, {ID: 1, Off: cut, Len: g.between(1, 65540-cut)}}
		return append(steps, steps[0])
	default:
		steps = g.pieces(1, g.between(20, 45), 1, pick(g, 100, 180))
	}
	g.order(steps)
	if g.chance(30) {
		steps = g.spoil(steps)
	}
	return steps
}

func (g *gen) malformed() []vectors.Step {
	steps := g.disturbed()
	for range g.between(1, 2) {
		s := &steps[g.IntN(len(steps))]
		switch g.IntN(6) {
		case 0:
			s.Trail = g.between(1, 40)
		case 1:
			s.Cut = g.IntN(max(s.Len, 0) + pick(g, 1, 1, 28))
		case 2:
			s.Length = pick(g, -1, 4, 8, 16, 19, 20, 24, 28, 1000)
		case 3:
			s.BadCk = true
		case 4:
			s.Patch = []vectors.Patch{{At: 0, Hex: pick(g, "55", "00", "44", "4f", "60")}}
			if g.family == 6 {
				s.Patch[0].Hex = pick(g, "50", "00", "70")
			} else if s.Patch[0].Hex == "60" {
				s.Patch[0].Hex = "70"
			}
		case 5:
			s.Length = s.Len + g.between(0, 40)
		}
	}
	return steps
}

func (g *gen) timed() (steps []vectors.Step) {
	g.cfg.TimeoutMS = 1000
	if g.family == 4 && g.chance(30) {
		g.cfg.MaxDist = g.between(1, 3)
	}
	for range g.between(4, 7) {
		for range g.between(1, 2) {
			at := g.IntN(3)
			s := vectors.Step{ID: uint32(g.between(1, 2)), Off: 8 * at, Len: pick(g, 8, 8, 16), MF: at < 2}
			if g.chance(15) {
				s.Len = pick(g, 9, 600, 1400)
			}
			steps = append(steps, s)
		}
		if g.chance(70) {
			steps = append(steps, vectors.Step{Pause: pick(g, 400, 800)})
		}
	}
	return append(steps, vectors.Step{Pause: 1600})
}
