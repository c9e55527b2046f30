package reasm

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// The first fragment's UDP header tells worth how many fragments there will be.
func TestWorthReadsTheAnnouncedSize(t *testing.T) {
	for _, family := range []int{4, 6} {
		r := newRig(t, way{design: "worth", mode: Copy, family: family}, nil)
		f := piece(1, 0, 1480, true)
		f.Proto = 17
		f.Data = "00010002fa000000" // 64000 bytes
		r.one(Held, f)
		for qs := range r.cache.(*cache).host.index.batches() {
			for _, q := range qs {
				require.EqualValues(t, 44, q.view.hint)
				require.EqualValues(t, 1, q.fragments)
			}
		}
	}
}

// What the policy keeps does not grow with what it is sent (256 KiB at most).
func TestWorthStateIsBounded(t *testing.T) {
	require.LessOrEqual(t, int(unsafe.Sizeof([peerPlaces]worthPeer{})+unsafe.Sizeof([doomPlaces]uint32{})), 256<<10)
	adapt := func(c *Config) { flat(c); c.Limits = Limits{High: 4000, Low: 3000} }
	r := newRig(t, way{design: "worth", mode: Copy, family: 4}, adapt)
	for id := range uint32(5000) {
		r.send(piece(id, 0, 8, true))
		require.LessOrEqual(t, r.cache.Stats().Bytes, int64(4110))
	}
	d := r.cache.(*cache).design.(*worth)
	require.LessOrEqual(t, int(d.lanes[0].size.Load()), 40)
	require.Len(t, *d.lanes[0].slots.Load(), fewSlots)
	require.Nil(t, d.s.peers.at.Load(), "nobody completed a datagram")
}
