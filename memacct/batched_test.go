package memacct

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The flaw of 2013: 64 CPUs, each just below its batch of 130000, hold 8.3 MB
// under a threshold of 4 MiB, and the account says that nothing is in use. A Stock
// under the same load stops at its cap.
func TestBatchedPassesItsThresholdAndStockDoesNot(t *testing.T) {
	const lanes, threshold = 64, 4 << 20
	cfg := capped(threshold)
	cfg.Lanes, cfg.Batch = lanes, LinuxBatch
	fill := func(a Account) (charged int64) {
		for lane := range lanes {
			for piece := int64(1500); piece > 0; { // pieces of a datagram, then bytes, to the brim
				if room := LinuxBatch - 1 - charged%(LinuxBatch-1); room >= piece && a.TryChargeAt(lane, piece) {
					if charged += piece; charged%(LinuxBatch-1) == 0 {
						break
					}
				} else {
					piece /= 2
				}
			}
		}
		return charged
	}
	b, err := NewBatched(nil, cfg)
	require.NoError(t, err)
	charged := fill(b)
	require.EqualValues(t, lanes*(LinuxBatch-1), charged)
	require.EqualValues(t, charged, exact(t, b))
	require.Zero(t, b.Used())
	require.False(t, b.AboveLow())
	require.Equal(t, charged, b.Slack())

	s, err := NewStock(nil, cfg)
	require.NoError(t, err)
	got := fill(s)
	require.LessOrEqual(t, got, int64(threshold))
	require.Equal(t, got, exact(t, s))
	t.Logf("threshold %d: Batched let in %d and reads %d, Stock let in %d and reads %d",
		threshold, charged, b.Used(), got, s.Used())
}
