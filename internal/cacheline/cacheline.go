// Package cacheline says how far apart two words must stand so that writing
// one does not slow down a reader of the other.
package cacheline

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// Size is the cache line of the architecture, in bytes: 64 on amd64 and 386,
// 128 on arm64.
const Size = unsafe.Sizeof(cpu.CacheLinePad{})

// Pad fills one cache line. Place it before and after a field that many CPUs
// write.
type Pad = cpu.CacheLinePad

// Apart is the distance that also defeats the adjacent-line prefetcher of
// amd64, which pulls lines in pairs of 128 bytes.
const Apart = max(Size, 128)
