package memacct

import (
	"runtime"
	"testing"
	"unsafe"

	"corelane/internal/invariant"

	"github.com/stretchr/testify/require"
)

func TestStockIsOneLine(t *testing.T) {
	if invariant.Enabled || unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("the size in the documentation is that of a shipped 64-bit build")
	}
	require.EqualValues(t, 64, unsafe.Sizeof(Stock{}))
}

// 10,000 namespaces on 64 Ps within 6 MB: 72 bytes an account, 8 per lane, and a
// share of the shelf.
func TestTenThousandAccountsOnSixtyFourLanes(t *testing.T) {
	if invariant.Enabled {
		t.Skip("measures the shipped build")
	}
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const accounts, lanes = 10_000, 64
	before := heap()
	host := newStock(t, nil, Config{Limits: Limits{Cap: 1 << 40, High: 1 << 40, Low: 0}, Lanes: lanes})
	all := make([]*Stock, accounts)
	for i := range all {
		all[i] = newStock(t, host, Config{Limits: Limits{Cap: 1 << 30, High: 1 << 30, Low: 0}})
		for lane := range lanes {
			require.True(t, all[i].TryChargeAt(lane, 1500))
		}
	}
	bytes := int64(heap() - before - accounts*uint64(unsafe.Sizeof(host)))
	t.Logf("%d bytes, %d an account", bytes, bytes/accounts)
	require.LessOrEqual(t, bytes, int64(6_000_000))
	runtime.KeepAlive(all)
}
