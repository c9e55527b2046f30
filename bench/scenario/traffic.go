package scenario

import (
	"math/rand/v2"
)

// Mix is traffic in the making. Each piece that is added draws from random
// numbers of its own, so that another piece, or more loss, changes nothing else.
type Mix struct {
	seed   uint64
	pieces uint64
	events []event
	dgrams []datagram
	ids    map[uint64]uint16 // next identification of a pair of hosts
}

// event is one packet that arrives.
type event struct {
	at    int64  // nanoseconds
	dgram uint32 // index of its datagram
	frag  uint16 // which fragment of it
	lane  uint16 // receive queue
}

// datagram is what one sender wanted to get across.
type datagram struct {
	src, dst uint32
	bytes    uint32 // IP payload, UDP header included
	claim    uint16 // length that its UDP header states
	id       uint16
	port     uint16 // UDP source port
	group    uint8
}

const (
	mtuPayload = 1480 // of a fragment on a 1500-byte link; a multiple of 8
	maxFrags   = 44   // of a datagram, so that they fit into a word
	wireBytes  = 1500 // of every packet, when time on the wire is counted
)

// Noise is the group of datagrams that nobody wants to arrive.
const Noise = 255

func (d *datagram) frags() int { return int(d.bytes+mtuPayload-1) / mtuPayload }

// payload returns the length of one fragment's payload.
func (d *datagram) payload(frag int) int { return min(mtuPayload, int(d.bytes)-frag*mtuPayload) }

// piece starts the next piece: r decides what is sent, way what happens to it on
// the way.
func (m *Mix) piece() (r, way *rand.Rand) {
	m.pieces++
	return rand.New(rand.NewPCG(m.seed, 2*m.pieces)), rand.New(rand.NewPCG(m.seed, 2*m.pieces+1))
}

// open adds a datagram and returns its index.
func (m *Mix) open(d datagram) uint32 {
	if d.claim == 0 {
		d.claim = uint16(d.bytes)
	}
	m.dgrams = append(m.dgrams, d)
	return uint32(len(m.dgrams) - 1)
}

// nextID counts up the identification that src uses towards dst, as hosts do.
func (m *Mix) nextID(src, dst uint32) uint16 {
	if m.ids == nil {
		m.ids = make(map[uint64]uint16)
	}
	pair := uint64(src)<<32 | uint64(dst)
	id := m.ids[pair]
	m.ids[pair] = id + 1
	return id
}

// send puts one fragment on its way at a time.
func (m *Mix) send(at int64, d uint32, frag int, to Steer, p *Path, way *rand.Rand) {
	lost, late, again := p.draw(way)
	if lost {
		return
	}
	e := event{at + late, d, uint16(frag), to.lane(&m.dgrams[d], frag, len(m.events))}
	m.events = append(m.events, e)
	if again > 0 {
		e.at += again
		m.events = append(m.events, e)
	}
}
