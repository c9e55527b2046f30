package percpu

import (
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestValuesWithIsExclusive(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	v := NewValues(func() map[int]int { return map[int]int{} })
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 2000 {
				v.With(func(m *map[int]int) { (*m)[w*2000+i]++ })
			}
		})
	}
	wg.Wait()
	seen := map[int]int{}
	v.Each(func(m *map[int]int) {
		for k, n := range *m {
			seen[k] += n
		}
	})
	require.Len(t, seen, 16_000)
	for k, n := range seen {
		require.Equal(t, 1, n, "key %d", k)
	}
}

// A With inside a With must neither deadlock nor get the same T.
func TestValuesWithMayNest(t *testing.T) {
	v := NewValues[int](nil)
	v.WithAt(0, func(a *int) {
		v.WithAt(0, func(b *int) {
			require.NotSame(t, a, b)
			v.With(func(c *int) { *c = 3 })
			*b = 2
		})
		*a = 1
	})
	sum := 0
	for p := range v.All() {
		sum += *p
	}
	require.Equal(t, 6, sum)
	var deep func()
	deep = func() { v.With(func(*int) { deep() }) }
	require.PanicsWithValue(t, "percpu: Values.With inside itself 1024 times", func() { deep() })
	v.With(func(*int) {}) // every lock was released on the way up
}

// PC-42's lesson: a panic in user code must not leave the lock held.
func TestValuesSurviveAPanic(t *testing.T) {
	v := NewValues[int](nil)
	require.Panics(t, func() { v.WithAt(3, func(*int) { panic("user") }) })
	done := false
	v.Each(func(*int) { done = true })
	require.True(t, done)
}

// PC-8: what is acquired on a lane belongs to that lane, whatever ID says later.
func TestValuesAreStable(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	made := 0
	v := NewValues(func() int { made++; return made })
	p := v.At(5)
	for procs := range 16 {
		runtime.GOMAXPROCS(procs + 1)
		v.Get()
	}
	require.Same(t, p, v.At(5))
	n := 0
	for range v.All() {
		n++
	}
	require.Equal(t, made, n)
}
