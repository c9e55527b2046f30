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
				require.Equal(t, 44, q.view.hint)
				require.Equal(t, 1, q.view.k)
			}
		}
	}
}

// What the policy keeps does not grow with what it is sent (256 KiB at most).
func TestWorthStateIsBounded(t *testing.T) {
	peerBytes, doomBytes := peerPlaces*int(unsafe.Sizeof(worthPeer{})), 2*doomPlaces*4
	require.LessOrEqual(t, peerBytes+doomBytes, 256<<10)
	adapt := func(c *Config) { flat(c); c.Limits = Limits{High: 4000, Low: 3000} }
	r := newRig(t, way{design: "worth", mode: Copy, family: 4}, adapt)
	for id := range uint32(5000) {
		r.send(piece(id, 0, 8, true))
		require.LessOrEqual(t, r.cache.Stats().Bytes, int64(4110))
	}
	d := r.cache.(*cache).design.(*worth)
	require.Len(t, d.s.doom.young, doomPlaces)
	require.Len(t, d.s.doom.old, doomPlaces)
	require.LessOrEqual(t, len(d.all), 40)
	require.Nil(t, d.s.peers.at, "nobody completed a datagram")
}
