package reasm

import "iter"

// Cache reassembles datagrams under a memory limit. New makes one by a design's
// name.
//
// Work arrives on lanes; Step does everything that is not caused by a fragment.
// All methods may be called from any goroutine.
type Cache interface {
	// Lane returns lane i, 0 <= i < Config.Lanes.
	Lane(i int) Lane
	// Step expires what has run out of time and runs the design's worker, for
	// about budget queues or table steps. It reports whether work is left. Steps
	// exclude each other. Call it every few milliseconds, or let Run do so.
	Step(now int64, budget int) (more bool)
	// Stats sums the counters of all lanes. It is exact while nobody adds.
	Stats() Stats
	// Walk yields what is held, in no useful order. Fragments may be added
	// meanwhile, and the loop body may call the cache.
	Walk() iter.Seq[QueueInfo]
	// SetLimits changes the limits; what is above them leaves as the design sees
	// to it, or with the next Step.
	SetLimits(Limits) error
	// Close refuses newcomers, drops what is held and gives its buffers back.
	// Datagrams that were delivered stay valid, and charged, until released.
	// A second Close does nothing.
	Close() error
}

// Lane is one stream of fragments into a cache. Only one goroutine at a time may
// use it; lanes never wait for each other except for a queue both want.
type Lane interface {
	// Add takes in one fragment. now is nanoseconds of any clock, the same for
	// the whole cache; a step back is ignored.
	Add(now int64, f *Fragment) Result
	// AddBatch takes in fs in order and writes the result of fs[i] to rs[i]. It
	// stops when either is used up and returns how many it took. Fragments of one
	// datagram that follow each other are cheaper this way.
	AddBatch(now int64, fs []Fragment, rs []Result) int
}

// QueueInfo describes one datagram that is held. In 6LoWPAN its payload is the
// whole IPv6 packet, of which the link fragments are parts.
type QueueInfo struct {
	Key       Key
	Created   int64 // time of the first fragment, nanoseconds
	Last      int64 // time of the last stored fragment
	Bytes     int   // payload bytes held
	Charged   int64 // memory charged
	Fragments int   // fragments held
	Holes     int   // gaps between the runs held, and in front of the first
	End       int   // the datagram's payload length, -1 if not known
}
