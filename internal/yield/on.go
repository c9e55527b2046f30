//go:build invariants

package yield

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Enabled reports whether Point does anything in this build.
const Enabled = true

var (
	hooked atomic.Int64 // hooks installed; Point returns at once while it and oneIn are 0
	hooks  sync.Map     // window name -> func()
	oneIn  atomic.Int64 // chaos: give way once in so many visits; 0 = never
	state  atomic.Uint64
)

// Point marks a window: it runs the hook of that name, if any, and may yield
// the processor when Chaos is on.
func Point(window string) {
	if hooked.Load() != 0 {
		if fn, ok := hooks.Load(window); ok {
			fn.(func())()
		}
	}
	if n := oneIn.Load(); n > 0 && next()%uint64(n) == 0 {
		runtime.Gosched()
	}
}

// On installs fn as the hook of a window and returns the function that removes
// it. fn runs on the goroutine that reaches the window, and may block.
func On(window string, fn func()) (restore func()) {
	if _, dup := hooks.LoadOrStore(window, fn); dup {
		panic("yield: window " + window + " has a hook already")
	}
	hooked.Add(1)
	return func() {
		hooks.Delete(window)
		hooked.Add(-1)
	}
}

// Chaos makes every window yield once in n visits, from a seed, until restore.
func Chaos(seed uint64, n int) (restore func()) {
	state.Store(seed)
	oneIn.Store(int64(n))
	return func() { oneIn.Store(0) }
}

// next is SplitMix64 (Steele, Lea, Flood 2014) over a shared counter.
func next() uint64 {
	z := state.Add(0x9e3779b97f4a7c15)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
