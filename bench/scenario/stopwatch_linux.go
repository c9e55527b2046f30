package scenario

import "golang.org/x/sys/unix"

// threadTime is the CPU time that the calling thread has used, in nanoseconds: a
// busy machine does not make a phase seem dear.
func threadTime() int64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return t.Nano()
}
