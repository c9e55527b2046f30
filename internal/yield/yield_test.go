package yield

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHookRunsInItsWindowOnly(t *testing.T) {
	if !Enabled {
		require.Panics(t, func() { On("x", func() {}) })
		t.Skip("windows are compiled out; run with -tags invariants")
	}
	n := 0
	restore := On("yield.test", func() { n++ })
	Point("yield.other")
	Point("yield.test")
	restore()
	Point("yield.test")
	require.Equal(t, 1, n)
}
