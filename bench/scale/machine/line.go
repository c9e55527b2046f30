package machine

import "math/bits"

// LineSize is what moves between CPUs, in bytes.
const LineSize = 64

// line is a cache line. The zero line was never touched.
type line struct {
	addr  uintptr // divided by LineSize
	owner int16   // last writer + 1; 0: nobody yet
	alone bool    // the owner holds it exclusively
	site  uint16  // of the atomic word or lock looked at last; see Machine.At
	share [MaxCPUs / 64]uint64
	busy  float64 // until when it serves a transfer
}

func (l *line) held(by int) bool      { return l.share[by>>6]>>(by&63)&1 != 0 }
func (l *line) exclusive(by int) bool { return l.alone && int(l.owner) == by+1 }

func (l *line) give(to int) {
	l.owner, l.alone = int16(to+1), true
	l.share = [MaxCPUs / 64]uint64{}
	l.join(to)
}

func (l *line) join(cpu int) { l.share[cpu>>6] |= 1 << (cpu & 63) }

// farthest is what it costs to take the line from all who hold it.
func (c *CPU) farthest(l *line) float64 {
	p, n := &c.m.P, len(c.m.CPUs)
	d := 0.0
	if l.owner != 0 && int(l.owner) != c.ID+1 {
		d = p.distance(c.ID, int(l.owner)-1, n)
	}
	for w, set := range l.share {
		for ; set != 0 && d < max(p.Near, p.Far); set &= set - 1 {
			if i := w<<6 + bits.TrailingZeros64(set); i != c.ID {
				d = max(d, p.distance(c.ID, i, n))
			}
		}
	}
	return d
}

// ask is when the line of an access at the present moment is asked for. A core
// looks ahead: it asks LookAhead before it needs the line, and while a load waits it
// goes on with what comes within LookAhead behind it. Only what needs the loaded
// address cannot be asked for before it is there.
func (c *CPU) ask(l *line) float64 {
	at := c.Now - c.m.P.LookAhead
	if c.Now-c.miss < c.m.P.LookAhead {
		at = c.Now - c.lag // behind that load, not behind its end
	}
	return max(at, c.after, l.busy)
}

// read is a load. chase says that its value is an address.
func (c *CPU) read(l *line, site uint16, chase bool) {
	s := &c.m.Sites[site]
	if l.owner == 0 {
		l.give(c.ID)
	}
	if l.held(c.ID) {
		s.Hits++
		return
	}
	c.Sync()
	from := c.Now
	l.busy = c.ask(l) + c.m.P.distance(c.ID, int(l.owner)-1, len(c.m.CPUs))
	if l.busy > c.Now {
		if c.Now-c.miss < c.m.P.LookAhead {
			c.lag += l.busy - c.Now
		} else {
			c.lag = l.busy - c.Now
		}
		c.Now, c.miss = l.busy, l.busy
	}
	if chase {
		c.after = max(c.after, l.busy)
	}
	l.alone = false
	l.join(c.ID)
	s.Transfers++
	s.Stall += c.Now - from
}

// store is a plain store: it waits for its line in the store buffer, and the core
// goes on. The next locked instruction waits for it.
func (c *CPU) store(l *line, site uint16) {
	s := &c.m.Sites[site]
	if l.owner == 0 || l.exclusive(c.ID) {
		l.give(c.ID)
		s.Hits++
		return
	}
	c.Sync()
	l.busy = c.ask(l) + c.farthest(l)
	if l.busy > c.drain {
		s.Stall += l.busy - max(c.drain, c.Now)
		c.drain = l.busy
	}
	l.give(c.ID)
	s.Transfers++
}

// fence waits for the stores before. Nor are loads behind a locked instruction
// asked for before it.
func (c *CPU) fence() { c.Now = max(c.Now, c.drain) }

// write is an atomic whose result somebody waits for.
func (c *CPU) write(l *line, site uint16) {
	s := &c.m.Sites[site]
	c.fence()
	if l.owner == 0 || l.exclusive(c.ID) {
		l.give(c.ID)
		s.Hits++
		return
	}
	c.Sync()
	from := c.Now
	start := c.ask(l)
	d := c.farthest(l)
	l.busy = start + d
	// The old owner goes on hitting until the request reaches it.
	if reached := start + d*c.m.P.Keep; reached > c.Now {
		c.Now = reached
		c.Sync()
	}
	l.give(c.ID)
	c.Now = max(c.Now, start+d)
	s.Transfers++
	s.Stall += c.Now - from
}

// add is an atomic whose result nothing waits for.
func (c *CPU) add(l *line, site uint16) {
	s := &c.m.Sites[site]
	c.fence()
	if l.owner == 0 || l.exclusive(c.ID) {
		l.give(c.ID)
		s.Hits++
		return
	}
	p := &c.m.P
	from := c.Now
	l.busy = c.ask(l) + c.farthest(l)*p.Occupy
	l.give(c.ID)
	c.Now = max(c.Now, l.busy-p.Slip)
	s.Transfers++
	s.Stall += c.Now - from
}

// lines finds a line by its address: a hash table with open addressing.
type lines struct {
	slots []*line
	n     int
	slab  []line
}

func (t *lines) init() { t.slots = make([]*line, 1<<14) }

func (t *lines) find(addr uintptr) *line {
	mask := uintptr(len(t.slots) - 1)
	for i := mixAddr(addr) & mask; ; i = (i + 1) & mask {
		l := t.slots[i]
		if l == nil {
			return t.make(addr)
		}
		if l.addr == addr {
			return l
		}
	}
}

func (t *lines) make(addr uintptr) *line {
	if 2*t.n >= len(t.slots) {
		old := t.slots
		t.slots = make([]*line, 4*len(old))
		for _, l := range old {
			if l != nil {
				t.place(l)
			}
		}
	}
	if len(t.slab) == 0 {
		t.slab = make([]line, 1<<10)
	}
	l := &t.slab[0]
	t.slab = t.slab[1:]
	l.addr = addr
	t.place(l)
	t.n++
	return l
}

func (t *lines) place(l *line) {
	mask := uintptr(len(t.slots) - 1)
	i := mixAddr(l.addr) & mask
	for t.slots[i] != nil {
		i = (i + 1) & mask
	}
	t.slots[i] = l
}

func mixAddr(a uintptr) uintptr {
	h := uint64(a) * 0x9e3779b97f4a7c15
	return uintptr(h ^ h>>29)
}

// recent spares the lines a CPU touched lately a search in the table.
type recent struct {
	addr uintptr
	line *line
}

const recentLines = 256

func (c *CPU) line(addr uintptr) *line {
	addr /= LineSize
	r := &c.recent[addr%recentLines]
	if r.addr != addr || r.line == nil {
		*r = recent{addr, c.m.lines.find(addr)}
	}
	return r.line
}
