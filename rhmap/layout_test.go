package rhmap

import (
	"math/bits"
	"testing"
	"unsafe"

	"corelane/internal/yield"

	"github.com/stretchr/testify/require"
)

func TestBucketIsOneLine(t *testing.T) {
	if bits.UintSize == 32 {
		require.Equal(t, uintptr(40), unsafe.Sizeof(bucket{}))
		return
	}
	require.Equal(t, uintptr(64), unsafe.Sizeof(bucket{}))
	require.Equal(t, uintptr(64<<10), segBuckets*unsafe.Sizeof(bucket{}))
}

var keep unsafe.Pointer // what is kept is on the heap

// The prefix that newSegment uses depends on the allocator: this tells when that
// changes.
func TestSegmentsAreAligned(t *testing.T) {
	if bits.UintSize == 32 {
		t.Skip("a bucket is 40 bytes here")
	}
	for n := 2; n <= segBuckets; n *= 2 {
		for range 50 {
			keep = newSegment(n)
			require.Zero(t, uintptr(keep)%64, "%d buckets", n)
		}
	}
}

func TestStripesAreApart(t *testing.T) {
	require.GreaterOrEqual(t, unsafe.Sizeof(lot{}), uintptr(128))
	require.Equal(t, uintptr(8+40), unsafe.Sizeof(Node[[5]uint64]{}))
	if bits.UintSize == 64 {
		require.Equal(t, uintptr(32), unsafe.Sizeof(roomy[[2]uint64, uint64]{}))
	}
}

type hop struct {
	ID   int
	node Node[[5]uint64]
}

func TestTableAllocatesNothing(t *testing.T) {
	if yield.Enabled {
		t.Skip("windows allocate")
	}
	tb := NewTable(func(h *hop) *Node[[5]uint64] { return &h.node }, Config[[5]uint64]{})
	nodes := make([]hop, 3000)
	keys := make([][5]uint64, len(nodes))
	refs := make([]Ref[hop], len(nodes))
	for i := range nodes {
		keys[i] = [5]uint64{1, uint64(i), 3, 4, 5}
		refs[i], _, _ = tb.InsertUnique(&keys[i], &nodes[i])
	}
	settleAll(&tb.core)
	i, n := 0, uint64(0)
	churn := func() {
		i = (i + 1) % len(nodes)
		tb.Remove(refs[i])
		n++
		k := [5]uint64{2, n, 3, 4, 5}
		refs[i], _, _ = tb.InsertUnique(&k, &nodes[i])
	}
	for range 20_000 {
		churn() // overflow buckets reach their number
	}
	require.Zero(t, testing.AllocsPerRun(20_000, churn))
	w := tb.Walk()
	out := make([]Ref[hop], 8)
	for name, f := range map[string]func(){
		"lookup": func() { tb.Lookup(&keys[5]) },
		"batch":  func() { tb.LookupBatch(keys[:8], out) },
		"warm":   func() { tb.Warm(keys[:20]) },
		"probe":  func() { tb.Probe(n<<40, out) },
		"next": func() {
			if _, ok := w.Next(); !ok {
				w.Restart()
			}
		},
	} {
		require.Zero(t, testing.AllocsPerRun(1000, f), name)
	}
}

// HM-R18: a lookup does not move its key to the heap, whatever its size.
func TestMapAllocations(t *testing.T) {
	if yield.Enabled {
		t.Skip("windows allocate")
	}
	m := NewMap[[256]byte, int](Config[[256]byte]{})
	k := [256]byte{1}
	m.Store(k, 1)
	require.Zero(t, testing.AllocsPerRun(100, func() { m.Load(k) }))
	require.Zero(t, testing.AllocsPerRun(100, func() { m.Delete([256]byte{2}) }))
	p := NewMap[string, *int](Config[string]{})
	one := 1
	p.Store("a", &one)
	require.Zero(t, testing.AllocsPerRun(100, func() { p.Store("a", &one) }), "a pointer is stored in place")
	require.Zero(t, testing.AllocsPerRun(100, func() { p.LoadOrStore("a", &one) }))
	require.Zero(t, testing.AllocsPerRun(100, func() { p.Compute("a", func(v *int, _ bool) (*int, ComputeOp) { return v, UpdateOp }) }))
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { p.Range(func(string, *int) bool { return true }) }), 1.0)
	require.Equal(t, 1.0, testing.AllocsPerRun(100, func() { p.Store("b", &one); p.Delete("b") }))
	c := NewMap[uint64, int](Config[uint64]{Hasher: CustomHash(func(_ Seed, k uint64) uint64 { return k }, nil)})
	require.Zero(t, testing.AllocsPerRun(100, func() { c.Load(4) }))
}
