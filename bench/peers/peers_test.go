package peers

import (
	"testing"

	"github.com/stretchr/testify/require"

	"corelane/bench/internal/traffic"
)

// A peer that never completes anything would make every comparison a lie.
func TestPeersCompleteDatagrams(t *testing.T) {
	g, err := NewGVisor(traffic.Dst4, traffic.Dst6)
	require.NoError(t, err)
	defer g.Close()
	for _, fam := range []int{4, 6} {
		peers := map[string]Peer{"gvisor": g, "gopacket": NewGopacket4()}
		if fam == 6 {
			peers["gopacket"] = NewGopacket6()
		}
		for name, p := range peers {
			t.Run("peer="+name, func(t *testing.T) {
				for round := range 3 {
					ps := traffic.Datagram{Family: fam, ID: uint32(100*fam + round), Size: 64000, MTU: 1500}.Packets()
					for i, b := range ps {
						require.Equal(t, i == len(ps)-1, p.Add(b), "family %d, round %d, fragment %d", fam, round, i)
					}
				}
			})
		}
	}
}
