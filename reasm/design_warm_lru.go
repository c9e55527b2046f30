package reasm

// Design warm-lru: global-lru that spares what is still being received.
//
//	From:    mail 004, "avoid killing warm frag queues" (2012); its code is lost,
//	         this is what the thread says of it.
//	Index:   as global-lru.     Charge: as global-lru.
//	Victim:  least recently updated, but never one that got a fragment in the last
//	         10 ms; if all did, the newcomer is refused.
//	Evictor: as global-lru.
//
//	Bound:   High plus one fragment per lane, plus what warm queues go on to receive.
//	Locks:   as global-lru.
//	Wins:    a burst of newcomers cannot push out datagrams that are nearly there.
//	Loses:   dead queues are warm for 10 ms too, and a flood is warm for ever: both
//	         shut newcomers out.
type warmLRU struct{ globalLRU }

// warm is how long a queue that got a fragment is spared, in nanoseconds.
const warm = 10e6

func newWarmLRU(c *cache) design { return &warmLRU{globalLRU{c: c}} }

func (d *warmLRU) before(l *lane, _ *Fragment) bool {
	for d.c.excess() > 0 {
		victim, ok := d.list.PopIdle(l.now - warm)
		if !ok {
			break
		}
		l.evict(victim)
	}
	return true
}

func (d *warmLRU) create(*lane, *queue, *Fragment) bool { return d.c.room() >= 0 }
