package smp

import (
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// What shares a line in the library must share one on the machine.
func TestStandInsHaveTheSizeOfWhatTheyReplace(t *testing.T) {
	require.Equal(t, unsafe.Sizeof(sync.Mutex{}), unsafe.Sizeof(Mutex{}))
	require.Equal(t, unsafe.Sizeof(atomic.Int32{}), unsafe.Sizeof(Int32{}))
	require.Equal(t, unsafe.Sizeof(atomic.Int64{}), unsafe.Sizeof(Int64{}))
	require.Equal(t, unsafe.Sizeof(atomic.Uint32{}), unsafe.Sizeof(Uint32{}))
	require.Equal(t, unsafe.Sizeof(atomic.Uint64{}), unsafe.Sizeof(Uint64{}))
	require.Equal(t, unsafe.Sizeof(atomic.Bool{}), unsafe.Sizeof(Bool{}))
	require.Equal(t, unsafe.Sizeof(atomic.Pointer[int]{}), unsafe.Sizeof(Pointer[int]{}))
	require.LessOrEqual(t, unsafe.Sizeof(Pool{}), unsafe.Sizeof(sync.Pool{})+8)
	require.LessOrEqual(t, unsafe.Sizeof(Cond{}), unsafe.Sizeof(sync.Cond{})+16)
}

// Outside of a machine's Run the stand-ins are plain variables.
func TestStandInsWorkWithoutAMachine(t *testing.T) {
	var n Int64
	require.EqualValues(t, 3, n.Add(3))
	require.True(t, n.CompareAndSwap(3, 5))
	require.False(t, n.CompareAndSwap(3, 6))
	require.EqualValues(t, 5, n.Swap(7))
	var u Uint64
	u.Store(6)
	require.EqualValues(t, 6, u.Or(1))
	require.EqualValues(t, 7, u.And(3))
	require.EqualValues(t, 3, u.Load())
	var p Pool
	require.Nil(t, p.Get())
	p.Put(1)
	require.Equal(t, 1, p.Get())
	var m Mutex
	require.True(t, m.TryLock())
	m.Unlock()
}
