//go:build unix

package measure

import (
	"syscall"
	"time"
)

type used struct {
	cpu       time.Duration
	preempted int64
}

// usage is what the process has used, and how often it was interrupted.
func usage() used {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return used{}
	}
	return used{time.Duration(r.Utime.Nano() + r.Stime.Nano()), int64(r.Nivcsw)}
}
