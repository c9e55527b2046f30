package scenario

import (
	"math"
	"math/rand/v2"
)

// Streams are senders that fill one link together, as parallel netperf runs do:
// each sends datagram after datagram, and the link carries a burst of one, then
// a burst of another, chosen at random.
type Streams struct {
	Group int
	N     int
	From  Sources
	// Size draws the size of a datagram.
	Size Sizes
	// Interleave is how many packets of one stream come in a row. A burst ends
	// with its datagram.
	Interleave int
	Rate       float64 // bit/s of the link
	Start, End int64
	// From StopAt on, if it is not 0, only the first Keep streams go on; they
	// still fill the link.
	StopAt int64
	Keep   int
	Path   Path
	Steer  Steer
}

// Sizes draws the IP payload of a datagram, in bytes: 2 to 44 fragments.
type Sizes func(*rand.Rand) int

// Packets makes every datagram n full packets long.
func Packets(n int) Sizes { return func(*rand.Rand) int { return n * mtuPayload } }

// Messages makes every datagram carry n bytes of data in UDP.
func Messages(n int) Sizes { return func(*rand.Rand) int { return n + udpHeader } }

// HeavyTail draws sizes from a Pareto distribution with exponent 1.1, from 2
// full packets on, cut at 44: many small, most bytes in large ones.
func HeavyTail(r *rand.Rand) int {
	return min(max(int(2*math.Pow(1-r.Float64(), -1/1.1)), 2), maxFrags) * mtuPayload
}

// Add mixes the streams in. They are in full swing at Start: each is somewhere
// inside a datagram, whose beginning nobody saw.
func (s Streams) Add(m *Mix) {
	r, way := m.piece()
	type stream struct {
		dgram     uint32
		next, all int
	}
	streams := make([]stream, s.N)
	open := func(i int) {
		d := datagram{src: s.From(i, r), dst: receiver, port: uint16(1024 + i), group: uint8(s.Group)}
		d.bytes, d.id = uint32(s.Size(r)), m.nextID(d.src, d.dst)
		streams[i] = stream{dgram: m.open(d), all: d.frags()}
	}
	for i := range streams {
		open(i)
		streams[i].next = r.IntN(streams[i].all)
	}
	gap, at := wireBytes*8e9/s.Rate, float64(s.Start)
	for active := s.N; int64(at) < s.End; {
		if s.StopAt > 0 && int64(at) >= s.StopAt {
			active = s.Keep
		}
		i := r.IntN(active)
		x := &streams[i]
		for range s.Interleave {
			m.send(int64(at), x.dgram, x.next, s.Steer, &s.Path, way)
			at += gap
			if x.next++; x.next == x.all {
				open(i)
				break
			}
		}
	}
}

// Paced is one sender on a slow link: packet after packet, always in order, with
// the same time between them.
type Paced struct {
	Group      int
	From       uint32
	Fragments  int // of each datagram
	Gap        int64
	Start, End int64
	Path       Path
	Steer      Steer
}

// Add mixes the sender in. Its last datagram is sent to its end.
func (s Paced) Add(m *Mix) {
	_, way := m.piece()
	for at := s.Start; at < s.End; {
		d := m.open(datagram{
			src: s.From, dst: receiver, bytes: uint32(s.Fragments) * mtuPayload, id: m.nextID(s.From, receiver),
			port: 1024, group: uint8(s.Group),
		})
		for i := range s.Fragments {
			m.send(at, d, i, s.Steer, &s.Path, way)
			at += s.Gap
		}
	}
}
