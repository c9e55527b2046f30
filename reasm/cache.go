package reasm

import (
	"fmt"
	"iter"
	"math"
	"sync"
	"sync/atomic"

	"corelane/internal/cacheline"
	"corelane/memacct"
)

// cache is everything the designs share: lanes, timers, recycling, books. What
// differs is in design, index and account.
type cache struct {
	cfg     Config // immutable after New
	design  design
	index   index
	account memacct.Account
	lanes   []lane
	buffers bufferPool
	queues  sync.Pool
	peers   *peers // nil unless cfg.MaxDist > 0

	// closed goes from false to true once, in Close.
	closed atomic.Bool

	// high and low are written by SetLimits only, and read by the design. A
	// reader may see the one before the other; both orders leave low <= high at
	// the end, and a moment's mixture only moves the point where eviction stops.
	high, low atomic.Int64

	_      cacheline.Pad
	stepMu sync.Mutex
	worker party // guarded by stepMu, but for its counters
	now    int64 // latest time a Step was given; guarded by stepMu
}

// design is what makes one fragment cache differ from another. Every hook may be
// called from several lanes at the same time. A hook that is called with a
// queue's lock held takes no other queue's lock.
type design interface {
	// room is how many bytes may still be charged before the design must act;
	// below 0, before is called. It is the hot path: no lock.
	room(l *lane) int64
	// before makes room ahead of a fragment, with no lock held; false refuses
	// the fragment.
	before(l *lane, f *Fragment) bool
	// create judges a newcomer with its lock held, before it is in the table, and
	// may change q.timeout; false refuses its fragment.
	create(l *lane, q *queue) bool
	// link is told that q is in the table, touch that it got a fragment, unlink
	// that it retires: each under q's lock.
	link(l *lane, q *queue)
	touch(l *lane, q *queue)
	unlink(q *queue)
	// step runs the design's worker, with no lock held.
	step(p *party, now int64, budget int) (more bool)
}

// plain is a design that does nothing; designs embed it and say what they do.
type plain struct{}

func (plain) room(*lane) int64                    { return math.MaxInt64 }
func (plain) before(*lane, *Fragment) bool        { return true }
func (plain) create(*lane, *queue) bool           { return true }
func (plain) link(*lane, *queue)                  {}
func (plain) touch(*lane, *queue)                 {}
func (plain) unlink(*queue)                       {}
func (plain) step(*party, int64, int) (more bool) { return false }

// New makes a cache of the design with that name (see Designs), or says which
// field of cfg is wrong.
func New(name string, cfg Config) (Cache, error) {
	d := lookupDesign(name)
	if d == nil {
		return nil, fmt.Errorf("reasm: no design is called %q", name)
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c := &cache{cfg: cfg}
	if cfg.MaxDist > 0 {
		c.peers = new(peers)
	}
	c.buffers.front = cfg.Headroom + headerRoom
	c.setLimits(cfg.Limits)
	c.worker.c = c
	c.lanes = make([]lane, cfg.Lanes)
	for i := range c.lanes {
		c.lanes[i].c, c.lanes[i].id, c.lanes[i].now = c, i, math.MinInt64
	}
	c.now = math.MinInt64
	d.make(c)
	return c, nil
}

// newAtomicAccount makes an account without a cap: the design acts when it is
// above High, one fragment late at most.
func newAtomicAccount() memacct.Account {
	const max = memacct.Unlimited
	a, err := memacct.NewAtomic(nil, memacct.Config{Limits: memacct.Limits{Cap: max, High: max, Low: max}})
	if err != nil {
		panic("reasm: " + err.Error())
	}
	return a
}

// headerRoom is the space that buffers leave for the rebuilt header: any IPv4
// header, and IPv6 with some extension headers.
const headerRoom = 64

func (c *cache) Lane(i int) Lane {
	if i < 0 || i >= len(c.lanes) {
		panic(fmt.Sprintf("reasm: lane %d of %d", i, len(c.lanes)))
	}
	return &c.lanes[i]
}

func (c *cache) SetLimits(l Limits) error {
	if err := l.validate(); err != nil {
		return err
	}
	c.setLimits(l)
	return nil
}

func (c *cache) setLimits(l Limits) {
	c.high.Store(l.High)
	c.low.Store(l.Low)
}

func (c *cache) Step(now int64, budget int) (more bool) {
	c.stepMu.Lock()
	c.now = max(c.now, now)
	budget, more = c.expire(budget)
	if !more {
		more = c.design.step(&c.worker, c.now, budget)
	}
	rs := c.worker.retired
	c.worker.retired = nil
	c.stepMu.Unlock()
	c.settle(rs)
	return more
}

// expire retires queues that are out of time, budget at most.
func (c *cache) expire(budget int) (left int, more bool) {
	var due [64]*queue
	for i := range c.lanes {
		for all := false; !all; {
			if budget <= 0 {
				return 0, true
			}
			var n int
			n, all = c.lanes[i].wheel.due(c.now, due[:min(budget, len(due))])
			budget -= n
			for _, q := range due[:n] {
				q.mu.Lock()
				if q.state == live && q.deadline <= c.now {
					c.worker.retire(q, evExpired, c.now)
				}
				q.mu.Unlock()
			}
		}
	}
	return budget, false
}

func (c *cache) Stats() Stats {
	s := Stats{Bytes: c.account.Used()}
	for i := range c.lanes {
		c.lanes[i].count.addTo(&s)
	}
	c.worker.count.addTo(&s)
	return s
}

func (c *cache) Walk() iter.Seq[QueueInfo] {
	return func(yield func(QueueInfo) bool) {
		for qs := range c.index.batches() {
			for _, q := range qs {
				q.mu.Lock()
				lives, info := q.state == live, q.info()
				q.mu.Unlock()
				if lives && !yield(info) {
					return
				}
			}
		}
	}
}

func (c *cache) Close() error {
	// CROSSED close/insert: closed is set before the table is walked; a lane
	// inserts before it looks at closed. So either the walk finds the queue, or
	// the lane sees that it must take it back.
	if c.closed.Swap(true) {
		return nil
	}
	c.stepMu.Lock()
	for qs := range c.index.batches() {
		for _, q := range qs {
			q.mu.Lock()
			if q.state == live {
				c.worker.retire(q, evFlushed, c.now)
			}
			q.mu.Unlock()
		}
	}
	rs := c.worker.retired
	c.worker.retired = nil
	c.stepMu.Unlock()
	c.settle(rs)
	return nil
}

// take returns an idle queue, which only the caller knows.
func (c *cache) take() *queue {
	if q, ok := c.queues.Get().(*queue); ok {
		return q
	}
	q := &queue{cache: c, end: -1}
	q.node.Init(q)
	return q
}

// free empties a retired queue and recycles it, with no lock held.
func (c *cache) free(q *queue) {
	if len(q.bufs) > 0 {
		c.cfg.Free(q.bufs)
		q.dropBufs()
	}
	q.freeCells(&c.buffers)
	if q.buf != nil {
		c.buffers.put(q.buf)
		q.buf = nil
	}
	q.forget()
	c.queues.Put(q)
}
