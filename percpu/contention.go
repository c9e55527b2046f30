package percpu

import (
	"runtime"
	"sync/atomic"
)

// contention counts how often somebody else changed a shared word in the middle
// of an operation on it, and says when that is reason enough to spread the word
// over lanes. An uncontended word is the fastest counter there is (2.2 ns against
// 4.0), so sharding has to be earned; LongAdder (Doug Lea, 2009) starts the same
// way.
//
// The zero value is ready.
type contention struct {
	met atomic.Int32 // grows; written only by those that met somebody
}

// metLimit is how many meetings make a word contended. One is too few: a goroutine
// can be preempted in mid-operation on an idle machine, and a lane costs 128
// bytes. Two Ps that really compete get there in about a microsecond.
const metLimit = 16

// meet notes a meeting and reports whether the word should be spread. With one P
// it never should: there is nobody to share with.
func (c *contention) meet() bool {
	return c.met.Add(1) >= metLimit && runtime.GOMAXPROCS(0) > 1
}
