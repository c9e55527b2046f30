package reasm

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Buffers of a datagram in many pieces are put in order without comparing them:
// the same order, from any other, with pieces of every length.
func TestManyBuffersAreSortedByPlace(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 200 {
		var bufs []Buffer
		for off := 0; off < maxPayload; off += unit * (1 + r.IntN(1+round/4)) {
			bufs = append(bufs, Buffer{Ref: uint64(off), off: uint32(off)})
		}
		r.Shuffle(len(bufs), func(i, j int) { bufs[i], bufs[j] = bufs[j], bufs[i] })
		n := len(bufs)
		place(bufs)
		require.Len(t, bufs, n)
		for i := range bufs {
			require.EqualValues(t, bufs[i].Ref, bufs[i].off)
			if i > 0 {
				require.Less(t, bufs[i-1].off, bufs[i].off)
			}
		}
	}
	table := placeTables.Get().(*[maxPayload / unit]uint16)
	require.Zero(t, *table, "the table goes back empty")
}
