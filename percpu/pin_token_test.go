//go:build percpu_nolinkname

package percpu

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// PC-9: tokens in the tiny allocator never became unreachable one by one, so their
// ids leaked, and ids grew without end.
func TestTokenIDsAreReused(t *testing.T) {
	minted := func() (highest int) {
		var keep []*token
		for range 8 {
			k := newToken()
			keep = append(keep, k)
			highest = max(highest, k.id)
		}
		runtime.KeepAlive(keep)
		return highest
	}
	first := minted()
	require.Eventually(t, func() bool {
		runtime.GC()
		return minted() <= first
	}, 10*time.Second, time.Millisecond)
}
