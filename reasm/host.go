package reasm

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"corelane/internal/cacheline"
	"corelane/memacct"
)

// Host is one machine's fragment cache, divided into namespaces: containers,
// tenants, VRFs. It owns the table, the timers, the pools and the design's
// worker; a namespace owns limits, an account below the host's, counters, and
// whatever list its design keeps, so that nobody is evicted for the sake of a
// neighbour, as long as the host itself has room: when it has not, each namespace
// evicts its own, but a worker evicts what it meets. (Mail 001, patch 9: one limit
// above those of all namespaces.)
//
// New makes a host with a single namespace; most programs need no more.
type Host struct {
	cfg    Config // immutable; of all namespaces, but for their limits
	design *Design
	limits limits

	// Written by the design, once.
	index      index
	newAccount func(h *Host, parent account, l Limits) account
	peerMemory bool // count what each source is charged
	worksFor   any  // what its namespaces share with its worker

	steps, budgetHit atomic.Uint64                                     // of the worker; see Stats
	work             func(p *party, now int64, budget int) (more bool) // its worker, run under stepMu; may be nil

	buffers bufferPool
	queues  sync.Pool
	peers   *peers // nil unless somebody counts peers
	account account
	wheels  []wheel // one for each lane

	mu     sync.Mutex // guards the rest
	spaces map[uint16]*cache
	next   uint16 // the last number given out
	closed bool
	done   chan struct{} // closed with the host

	_      cacheline.Pad
	stepMu sync.Mutex
	worker party // guarded by stepMu
	now    int64 // latest time a Step was given; guarded by stepMu
}

// limits are the two marks. They are written by SetLimits, and read by the
// design: whoever sees one before the other sees a moment's mixture, which only
// moves the point where eviction stops.
type limits struct{ high, low atomic.Int64 }

func (l *limits) store(to Limits) {
	l.high.Store(to.High)
	l.low.Store(to.Low)
}

// maxSpaces is how many namespaces a host can have open.
const maxSpaces = 1<<16 - 1

var (
	errHostClosed = errors.New("reasm: the host is closed")
	errTooMany    = fmt.Errorf("reasm: a host has at most %d namespaces", maxSpaces)
)

