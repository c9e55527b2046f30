//go:build !linux

package scenario

import "time"

var started = time.Now()

// threadTime is the time of day where that of a thread is not at hand.
func threadTime() int64 { return int64(time.Since(started)) }
