package percpu

import (
	"runtime"
	"sync/atomic"
)

// Spread picks lanes for callers that have none of their own: lane 0 for
// everybody until they are seen to get in each other's way, and ID from then on.
// An uncontended word is the fastest there is (2.2 ns for an add, against 4.4 in
// a word of the P's own), so sharding has to be earned; LongAdder (Doug Lea, 2009)
// starts the same way.
//
// The zero value is ready; a Spread must not be copied.
type Spread struct {
	met atomic.Int32 // 0 .. metLimit; written only by those that met somebody
}

// metLimit is how many meetings make a word contended. One is too few: a goroutine
// can be preempted in mid-operation on an idle machine, and a lane costs 128
// bytes. Two Ps that really compete get there in about a microsecond.
const metLimit = 16

// Lane returns the lane to use for one operation.
func (s *Spread) Lane() int {
	if s.met.Load() < metLimit {
		return 0
	}
	return ID()
}

// Wide reports whether Lane has given up on lane 0.
func (s *Spread) Wide() bool { return s.met.Load() >= metLimit }

// Meet notes that somebody else changed the word in the middle of an operation
// on it. With one P that never counts: there is nobody to share with.
//
//go:noinline
func (s *Spread) Meet() {
	met := s.met.Load()
	if met >= metLimit {
		return
	}
	if met == metLimit-1 && runtime.GOMAXPROCS(0) == 1 {
		s.met.CompareAndSwap(met, 0)
		return
	}
	s.met.CompareAndSwap(met, met+1) // a lost count is one more meeting to come
}
