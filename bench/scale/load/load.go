// Package load makes the fragments that package scale puts through the designs,
// the same on a virtual machine and on this one.
package load

import (
	"encoding/binary"

	"corelane/bench/scenario"
	"corelane/reasm"
)

// Source is the traffic of one receive queue: flows that send datagrams without a
// pause, in order, a burst each in turn.
type Source struct {
	// Completed counts the fragments of the datagrams that came out.
	Completed int64

	lane    reasm.Lane
	parser  reasm.Parser
	f       reasm.Fragment
	flows   []flow
	at      int // flow
	left    int // of its burst
	burst   int
	attacks uint32
	attack  []byte
}

type flow struct {
	packets [][]byte
	next    int
	id      uint16
}

// Packets of a flow begin a line apart, so that one's payload is the next one's
// header. In Borrow nobody reads or writes payload, and what the model does not know
// of, the size of caches, stays out of the measurement.
const (
	header  = 20
	payload = 1480
	line    = 64
)

// New makes a source for the receive queue with that number, of flows that send
// datagrams of so many fragments.
func New(queue int, lane reasm.Lane, flows, frags int) *Source {
	s := &Source{lane: lane, flows: make([]flow, flows), burst: min(frags, 8)}
	s.left = s.burst
	for i := range s.flows {
		f := &s.flows[i]
		f.next = i * s.burst % frags / s.burst * s.burst // not all at the same fragment
		memory := make([]byte, frags*line+header+payload)
		for n := range frags {
			b := memory[n*line:][:header+payload]
			f.packets = append(f.packets, b)
			fill(b, uint32(10<<24|queue<<8|1), uint32(11<<24|i), n, n < frags-1)
		}
	}
	s.attack = make([]byte, header+payload)
	fill(s.attack, 0, 11<<24, 0, true)
	return s
}

// fill writes the header of fragment n.
func fill(b []byte, src, dst uint32, n int, more bool) {
	word := uint16(n * payload / 8)
	if more {
		word |= 0x2000
	}
	be := binary.BigEndian
	be.PutUint32(b[0:], 0x45<<24|header+payload)
	be.PutUint16(b[6:], word)
	be.PutUint32(b[8:], 64<<24|17<<16)
	be.PutUint32(b[12:], src)
	be.PutUint32(b[16:], dst)
}

// Good sends the next fragment of a flow. The packet is the flow's again when its
// next datagram begins; if the last one never completed, its header changes under
// the cache, which does not look at it any more.
func (s *Source) Good(now int64) reasm.Verdict {
	if s.left == 0 {
		s.left = s.burst
		if s.at++; s.at == len(s.flows) {
			s.at = 0
		}
	}
	f := &s.flows[s.at]
	s.left--
	b := f.packets[f.next]
	binary.BigEndian.PutUint16(b[4:], f.id)
	if f.next++; f.next == len(f.packets) {
		f.next, s.left = 0, 0
		f.id++
	}
	return s.send(now, b)
}

// Attack sends a lone first fragment from an address nobody has heard of.
func (s *Source) Attack(now int64) reasm.Verdict {
	s.attacks++
	src := binary.BigEndian.Uint32(s.flows[0].packets[0][12:])
	binary.BigEndian.PutUint32(s.attack[12:], 0x80000000|src<<12^s.attacks>>8)
	binary.BigEndian.PutUint32(s.attack[16:], 12<<24|s.attacks&0xff)
	return s.send(now, s.attack)
}

func (s *Source) send(now int64, packet []byte) reasm.Verdict {
	s.parser.Parse(packet, 0, &s.f)
	r := s.lane.Add(now, &s.f)
	if r.Datagram != nil {
		s.Completed += int64(r.Datagram.Fragments())
		r.Datagram.Release()
	}
	return r.Verdict
}

// Config is a cache for that many receive queues.
func Config(queues int, l reasm.Limits) reasm.Config {
	cfg := reasm.DefaultConfig()
	cfg.Lanes = queues
	cfg.Limits = l
	cfg.Mode = reasm.Borrow
	cfg.Charge = reasm.Charge{
		Queue:    func(*reasm.Fragment) int64 { return scenario.KernelCharge.Queue },
		Fragment: func(*reasm.Fragment) int64 { return scenario.KernelCharge.Fragment },
	}
	cfg.Hash = func(k *reasm.Key) uint64 {
		return mix(mix(k.SrcLo<<32^k.DstLo) ^ uint64(k.ID())<<8 ^ uint64(k.Proto()))
	}
	state := uint64(0)
	cfg.Rand = func() uint64 { state += 0x9e3779b97f4a7c15; return mix(state) }
	cfg.Free = func([]reasm.Buffer) {}
	return cfg
}

func mix(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
