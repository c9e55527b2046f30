package memacct

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// PC-23 (cockroach "no bytes in account to release, current 1096, free 1125"):
// an over-release names both numbers and hurts neither parent nor sibling.
func TestAtomicOverReleasePanicsWithBothNumbers(t *testing.T) {
	host, err := NewAtomic(nil, capped(10_000))
	require.NoError(t, err)
	a, b := child(t, host, capped(10_000)), child(t, host, capped(10_000))
	b.ChargeAt(0, 5000)
	a.ChargeAt(0, 1096)
	require.PanicsWithValue(t, "memacct: released 1125 bytes of 1096 charged", func() { a.UnchargeAt(0, 1125) })
	require.EqualValues(t, 1096, a.Used())
	require.EqualValues(t, 5000, b.Used())
	require.EqualValues(t, 6096, host.Used())
}
