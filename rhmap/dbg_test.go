package rhmap

import "testing"

func BenchmarkDbgChurn(b *testing.B) {
	m := NewMap[[2]uint64, *int](Config[[2]uint64]{})
	const n = 1000
	x := new(int)
	keys := make([][2]uint64, n)
	for i := range keys {
		keys[i] = [2]uint64{mix(uint64(i)), uint64(i)}
		m.Store(keys[i], x)
	}
	next := uint64(n)
	at := 0
	for b.Loop() {
		m.Delete(keys[at])
		keys[at] = [2]uint64{mix(next), next}
		next++
		m.Store(keys[at], x)
		if at++; at == n {
			at = 0
		}
	}
}
