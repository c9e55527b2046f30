package machine

// What marks call. addr is a real address; only which line it is in counts.

// private reports whether an address is on this CPU's stack.
func (c *CPU) private(addr uintptr) bool { return addr >= c.stackLo && addr < c.stackHi }

// Load is a plain load of size bytes. chase says that the value is an address: what
// is reached through it cannot be asked for earlier.
func (c *CPU) Load(addr, size uintptr, site uint16, chase bool) {
	if c.m.over {
		return
	}
	c.Now += c.m.P.Access
	if c.private(addr) {
		return
	}
	for at := addr &^ (LineSize - 1); at < addr+max(size, 1); at += LineSize {
		c.read(c.line(at), site, chase)
	}
}

// Store is a plain store, or a change, of size bytes.
func (c *CPU) Store(addr, size uintptr, site uint16) {
	if c.m.over {
		return
	}
	c.Now += c.m.P.Access
	if c.private(addr) {
		return
	}
	for at := addr &^ (LineSize - 1); at < addr+max(size, 1); at += LineSize {
		c.store(c.line(at), site)
	}
}

// At names the word that the next atomic or lock operation on this line is about.
func (c *CPU) At(addr uintptr, site uint16) { c.line(addr).site = site }

// known reports whether only this CPU has touched the line so far. Nobody else can
// be waiting for what it does there, so the others need not catch up first.
func (c *CPU) known(l *line) bool { return l.owner == 0 || l.exclusive(c.ID) && l.busy == 0 }

// AtomicLoad is an atomic load.
func (c *CPU) AtomicLoad(addr uintptr, chase bool) {
	if c.m.over {
		return
	}
	l := c.line(addr)
	if !c.known(l) {
		c.Sync()
	}
	c.read(l, l.site, chase)
	c.Now += c.m.P.Access
}

// AtomicStore is an atomic store, which on amd64 is an exchange.
func (c *CPU) AtomicStore(addr uintptr) { c.RMW(addr) }

// RMW is an atomic operation whose result is waited for.
func (c *CPU) RMW(addr uintptr) {
	if c.m.over {
		return
	}
	l := c.line(addr)
	if !c.known(l) {
		c.Sync()
	}
	c.write(l, l.site)
	c.Now += c.m.P.RMW
	c.after = c.Now
}

// Add is an atomic addition whose result decides little.
func (c *CPU) Add(addr uintptr) {
	if c.m.over {
		return
	}
	l := c.line(addr)
	if !c.known(l) {
		c.Sync()
	}
	c.add(l, l.site)
	c.Now += c.m.P.RMW
	c.after = c.Now
}
