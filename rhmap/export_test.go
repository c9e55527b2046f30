package rhmap

// What tests of this and of the stress package's kind force: steps that otherwise
// happen when thresholds say so.

// forceResize begins a resize to twice or half as many buckets.
func (c *core) forceResize(grow bool) bool {
	v := c.cur.Load()
	b := v.bits() - 1
	if grow {
		b = v.bits() + 1
	}
	if b < minBits || b > 20 || !c.idle(v) {
		return false
	}
	if !c.start(v, newVersion(v.ep, b)) {
		return false
	}
	if grow {
		c.grows.Add(1)
	} else {
		c.shrinks.Add(1)
	}
	return true
}

// forceReseed begins a reseed.
func (c *core) forceReseed() bool {
	v := c.cur.Load()
	return c.idle(v) && c.reseed(v)
}
