package percpu

import (
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"corelane/internal/cacheline"
	"corelane/internal/race"

	"github.com/stretchr/testify/require"
)

func TestLanesNeverShareALine(t *testing.T) {
	for _, words := range []int{1, 3, 16, 17, 64} {
		cs := makeCells(words, 3)
		var last uintptr
		for lane := range 64 {
			at := uintptr(unsafe.Pointer(cs.at(lane)))
			require.Zero(t, at%cacheline.Apart, "words=%d lane=%d", words, lane)
			end := at + uintptr(words)*uintptr(wordSize)
			require.LessOrEqual(t, end, at+uintptr(cs.row))
			require.NotEqual(t, last, at)
			last = at
		}
		require.Equal(t, 64, cs.lanes())
	}
}

func TestSizes(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("the sizes in the documentation are those of 64-bit machines")
	}
	require.EqualValues(t, 24, unsafe.Sizeof(Counter{}))
	require.EqualValues(t, 4, unsafe.Sizeof(Spread{}))
}

// PC-3: tokens put into the wrong pool were made anew each time.
func TestAddsAllocateNothing(t *testing.T) {
	var narrow, wide Counter
	shard(t, &wide)
	g, b, s := NewGroup(4), NewBatched(32), NewSnapshot(2)
	v := NewValues[int](nil)
	for lane := range 64 { // every lane that -race may draw
		wide.AddAt(lane, 1)
		g.AddAt(lane, 0, 1)
		b.AddAt(lane, 1)
		s.AddAt(lane, 0, 1)
		v.At(lane)
	}
	dst := make([]int64, 2)
	deltas := []int64{1, 2}
	if n := testing.AllocsPerRun(1000, func() {
		ID()
		narrow.Inc()
		wide.Add(1)
		g.Add(3, 1)
		b.Add(1)
		b.TryAdd(1, 1<<60)
		s.Add(1, 1)
		s.AddAll(deltas)
		_ = wide.Value() + g.Load(3) + b.Exact()
		dst = s.Read(dst)
		*v.Get()++
	}); race.Enabled {
		t.Log("allocations under -race:", n) // sync.Pool drops tokens there on purpose
	} else {
		require.Zero(t, n)
	}
}

// A counter in use by one P costs its own 24 bytes; sharded, 128 per lane in use.
func TestBytesPerCounter(t *testing.T) {
	const n = 1000
	counters := make([]Counter, n)
	before := liveHeap()
	for i := range counters {
		counters[i].Add(1)
	}
	require.Less(t, int64(liveHeap()-before), int64(n))
	for i := range counters {
		counters[i].cells.Store(makeCells(1, 64))
		for lane := range 64 {
			counters[i].AddAt(lane, 1)
		}
	}
	each := float64(liveHeap()-before) / n
	t.Logf("%.0f bytes per counter sharded over 64 lanes", each)
	require.InDelta(t, 64*128+112, each, 200)
	runtime.KeepAlive(counters)
}

func liveHeap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// What must inline, by the compiler's own report: it is the difference between one
// call and three on the hot paths of this package and of memacct.
func TestHotPathsInline(t *testing.T) {
	if testing.Short() || race.Enabled || unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("asks the compiler, about the shipped build, where an atomic load is one instruction")
	}
	out, err := exec.Command("go", "build", "-gcflags=-m", ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, fn := range []string{"(*cells).find", "word", "pin", "unpin", "(*Group).Find", "(*Spread).Lane", "(*Spread).Wide", "(*Batched).Approx"} {
		require.True(t, strings.Contains(string(out), "can inline "+fn), "%s does not inline", fn)
	}
}
