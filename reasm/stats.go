package reasm

import "sync/atomic"

// Stats are the counters of a cache since it was made. Each event is counted
// once, under one cause.
type Stats struct {
	// Verdicts counts fragments, by verdict: Verdicts[Overlap] is how many
	// fragments discarded their datagram by an overlap.
	Verdicts [numVerdicts]uint64

	// Datagrams that were given up, by cause, not counting those that a verdict
	// discarded.
	Expired   uint64 // ran out of time
	Evicted   uint64 // made room
	TooFar    uint64 // restarted by max_dist
	TooOld    uint64 // restarted by MaxAge
	Conflicts uint64 // restarted by an overlap, in 6LoWPAN
	Flushed   uint64 // dropped by Close

	// Of Verdicts[Refused], by designs that refuse for several reasons: the rest of
	// datagrams that were given up before; newcomers that were worth less than what
	// is held; and what came while memory was full and nothing could be given up.
	Doomed, Outbid, NoVictim uint64

	// Of the design's worker, which a host's namespaces share.
	Steps     uint64 // buckets or queues it looked at
	BudgetHit uint64 // times it stopped at its step bound instead of its goal

	// What is held now.
	Queues int
	// Bytes is the memory charged, delivered datagrams included until released.
	Bytes int64
}

// Fragments returns how many fragments were given to the cache, without packets
// that are none or that were malformed.
func (s Stats) Fragments() (n uint64) {
	for v, c := range s.Verdicts {
		if v := Verdict(v); v != Whole && !v.Malformed() {
			n += c
		}
	}
	return n
}

// LinuxStats are the counters of /proc/net/snmp (and Ip6Reasm* in snmp6), with
// their mixed units: ReasmFails counts fragments for some causes, datagrams for
// others (RE-L8).
type LinuxStats struct {
	ReasmReqds, ReasmOKs, ReasmFails, ReasmTimeout, ReasmOverlaps uint64
}

// Linux converts the counters to what Linux would show.
func (s Stats) Linux() LinuxStats {
	v := &s.Verdicts
	return LinuxStats{
		ReasmReqds: s.Fragments(),
		ReasmOKs:   v[Complete] + v[Atomic],
		ReasmFails: v[Refused] + v[Closed] + v[Overlap] + v[BadEnd] + v[ZeroLength] + v[TooLong] + v[BadECN] +
			s.Expired + s.Evicted + s.TooFar + s.TooOld + s.Conflicts,
		ReasmTimeout:  s.Expired,
		ReasmOverlaps: v[Overlap],
	}
}

// event is something that is counted but is no verdict.
type event uint8

const (
	evExpired event = iota
	evEvicted
	evTooFar
	evTooOld
	evConflict
	evFlushed
	evMade    // queues that entered the table
	evRetired // queues that left it
	evDoomed
	evOutbid
	evNoVictim
	numEvents
)

func (e event) ending() ending {
	switch e {
	case evExpired:
		return expired
	case evEvicted:
		return evicted
	}
	return killed
}

// counters are written by one goroutine at a time (the lane's, or the one in
// Step) and read by anyone.
type counters struct {
	verdicts [numVerdicts]atomic.Uint64
	events   [numEvents]atomic.Uint64
}

func (c *counters) verdict(v Verdict, n uint64) { c.verdicts[v].Add(n) }
func (c *counters) event(e event, n uint64)     { c.events[e].Add(n) }

// addTo adds c to s, made and retired to Queues.
func (c *counters) addTo(s *Stats) {
	for v := range c.verdicts {
		s.Verdicts[v] += c.verdicts[v].Load()
	}
	for e, sum := range [...]*uint64{&s.Expired, &s.Evicted, &s.TooFar, &s.TooOld, &s.Conflicts, &s.Flushed} {
		*sum += c.events[e].Load()
	}
	s.Doomed += c.events[evDoomed].Load()
	s.Outbid += c.events[evOutbid].Load()
	s.NoVictim += c.events[evNoVictim].Load()
	s.Queues += int(c.events[evMade].Load()) - int(c.events[evRetired].Load())
}
