package reasm

import "sync/atomic"

// atomicAccount is one shared counter.
type atomicAccount struct{ n atomic.Int64 }

func (a *atomicAccount) Charge(_ int, n int64)   { a.n.Add(n) }
func (a *atomicAccount) Uncharge(_ int, n int64) { a.n.Add(-n) }
func (a *atomicAccount) Bytes() int64            { return a.n.Load() }
