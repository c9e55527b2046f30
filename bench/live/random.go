package live

import (
	"fmt"
	"math/rand/v2"

	"corelane/internal/vectors"
)

// kind is one sort of random case. Weights are per mille of all.
type kind struct {
	name   string
	w4, w6 int
	steps  func(*gen) []vectors.Step
}

var kinds = []kind{
	{"rand", 300, 310, (*gen).disturbed},
	{"free", 210, 210, (*gen).free},
	{"hdr", 140, 160, (*gen).headers},
	{"mix", 135, 145, (*gen).mixed},
	{"dist", 60, 0, (*gen).distant},
	{"far", 5, 5, (*gen).far},
	{"limit", 50, 50, (*gen).limited},
	{"many", 40, 40, (*gen).many},
	{"big", 20, 10, (*gen).big},
	{"bad", 40, 40, (*gen).malformed},
	{"chain", 0, 30, (*gen).chained},
}

// Random makes the case with this number: family, seed and number determine it.
//
// Most kinds are small, so that fragments meet: rand is a good datagram of a few
// pieces, disturbed; free unrelated fragments; hdr varies headers; mix
// interleaves datagrams; dist has a small max_dist and far the default one; limit
// little memory; many has dozens of runs over a wide range; big goes up to and
// beyond 64 KB; bad has lengths and checksums that are wrong; chain has IPv6
// headers behind the Fragment header, a second one among them.
func Random(family int, seed, number uint64) vectors.Case {
	g := &gen{Rand: rand.New(rand.NewPCG(seed, number<<3|uint64(family))), family: family}
	at := g.IntN(1000)
	for _, k := range kinds {
		w := k.w4
		if family == 6 {
			w = k.w6
		}
		if at -= w; at < 0 {
			return g.make(k, seed, number)
		}
	}
	panic("live: the weights of kinds do not sum up to 1000")
}

// RandomTimed makes a case with pauses, under a timeout of a second. Pauses are
// multiples of 400 ms, so nothing happens within 160 ms of an expiry.
func RandomTimed(family int, seed, number uint64) vectors.Case {
	g := &gen{Rand: rand.New(rand.NewPCG(seed, number<<3|uint64(family))), family: family}
	return g.make(kind{name: "time", steps: (*gen).timed}, seed, number)
}

type gen struct {
	*rand.Rand
	family int
	cfg    vectors.Cfg
}

func (g *gen) make(k kind, seed, number uint64) vectors.Case {
	steps := k.steps(g)
	for i := range steps {
		if s := &steps[i]; s.Pause == 0 {
			s.Off = min(max(s.Off, 0), 65528)
			s.Len = max(s.Len, 0)
			if g.family == 6 {
				room := 65535 - 8 // of one packet, behind the headers
				for _, e := range s.Pre {
					room -= len(e.Hex) / 2
				}
				s.Len = min(s.Len, room)
			} else {
				s.Len = min(s.Len, 65535-60)
			}
			s.Cut = min(s.Cut, s.Len+19) // something is left
		}
	}
	return vectors.Case{
		Name:   fmt.Sprintf("v%d/%s/live-%d-%d", g.family, k.name, seed, number),
		Family: g.family, Cfg: g.cfg, Steps: steps,
	}
}

// chance is true p times in 100.
func (g *gen) chance(p int) bool { return g.IntN(100) < p }

// between draws from lo to hi.
func (g *gen) between(lo, hi int) int { return lo + g.IntN(hi-lo+1) }

func pick[T any](g *gen, of ...T) T { return of[g.IntN(len(of))] }

// pieces is a good datagram in that many fragments of lo to hi units of 8 bytes.
func (g *gen) pieces(id uint32, n, lo, hi int) []vectors.Step {
	steps := make([]vectors.Step, n)
	off := 0
	for i := range steps {
		steps[i] = vectors.Step{ID: id, Off: off, Len: 8 * g.between(lo, hi), MF: true}
		off += steps[i].Len
	}
	last := &steps[n-1]
	last.MF = false
	if g.chance(70) {
		last.Len -= g.IntN(8)
	}
	return steps
}

// order puts fragments in order, in reverse, nearly in order or anyhow.
func (g *gen) order(steps []vectors.Step) {
	switch g.IntN(10) {
	case 0, 1, 2:
	case 3:
		for i, j := 0, len(steps)-1; i < j; i, j = i+1, j-1 {
			steps[i], steps[j] = steps[j], steps[i]
		}
	case 4, 5:
		if i := g.IntN(len(steps)); i > 0 {
			steps[i-1], steps[i] = steps[i], steps[i-1]
		}
	default:
		g.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	}
}

// spoil changes or adds a fragment.
func (g *gen) spoil(steps []vectors.Step) []vectors.Step {
	i := g.IntN(len(steps))
	s := steps[i]
	insert := func(s vectors.Step) []vectors.Step {
		at := g.IntN(len(steps) + 1)
		steps = append(steps, vectors.Step{})
		copy(steps[at+1:], steps[at:])
		steps[at] = s
		return steps
	}
	switch g.IntN(12) {
	case 0: // an exact copy
		fill := 100 + g.IntN(100)
		s.Fill, steps[i].Fill = &fill, &fill
		return insert(s)
	case 1, 2: // the same place, other bytes
		return insert(s)
	case 3: // reaches over the next
		s.Len += 8 * g.between(1, 3)
		return insert(s)
	case 4: // a part of it
		cut := 8 * g.between(0, s.Len/8)
		s.Off, s.Len = s.Off+cut, s.Len-cut
		return insert(s)
	case 5:
		s.Off += 8 * g.between(-2, 2)
		return insert(s)
	case 6:
		s.MF = !s.MF
		return insert(s)
	case 7:
		steps[i].Off += 8 * g.between(-1, 1)
	case 8:
		steps[i].Len += g.between(-9, 9)
	case 9:
		steps[i].MF = !s.MF
	case 10:
		if len(steps) > 1 {
			return append(steps[:i], steps[i+1:]...)
		}
	case 11:
		s.Len = 0
		return insert(s)
	}
	return steps
}
