//go:build !unix

package measure

import "time"

type used struct {
	cpu       time.Duration
	preempted int64
}

// usage is not known here: windows are kept by their gaps alone.
func usage() used { return used{cpu: time.Duration(time.Now().UnixNano()) * 2} }
