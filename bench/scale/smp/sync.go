package smp

import (
	"sync"
	"unsafe"

	"corelane/bench/scale/machine"
)

// Mutex stands for sync.Mutex.
type Mutex struct {
	number uint32 // the machine's lock
	_      uint32
}

// Lock takes it.
func (m *Mutex) Lock() {
	if c := machine.Current; c != nil {
		if m.number == 0 {
			m.number = c.NewLock(uintptr(unsafe.Pointer(m)))
		}
		c.Lock(m.number)
	}
}

// TryLock takes it if it is free.
func (m *Mutex) TryLock() bool {
	if c := machine.Current; c != nil {
		if m.number == 0 {
			m.number = c.NewLock(uintptr(unsafe.Pointer(m)))
		}
		return c.TryLock(m.number)
	}
	return true
}

// Unlock gives it up.
func (m *Mutex) Unlock() {
	if c := machine.Current; c != nil && m.number != 0 {
		c.Unlock(m.number)
	}
}

// Cond stands for sync.Cond.
type Cond struct {
	L    sync.Locker
	wait machine.Cond
	_    [3]uintptr
}

// Wait waits for Broadcast.
func (w *Cond) Wait() {
	if c := machine.Current; c != nil {
		c.Wait(&w.wait, w.L.Unlock, w.L.Lock)
	}
}

// Broadcast wakes all.
func (w *Cond) Broadcast() {
	if c := machine.Current; c != nil {
		c.Broadcast(&w.wait)
	}
}

// Once stands for sync.Once. The library uses it for what is made before the
// machine runs.
type Once = sync.Once

// Locker is sync.Locker.
type Locker = sync.Locker

// Pool stands for sync.Pool: a stack for each CPU, and what another put when one's
// own is empty.
type Pool struct {
	New  func() any
	each []pile
	_    uintptr
}

type pile struct {
	items []any
	_     [machine.LineSize]byte
}

// Get takes something out of the pool.
func (p *Pool) Get() any {
	c := machine.Current
	if c == nil {
		return p.take(0)
	}
	c.Work(c.Machine().P.Pool)
	if x := p.take(c.ID); x != nil {
		return x
	}
	for i := range p.each {
		if at := (c.ID + 1 + i) % len(p.each); len(p.each[at].items) > 0 && at != c.ID {
			c.Store(uintptr(unsafe.Pointer(&p.each[at])), 8, 0)
			if items := p.each[at].items; len(items) > 0 { // another may have been faster
				x := items[0]
				p.each[at].items = items[1:]
				return x
			}
		}
	}
	if p.New != nil {
		return p.New()
	}
	return nil
}

func (p *Pool) take(id int) any {
	if id < len(p.each) {
		e := &p.each[id]
		if n := len(e.items); n > 0 {
			x := e.items[n-1]
			e.items[n-1] = nil
			e.items = e.items[:n-1]
			return x
		}
	}
	if machine.Current == nil && p.New != nil {
		return p.New()
	}
	return nil
}

// Put puts something back.
func (p *Pool) Put(x any) {
	id := 0
	if c := machine.Current; c != nil {
		id = c.ID
		c.Work(c.Machine().P.Pool)
	}
	if p.each == nil {
		p.each = make([]pile, machine.MaxCPUs)
	}
	p.each[id].items = append(p.each[id].items, x)
}
