package reasm

// Design hard-limit: when memory is full, refuse.
//
//	From:    what mail 000 complains of: Linux since 4.17 (648700f76b03, 2018).
//	Index:   rhmap, lookups without a lock.   Charge: one atomic counter.
//	Victim:  nobody.                          Evictor: none; only the timeout drains it.
//
//	Add ──> charged > High? ──yes──> Refused, before the lookup: also the
//	              │                  fragment that would have completed a datagram
//	              no ──> table ──> queue
//
//	Bound:   High plus one fragment per lane.
//	Locks:   queue.mu, then one chain's lock bit, at birth and death only.
//	Wins:    nothing is ever dropped that was accepted; no list, no shared line but the counter.
//	Loses:   once dead queues fill it, everything is refused until they time out:
//	         1 % loss of 64 KB datagrams is enough (RE-L2, RE-L3).
type hardLimit struct {
	plain
	c *cache
}

func hardLimitHost(h *Host) { h.index = newTable(h) }

func newHardLimit(c *cache) design { return &hardLimit{c: c} }

// room is -1 under a limit of 0: then even an empty cache refuses, as in Linux.
func (d *hardLimit) room(*lane) int64 {
	if d.c.limits.high.Load() == 0 {
		return -1
	}
	return d.c.room()
}

func (d *hardLimit) before(*lane, *Fragment) bool { return false }
