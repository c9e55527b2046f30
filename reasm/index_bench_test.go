package reasm

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// indexes are all ways to find a queue by its key: those of the designs, and
// xsync's map (see ninth_test.go).
var indexes = []struct {
	name string
	make func(*Host) index
}{
	{"chained-one-lock", func(h *Host) index { return newChains(h, true, 0) }},
	{"chained", func(h *Host) index { return newChains(h, false, 0) }},
	{"rhmap", func(h *Host) index { return newTable(h) }},
	{"xsync", func(h *Host) index { return newXsyncIndex(h) }},
}

// indexBench is an index with n queues in it, and more to come.
type indexBench struct {
	index
	in, spare []*queue
}

func newIndexBench(b *testing.B, mk func(*Host) index, n int) *indexBench {
	h, err := NewHost("hard-limit", DefaultConfig())
	require.NoError(b, err)
	x := &indexBench{index: mk(h)}
	for i := range n + 1024 {
		q := h.take()
		q.key = Key4([4]byte{10, 0, byte(i >> 8), byte(i)}, [4]byte{10, 9}, uint16(i*7919), 17, uint64(i>>16))
		if i >= n {
			x.spare = append(x.spare, q)
			continue
		}
		require.Equal(b, inserted, x.insert(q))
		x.in = append(x.in, q)
	}
	return x
}

// BenchmarkIndex is the cost of the index alone, on the keys of IPv4 datagrams:
// op=find a key that is there, op=miss one that is not, op=life a datagram of one
// fragment more than it takes (a miss, an insertion, a find, a removal), and
// op=find on two goroutines.
func BenchmarkIndex(b *testing.B) {
	for _, n := range []int{32, 1000, 10_000} {
		for _, impl := range indexes {
			run := func(op string, fn func(b *testing.B, x *indexBench)) {
				b.Run(fmt.Sprintf("op=%s/n=%d/index=%s", op, n, impl.name), func(b *testing.B) {
					x := newIndexBench(b, impl.make, n)
					b.ReportAllocs()
					b.ResetTimer()
					fn(b, x)
				})
			}
			run("find", func(b *testing.B, x *indexBench) {
				for i := range b.N {
					if q := x.in[uint(i)*40503%uint(n)]; x.find(&q.key) != q {
						b.Fatal("found another one")
					}
				}
			})
			run("miss", func(b *testing.B, x *indexBench) {
				for i := range b.N {
					if x.find(&x.spare[i%1024].key) != nil {
						b.Fatal("found one that is not there")
					}
				}
			})
			run("life", func(b *testing.B, x *indexBench) {
				for i := range b.N {
					q := x.spare[i%1024]
					if x.find(&q.key) != nil || x.insert(q) != inserted || x.find(&q.key) != q {
						b.Fatal("an index that forgets, or does not")
					}
					x.remove(q)
				}
			})
			run("find-parallel", func(b *testing.B, x *indexBench) {
				b.RunParallel(func(pb *testing.PB) {
					for i := uint(0); pb.Next(); i++ {
						if q := x.in[i*40503%uint(n)]; x.find(&q.key) != q {
							b.Error("found another one")
							return
						}
					}
				})
			})
		}
	}
}
