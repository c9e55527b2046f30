package scenario

import "math/rand/v2"

// Sources names the host that a sender, or a datagram of a flood, speaks from.
type Sources func(i int, r *rand.Rand) uint32

// receiver is the one host that everybody sends to: 192.168.101.2, as in mail 000.
const receiver = 192<<24 | 168<<16 | 101<<8 | 2

// Host returns the address of good host i, 10.0.0.0/8.
func Host(i int) uint32 { return 10<<24 + uint32(i) }

// From makes everything come from one host.
func From(host uint32) Sources { return func(int, *rand.Rand) uint32 { return host } }

// FromEach gives every sender a host of its own, counted from first.
func FromEach(first uint32) Sources {
	return func(i int, _ *rand.Rand) uint32 { return first + uint32(i) }
}

// FromPool takes n hosts in turn, counted from first.
func FromPool(first uint32, n int) Sources {
	return func(i int, _ *rand.Rand) uint32 { return first + uint32(i%n) }
}

// FromAnywhere draws a source for each datagram from 128.0.0.0/1: nobody good.
func FromAnywhere(_ int, r *rand.Rand) uint32 { return r.Uint32() | 1<<31 }

// Steer says which receive queue, and so which lane, a packet arrives on. The
// zero Steer uses lane 0.
type Steer struct {
	By    Steering
	First int // lane
	Lanes int // how many from First on; 0 is 1
}

// Steering is what a network card looks at.
type Steering uint8

const (
	// ByPair looks at source and destination: what cards do with fragments.
	ByPair Steering = iota
	// ByFlow looks at the ports too, which only first fragments have: they
	// arrive elsewhere than the rest.
	ByFlow
	// ByID looks at the identification too.
	ByID
	// ByPacket takes lanes in turn.
	ByPacket
)

func (s Steer) lane(d *datagram, frag, n int) uint16 {
	if s.Lanes <= 1 {
		return uint16(s.First)
	}
	h := mix64(uint64(d.src)<<32 | uint64(d.dst))
	switch {
	case s.By == ByFlow && frag == 0:
		h = mix64(h ^ uint64(d.port)<<16)
	case s.By == ByID:
		h = mix64(h ^ uint64(d.id))
	case s.By == ByPacket:
		h = uint64(n)
	}
	return uint16(s.First + int(h%uint64(s.Lanes)))
}

// mix64 is the finalizer of splitmix64 (Steele, Lea, Flood 2014).
func mix64(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