// NewHost makes a host of a design. cfg.Limits are its own: no namespace's may
// be higher, and all of them together stay below.
func NewHost(name string, cfg Config) (*Host, error) {
	d := lookupDesign(name)
	if d == nil {
		return nil, fmt.Errorf("reasm: no design is called %q", name)
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	h := &Host{cfg: cfg, design: d, wheels: make([]wheel, cfg.Lanes), spaces: make(map[uint16]*cache), done: make(chan struct{}), now: math.MinInt64}
	h.limits.store(cfg.Limits)
	h.buffers.front = cfg.Headroom + headerRoom
	h.worker.h = h
	if cfg.MaxDist > 0 {
		h.peers = new(peers)
	}
	h.newAccount = newAtomicAccount
	d.host(h)
	if h.peerMemory && h.peers == nil {
		h.peers = new(peers)
	}
	h.account = h.newAccount(h, nil, cfg.Limits)
	return h, nil
}

// Namespace opens a namespace with limits of its own, at most the host's. It is a
// Cache like any other; closing it gives back all it held. A namespace costs some
// hundred bytes per lane, 6 KiB with percpu-lru. Closing one walks the host's table.
func (h *Host) Namespace(l Limits) (Cache, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.check(l); err != nil {
		return nil, err
	}
	if h.closed {
		return nil, errHostClosed
	}
	if len(h.spaces) == maxSpaces {
		return nil, errTooMany
	}
	for h.next++; h.next == 0 || h.spaces[h.next] != nil; h.next++ {
	}
	c := h.newCache(h.next, h.newAccount(h, h.account, l), l)
	h.spaces[c.number] = c
	return c, nil
}

// check refuses limits that are out of order, or above the host's.
func (h *Host) check(l Limits) error {
	if err := l.validate(); err != nil {
		return err
	}
	if high := h.limits.high.Load(); l.High > high {
		return fmt.Errorf("reasm: a namespace's High must not exceed its host's: got %d, host %d", l.High, high)
	}
	return nil
}

// SetLimits changes the host's limits. Namespaces whose own are higher are held
// to the host's from then on.
func (h *Host) SetLimits(l Limits) error {
	if err := l.validate(); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.limits.store(l)
	return capAccount(h.account, l)
}

// Bytes returns the memory charged to all namespaces, closed ones with datagrams
// out included.
func (h *Host) Bytes() int64 { return exact(h.account) }

func exact(a account) int64 {
	n, err := a.Exact()
	if err != nil {
		panic("reasm: " + err.Error()) // more was given back than charged
	}
	return n
}

// Step is Cache.Step, for all namespaces.
func (h *Host) Step(now int64, budget int) (more bool) {
	h.stepMu.Lock()
	h.now = max(h.now, now)
	budget, more = h.expire(budget)
	if !more && h.work != nil {
		more = h.work(&h.worker, h.now, budget)
	}
	rs := h.worker.retired
	h.worker.retired = nil
	h.stepMu.Unlock()
	h.settle(rs)
	return more
}

// expire retires queues that are out of time, budget at most.
func (h *Host) expire(budget int) (left int, more bool) {
	var due [64]*queue
	for i := range h.wheels {
		for all := false; !all; {
			if budget <= 0 {
				return 0, true
			}
			var n int
			n, all = h.wheels[i].due(h.now, due[:min(budget, len(due))])
			budget -= n
			for _, q := range due[:n] {
				q.mu.Lock()
				if q.state == live && q.deadline <= h.now {
					h.worker.retire(q, evExpired, h.now)
				}
				q.mu.Unlock()
			}
		}
	}
	return budget, false
}

// flush retires every queue of c, or of all namespaces.
func (h *Host) flush(c *cache) {
	h.stepMu.Lock()
	for qs := range h.index.batches() {
		for _, q := range qs {
			q.mu.Lock()
			if q.state == live && (c == nil || q.cache == c) {
				h.worker.retire(q, evFlushed, h.now)
			}
			q.mu.Unlock()
		}
	}
	rs := h.worker.retired
	h.worker.retired = nil
	h.stepMu.Unlock()
	h.settle(rs)
}

// Close closes all namespaces. Closing again does nothing.
func (h *Host) Close() error {
	h.mu.Lock()
	if !h.closed {
		defer close(h.done)
	}
	h.closed = true
	open := slices.Collect(maps.Values(h.spaces))
	clear(h.spaces)
	h.mu.Unlock()
	for _, c := range open {
		c.closed.Store(true) // CROSSED close/insert: see cache.Close
	}
	if len(open) > 0 {
		h.flush(nil)
	}
	for _, c := range open {
		c.flushed.Store(true)
		c.bury()
	}
	return nil
}

func (h *Host) over() <-chan struct{} { return h.done }

// take returns an idle queue, which only the caller knows.
func (h *Host) take() *queue {
	if q, ok := h.queues.Get().(*queue); ok {
		return q
	}
	q := &queue{host: h, end: -1}
	q.node.Init(q)
	return q
}

// settle frees retired queues, with no lock held.
func (h *Host) settle(rs []retired) {
	for _, r := range rs {
		if r.expired && h.cfg.OnExpire != nil {
			h.cfg.OnExpire(&Expired{
				Key: r.q.key.public(), First: r.q.firstPacket(), Bytes: int(r.q.holes.bytes),
				Fragments: int(r.q.fragments), Age: r.now - r.q.created,
			})
		}
		h.free(r.q)
	}
}

// free empties a retired queue and recycles it, with no lock held.
func (h *Host) free(q *queue) {
	if len(q.bufs) > 0 {
		h.cfg.Free(q.bufs)
		q.dropBufs()
	}
	q.freeCells(&h.buffers)
	if q.buf != nil {
		h.buffers.put(q.buf)
		q.buf = nil
	}
	q.forget()
	h.queues.Put(q)
}

// account counts memory. The accounts of package memacct are.
type account interface {
	ChargeAt(lane int, n int64)
	UnchargeAt(lane int, n int64)
	Used() int64           // cheap, and as right as the design's account is
	Exact() (int64, error) // the truth
	Close() error
}

// newAtomicAccount makes an account without a cap: the design acts when it is
// above High, one fragment late at most.
func newAtomicAccount(_ *Host, parent account, _ Limits) account {
	up, _ := parent.(*memacct.Atomic)
	a, err := memacct.NewAtomic(up, noCap)
	if err != nil {
		panic("reasm: " + err.Error())
	}
	return a
}

// newBatchedAccount makes the counter Linux had from 2013 to 2018: a lane keeps up
// to 130000 bytes to itself, so what Used says is wrong by that, times the lanes.
func newBatchedAccount(_ *Host, parent account, _ Limits) account {
	up, _ := parent.(*memacct.Batched)
	a, err := memacct.NewBatched(up, noCap)
	if err != nil {
		panic("reasm: " + err.Error())
	}
	return a
}

// newStockAccount makes an account whose lanes count by themselves until High is
// passed. The charge that passes it is refused first, which calls all credit in,
// and forced then; from there on the account is exact, until an eighth of High is
// free.
func newStockAccount(h *Host, parent account, l Limits) account {
	up, _ := parent.(*memacct.Stock)
	a, err := memacct.NewStock(up, memacct.Config{Limits: capped(l), Lanes: h.cfg.Lanes})
	if err != nil {
		panic("reasm: " + err.Error())
	}
	return a
}

// capAccount tells an account of new limits, if it has any.
func capAccount(a account, l Limits) error {
	if s, ok := a.(*memacct.Stock); ok {
		return s.SetLimits(capped(l))
	}
	return nil
}

// capped lets an account hold High, and what an account can hold if that is more.
func capped(l Limits) memacct.Limits {
	high := min(l.High, memacct.Unlimited)
	return memacct.Limits{Cap: high, High: high, Low: min(l.Low, high)}
}

// noCap leaves the limits to the designs.
var noCap = memacct.Config{Limits: memacct.Limits{Cap: memacct.Unlimited, High: memacct.Unlimited, Low: memacct.Unlimited}}
