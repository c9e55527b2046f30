package reasm

import "math"

// worthPeers remembers which sources complete datagrams: a fixed number of
// places, two of them for each source. Only a completed datagram makes an entry,
// so spoofed sources have none.
type worthPeers struct {
	at []worthPeer // made when the first datagram completes
}

const (
	peerPlaces = 1 << 10
	bestScore  = 60
)

// worthPeer is a source. Guarded by the policy's lock.
type worthPeer struct {
	id     peerKey
	space  uint16 // namespace
	used   bool
	gen    uint32 // who lives here: the queues of an earlier one are unknown now
	queues int32
	owner  *worth // whose namespace it is
	mem    int64
	// The record.
	score      float64 // completions, 60 at most
	gap        float64 // decaying maximum of the longest gap, ns
	size       float64 // fragments
	reordering float64
	success    [sizeClasses]float64
}

// known returns the record of the queue's source, nil if it has none.
func (v *worthView) known() *worthPeer {
	if e := v.peer; e != nil && e.gen == v.peerGen {
		return e
	}
	return nil
}

// places returns the two entries where a source may be.
func (p *worthPeers) places(id peerKey, space uint16, s *worthState) [2]*worthPeer {
	s.scratch = Key{SrcHi: id.hi, SrcLo: id.lo, Domain: id.domain, tag: uint64(space) << nsShift}
	h := s.hash(&s.scratch)
	return [2]*worthPeer{&p.at[h%peerPlaces], &p.at[h>>32%peerPlaces]}
}

func (p *worthPeers) find(id peerKey, space uint16, s *worthState) *worthPeer {
	if p.at == nil {
		return nil
	}
	for _, e := range p.places(id, space, s) {
		if e.used && e.id == id && e.space == space {
			return e
		}
	}
	return nil
}

// insert makes an entry for a source that completed a datagram; nil if the two
// that live there have completed too many.
func (p *worthPeers) insert(id peerKey, space uint16, d *worth) *worthPeer {
	if p.at == nil {
		p.at = make([]worthPeer, peerPlaces)
	}
	places := p.places(id, space, d.s)
	e := places[0]
	if e.used && (!places[1].used || places[1].score < e.score) {
		e = places[1]
	}
	if e.used {
		// The one with the lesser record wears off, the slower the better it is.
		e.score -= math.Pow(1.3, -e.score)
		if e.score > 0.5 {
			return nil
		}
		if e.queues > 0 { // they are unknown from now on
			e.owner.active--
			e.owner.unknown += e.mem
		}
	}
	*e = worthPeer{id: id, space: space, used: true, gen: e.gen + 1, owner: d, reordering: d.s.world.reordering}
	for c := range e.success {
		e.success[c] = 0.5
	}
	return e
}
