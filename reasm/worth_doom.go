package reasm

import "sync/atomic"

// doomTable remembers for a tenth of a second, or two, which datagrams were given
// up, so that their remaining fragments do not come back as new queues. It forgets
// by time and by collision. What it says wrongly costs a datagram, never memory.
//
// A place holds a fingerprint, and the turn of the clock that it was written in.
// Anybody may write any place at any time: a lost entry is a forgotten one.
type doomTable struct {
	// nil -> the table, once, by whoever dooms first.
	// PUBLISH worth.doom, ACQUIRE worth.doom
	at atomic.Pointer[[doomPlaces]atomic.Uint32]
}

const (
	doomPlaces = 1 << 15
	doomTurn   = 27 // 2^27 ns, 134 ms
	turnBits   = 10 // so that a turn comes round after 137 s
)

func (t *doomTable) add(hash uint64, now int64) {
	at := t.at.Load()
	if at == nil {
		t.at.CompareAndSwap(nil, new([doomPlaces]atomic.Uint32))
		at = t.at.Load()
	}
	at[hash%doomPlaces].Store(doomEntry(hash, now))
}

func (t *doomTable) has(hash uint64, now int64) bool {
	at := t.at.Load()
	if at == nil {
		return false
	}
	e := at[hash%doomPlaces].Load()
	return e != 0 && (e == doomEntry(hash, now) || e == doomEntry(hash, now-1<<doomTurn))
}

func doomEntry(hash uint64, now int64) uint32 {
	const turns = 1<<turnBits - 1
	return uint32(hash>>32)&^turns | uint32(now>>doomTurn)&turns
}
