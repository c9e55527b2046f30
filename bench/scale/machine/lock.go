package machine

import "slices"

// Lock is a mutex of the code that runs here. It stands on the line of the word it
// replaces.
type Lock struct {
	line *line
	site uint16
	held bool
	wait []*CPU // spinning (ticket, queued) or parked (mutex), in order

	woken    bool // mutex: somebody who waits is awake, so that an unlock wakes nobody
	starving bool // mutex: the lock is handed over in order
	heir     *CPU // mutex: whom it was handed over to, until that one runs
}

// NewLock makes a lock on the line of an address and returns its number, from 1 on.
func (c *CPU) NewLock(addr uintptr) uint32 {
	c.m.locks = append(c.m.locks, &Lock{line: c.line(addr)})
	return uint32(len(c.m.locks) - 1)
}

// Lock takes a lock.
func (c *CPU) Lock(number uint32) {
	if c.m.over {
		return
	}
	k := c.m.locks[number]
	k.site = k.line.site
	if c.m.P.Lock == Mutex {
		c.lockMutex(k)
	} else {
		c.lockInOrder(k)
	}
}

// TryLock takes a lock if it is free.
func (c *CPU) TryLock(number uint32) bool {
	if c.m.over {
		return true
	}
	k := c.m.locks[number]
	k.site = k.line.site
	c.touch(k)
	if k.held || k.starving {
		return false
	}
	k.held = true
	return true
}

// Unlock gives it up.
func (c *CPU) Unlock(number uint32) {
	if c.m.over {
		return
	}
	k := c.m.locks[number]
	if !k.held {
		panic("machine: unlock of a lock that is free")
	}
	if c.m.P.Lock == Mutex {
		c.unlockMutex(k)
	} else {
		c.unlockInOrder(k)
	}
}

// touch is the locked instruction on the lock's word.
func (c *CPU) touch(k *Lock) {
	if !c.known(k.line) {
		c.Sync()
	}
	c.write(k.line, k.site)
	c.Now += c.m.P.RMW
	c.after = c.Now
}

// waited books a wait that ends now.
func (c *CPU) waited(k *Lock, since float64) {
	s := &c.m.Sites[k.site]
	s.Waits++
	s.Waited += c.Now - since
	c.after = c.Now // what the lock guards cannot be asked for before it is had
}

func (c *CPU) lockInOrder(k *Lock) {
	c.touch(k)
	if len(c.m.CPUs) > 1 && !c.known(k.line) {
		c.Sync()
	}
	if !k.held {
		k.held = true
		return
	}
	since := c.Now
	k.wait = append(k.wait, c)
	k.line.join(c.ID)
	c.pause() // until the owner hands over
	c.waited(k, since)
}

func (c *CPU) unlockInOrder(k *Lock) {
	p := &c.m.P
	if !c.known(k.line) {
		c.Sync()
	}
	if len(k.wait) == 0 || p.Lock == Ticket {
		c.write(k.line, k.site) // waiters have read the word
	}
	c.Now += p.Store
	if len(k.wait) == 0 && !c.known(k.line) {
		c.Sync() // somebody may have come while the store was on its way
	}
	if len(k.wait) == 0 {
		k.held = false
		return
	}
	next := k.wait[0]
	d := p.distance(next.ID, c.ID, len(c.m.CPUs))
	if p.Lock == Queued {
		d *= p.Handed
	} else {
		// Every waiter reads the word again, and the line serves one at a time. The
		// next owner's turn comes somewhere among them.
		all := d
		for range k.wait[1:] {
			all += p.Reread
			if c.m.rng.IntN(2) == 0 {
				d += p.Reread
			}
		}
		k.line.busy = max(k.line.busy, c.Now+all)
	}
	k.wait = slices.Delete(k.wait, 0, 1)
	if p.Lock == Ticket {
		k.line.give(next.ID)
		for _, w := range k.wait {
			k.line.join(w.ID)
			k.line.alone = false
		}
	}
	next.wake(c.Now + d)
}

// lockMutex is what sync.Mutex.Lock does.
func (c *CPU) lockMutex(k *Lock) {
	c.touch(k)
	if !k.held && !k.starving {
		k.held = true
		return
	}
	var (
		p     = &c.m.P
		since = c.Now
		awake = false // this CPU set woken
		hurry = false // it has waited long enough to ask for a hand-over
		tries = 0
		again = false // it has been parked before
	)
	for {
		if k.held && !k.starving && tries < p.SpinTries {
			if !awake && !k.woken && len(k.wait) > 0 {
				k.woken, awake = true, true
			}
			tries++
			c.Now += p.Spin
			c.Sync()
			c.read(k.line, k.site, false)
			continue
		}
		c.touch(k)
		if k.held && !k.starving && tries < p.SpinTries {
			continue // another one came first
		}
		if hurry && k.held {
			k.starving = true
		}
		if awake {
			k.woken, awake = false, false
		}
		if !k.held && !k.starving {
			k.held = true
			break
		}
		if again {
			k.wait = slices.Insert(k.wait, 0, c)
		} else {
			k.wait = append(k.wait, c)
		}
		again = true
		c.pause() // parked, until an unlock wakes it
		c.after = c.Now
		c.read(k.line, k.site, false)
		hurry = hurry || c.Now-since > p.Starve
		if k.heir == c { // handed over: it was never free
			k.heir = nil
			if !hurry || len(k.wait) == 0 {
				k.starving = false
			}
			c.touch(k)
			break
		}
		awake, tries = true, 0
	}
	c.waited(k, since)
}

func (c *CPU) unlockMutex(k *Lock) {
	c.touch(k)
	if k.starving && len(k.wait) > 0 {
		k.heir = k.wait[0] // held stays true, so that nobody comes in between
		c.wakeFirst(k)
		return
	}
	k.held = false
	if len(k.wait) > 0 && !k.woken {
		k.woken = true
		c.wakeFirst(k)
	}
}

func (c *CPU) wakeFirst(k *Lock) {
	next := k.wait[0]
	k.wait = slices.Delete(k.wait, 0, 1)
	c.Now += c.m.P.Wake
	// It runs after the latency of its wake-up, but not before it was parked.
	next.wake(max(c.Now+c.m.P.WakeAfter, next.Now+c.m.P.Park))
}

// Cond is a condition variable's waiters.
type Cond struct{ wait []*CPU }

// Wait gives up the lock until woken, and takes it again.
func (c *CPU) Wait(w *Cond, unlock, lock func()) {
	if c.m.over {
		return
	}
	w.wait = append(w.wait, c)
	unlock()
	if slices.Contains(w.wait, c) { // nobody woke it while it unlocked
		c.parked = true
		c.pause()
		c.parked = false
	}
	lock()
}

// Broadcast wakes all who wait.
func (c *CPU) Broadcast(w *Cond) {
	if c.m.over {
		return
	}
	for _, x := range w.wait {
		if x.parked {
			c.Now += c.m.P.Wake
			x.wake(max(c.Now+c.m.P.WakeAfter, x.Now+c.m.P.Park))
		}
	}
	w.wait = w.wait[:0]
}
