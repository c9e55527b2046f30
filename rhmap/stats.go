package rhmap

// Stats describes the shape of a Map or Table.
type Stats struct {
	Len      int  // elements
	Buckets  int  // in the array that is current, 64 bytes each
	Made     int  // of these, in segments that exist
	Overflow int  // buckets behind those
	Spare    int  // overflow buckets kept for later
	Longest  int  // elements in the longest chain
	Moving   bool // a resize or reseed is in progress, so a second array exists
	Weak     bool // the newest hash key did not help: the hash is weak, or its key known at once (R7)

	Grows, Shrinks, Reseeds int64 // begun, since the table was made
}

// stats reads every chain, without a lock: counts may be torn while others write.
func (c *core) stats() Stats {
	v := c.cur.Load()
	s := Stats{
		Len:     c.count(),
		Buckets: v.buckets(),
		Moving:  v.next.Load() != nil,
		Weak:    c.weak.Load(),
		Grows:   c.grows.Load(), Shrinks: c.shrinks.Load(), Reseeds: c.reseeds.Load(),
	}
	for i := range v.buckets() {
		b := v.bucket(v.start(i))
		if b == nil {
			continue
		}
		s.Made++
		n := 0
		for o, hops := b, v.longest.Load(); o != nil && hops >= 0; o, hops = o.next.Load(), hops-1 {
			for u := used(o.meta.Load()); u != 0; u &= u - 1 {
				n++
			}
			if o != b {
				s.Overflow++
			}
		}
		s.Longest = max(s.Longest, n)
	}
	for i := range c.lots {
		l := &c.lots[i]
		l.mu.Lock()
		s.Spare += l.spares
		l.mu.Unlock()
	}
	return s
}

// Stats describes the shape of the table. It visits every chain.
func (t *Table[K, N]) Stats() Stats { return t.stats() }

// Stats describes the shape of the map. It visits every chain.
func (m *Map[K, V]) Stats() Stats {
	m.ready()
	return m.stats()
}
