package reasm

import "sync/atomic"

// doomTable remembers for some turnovers which datagrams were given up, so that
// their remaining fragments do not come back as new queues. It forgets by time and
// by collision. What it says wrongly costs a datagram, never memory.
//
// A place holds half a fingerprint, and the tick of the clock that it was written
// at. Anybody may write any place at any time: a lost entry is a forgotten one.
type doomTable struct {
	// nil -> the table, once, by whoever dooms first.
	// PUBLISH worth.doom, ACQUIRE worth.doom
	at atomic.Pointer[[doomPlaces]atomic.Uint32]
}

const (
	doomPlaces = 1 << 15
	doomTurns  = 128     // turnovers that it remembers
	doomTick   = 20      // log2 of a tick in ns, about a millisecond
	leastDoom  = 2       // ticks
	mostDoom   = 1 << 15 // half of the time after which a tick's number comes round, 34 s
)

func (t *doomTable) add(hash uint64, now int64) {
	at := t.at.Load()
	if at == nil {
		t.at.CompareAndSwap(nil, new([doomPlaces]atomic.Uint32))
		at = t.at.Load()
	}
	at[hash%doomPlaces].Store(uint32(hash>>48)<<16 | uint32(uint16(now>>doomTick)))
}

// has reports whether the datagram with that hash was given up lately.
func (t *doomTable) has(hash uint64, now, turnover int64) bool {
	at := t.at.Load()
	if at == nil {
		return false
	}
	e := at[hash%doomPlaces].Load()
	age := uint16(now>>doomTick) - uint16(e)
	return e != 0 && e>>16 == uint32(hash>>48) && int64(age) <= min(max(turnover*doomTurns>>doomTick, leastDoom), mostDoom)
}
