package reasm

// doomTable remembers which datagrams were given up, for a tenth of a second or
// two, so that their remaining fragments do not come back as new queues. It
// forgets by generations and by collision: what it says wrongly costs a datagram,
// never memory.
type doomTable struct {
	young, old []uint32 // fingerprints; made with the first
	turned     int64
}

const (
	doomPlaces = 1 << 14
	doomTurn   = 100e6 // ns
)

func (t *doomTable) add(hash uint64) {
	if t.young == nil {
		t.young, t.old = make([]uint32, doomPlaces), make([]uint32, doomPlaces)
	}
	t.young[hash%doomPlaces] = fingerprint(hash)
}

func (t *doomTable) has(hash uint64) bool {
	if t.young == nil {
		return false
	}
	at, f := hash%doomPlaces, fingerprint(hash)
	return t.young[at] == f || t.old[at] == f
}

// turn forgets the older generation when its time has come.
func (t *doomTable) turn(now int64) {
	if t.young == nil || now >= t.turned && now-t.turned <= doomTurn {
		return
	}
	t.turned = now
	t.young, t.old = t.old, t.young
	clear(t.young)
}

// fingerprint is never 0, which is an empty place.
func fingerprint(hash uint64) uint32 { return uint32(hash>>32) | 1 }
