package reasm

import "sync"

// wheel is the timers of one lane: a hashed timing wheel (Varghese and Lauck
// 1987). Setting and stopping a timer is O(1). A queue is on the wheel of the
// lane that made it, from its creation to its retirement, so that what waits
// here is charged; entries left behind for a completed datagram would not be.
//
// The lock is a leaf: it is taken with a queue's lock held, never the other way.
type wheel struct {
	mu    sync.Mutex
	tick  int64 // slots before this tick are done; guarded by mu
	count int   // guarded by mu
	slots [wheelSlots]*queue
}

// A turn of the wheel is 34 s. Timers beyond it stay where they are and are
// looked at once a turn.
const (
	wheelSlots = 1 << 10
	tickShift  = 25 // a tick is 33.6 ms; expiry itself is exact
)

// tickOf counts ticks from the least time there is, so that a clock may start
// below 0.
func tickOf(t int64) int64 { return int64((uint64(t) ^ 1<<63) >> tickShift) }

// timer is a queue's place on a wheel, guarded by the wheel's lock.
type timer struct {
	next, prev *queue
	slot       int32 // index + 1; 0 while not on the wheel
}

// set gives q a deadline and puts it on the wheel, or moves it there.
func (w *wheel) set(q *queue, deadline int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unlink(q)
	q.deadline = deadline
	// A deadline before the hand would wait for a whole turn.
	at := max(tickOf(q.deadline), w.tick) % wheelSlots
	head := &w.slots[at]
	q.timer = timer{next: *head, slot: int32(at) + 1}
	if *head != nil {
		(*head).timer.prev = q
	}
	*head = q
	w.count++
}

// stop takes q off the wheel, if it is there.
func (w *wheel) stop(q *queue) {
	w.mu.Lock()
	w.unlink(q)
	w.mu.Unlock()
}

func (w *wheel) unlink(q *queue) {
	t := &q.timer
	if t.slot == 0 {
		return
	}
	if t.next != nil {
		t.next.timer.prev = t.prev
	}
	if t.prev != nil {
		t.prev.timer.next = t.next
	} else {
		w.slots[t.slot-1] = t.next
	}
	*t = timer{}
	w.count--
}

// due takes up to len(out) queues off the wheel whose deadline has come, and
// reports whether it looked at all of them. The caller locks each and checks
// its deadline again: it may have been retired, or live anew, in between.
//
// deadline is written under both locks, so that either is enough to read it.
func (w *wheel) due(now int64, out []*queue) (n int, all bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := tickOf(now)
	first := max(w.tick, last-wheelSlots+1) // a jump of more than a turn sees each slot once
	for t := first; t <= last && w.count > 0; t++ {
		for q := w.slots[t%wheelSlots]; q != nil; {
			next := q.timer.next
			if q.deadline <= now {
				if n == len(out) {
					w.tick = t
					return n, false
				}
				w.unlink(q)
				out[n] = q
				n++
			}
			q = next
		}
	}
	w.tick = max(w.tick, last)
	return n, true
}
