package rhmap

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

type key5 [5]uint64

type obj struct {
	x    int
	node Node[key5]
}

func TestSmoke(t *testing.T) {
	tb := NewTable(func(o *obj) *Node[key5] { return &o.node }, Config[key5]{})
	m := map[key5]Ref[obj]{}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 2_000_000 {
		k := key5{uint64(r.IntN(100000 >> (8 * (i / 400000 % 2)))), 7}
		switch r.IntN(3) {
		case 0:
			ref, ins, err := tb.InsertUnique(&k, &obj{})
			require.NoError(t, err)
			old, ok := m[k]
			if ins == ok || ok && old != ref {
				t.Fatal(i, ins, ok)
			}
			m[k] = ref
		case 1:
			if ref := tb.Lookup(&k); ref != m[k] {
				t.Fatal(i)
			}
		case 2:
			if ref, ok := m[k]; ok {
				if !tb.Remove(ref) {
					t.Fatal(i)
				}
				delete(m, k)
			}
		}
		if i%100000 == 0 {
			require.Equal(t, len(m), tb.Len())
			n := 0
			for w := tb.Walk(); ; n++ {
				ref, ok := w.Next()
				if !ok {
					break
				}
				if m[ref.Node.node.Key()] != ref {
					t.Fatal("walk")
				}
			}
			require.Equal(t, len(m), n)
		}
	}
	t.Log(len(m), tb.cur.Load().buckets(), tb.grows.Load(), tb.shrinks.Load(), tb.reseeds.Load())
}
func BenchmarkSmoke(b *testing.B) {
	tb := NewTable(func(o *obj) *Node[key5] { return &o.node }, Config[key5]{})
	ks := make([]key5, 1000)
	for i := range ks {
		ks[i] = key5{1, uint64(i), 3, 4, 5}
		tb.InsertUnique(&ks[i], &obj{x: 1})
	}
	b.Run("lookup", func(b *testing.B) {
		s := 0
		for i := 0; b.Loop(); i++ {
			if i == 1000 {
				i = 0
			}
			s += tb.Lookup(&ks[i]).Node.x
		}
	})
	b.Run("churn", func(b *testing.B) {
		b.ReportAllocs()
		s := 0
		for i := 0; b.Loop(); i++ {
			if i == 1000 {
				i = 0
			}
			r := tb.Lookup(&ks[i])
			tb.Remove(r)
			tb.InsertUnique(&ks[i], r.Node)
		}
		_ = s
	})
}
