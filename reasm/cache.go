package reasm

import (
	"fmt"
	"iter"
	"math"
	"sync/atomic"
)

// cache is a namespace of a host: limits, an account, lanes and their counters,
// and what its design keeps for it.
type cache struct {
	host    *Host
	cfg     *Config // the host's
	number  uint16  // in the keys; 0 for the only namespace of New
	design  design
	account account
	limits  limits
	lanes   []lane
	late    counters // of what is retired in Step and Close

	// The design, if it is one; else nil.
	after    evictsAfter
	bySource limitsSources

	// Each goes from false to true once: closed at the start of Close, flushed
	// when the table holds nothing of this namespace any more, and buried when the
	// last datagram has come back too, by whoever sees that.
	closed, flushed, buried atomic.Bool

	asks atomic.Bool // for memory; see wishes
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
	// admit judges a newcomer before anything is made for it, with no lock held;
	// false refuses its fragment.
	admit(l *lane, f *Fragment) bool
	// create judges a newcomer with its lock held, before it is in the table, and
	// may change q.timeout; false refuses its fragment.
	create(l *lane, q *queue, f *Fragment) bool
	// link is told that q is in the table, touch that it got a fragment, restart
	// that it lost all it had, unlink that it retires: each under q's lock.
	link(l *lane, q *queue)
	touch(l *lane, q *queue)
	restart(l *lane, q *queue)
	unlink(q *queue, why ending)
}

// evictsAfter is a design that makes room after a fragment was Held, with no lock
// held. It reports whether it did; if not, before is asked from then on.
type evictsAfter interface{ after(l *lane) (ok bool) }

// limitsSources is a design that limits each source too, so that its room, which
// knows no source, asks for every fragment. roomOf is room for further fragments of
// q, whose lock the caller holds.
type limitsSources interface{ roomOf(q *queue) int64 }

// ending is why a queue retires.
type ending uint8

const (
	completed ending = iota
	expired
	evicted
	killed // by a verdict, or flushed, or too old
)

// plain is a design that does nothing; designs embed it and say what they do.
type plain struct{}

func (plain) room(*lane) int64                     { return math.MaxInt64 }
func (plain) before(*lane, *Fragment) bool         { return true }
func (plain) admit(*lane, *Fragment) bool          { return true }
func (plain) create(*lane, *queue, *Fragment) bool { return true }
func (plain) link(*lane, *queue)                   {}
func (plain) touch(*lane, *queue)                  {}
func (plain) restart(*lane, *queue)                {}
func (plain) unlink(*queue, ending)                {}

// New makes a cache of the design with that name (see Designs), or says which
// field of cfg is wrong. It is the only namespace of a host of its own.
func New(name string, cfg Config) (Cache, error) {
	h, err := NewHost(name, cfg)
	if err != nil {
		return nil, err
	}
	return h.newCache(0, h.account, cfg.Limits), nil
}

func (h *Host) newCache(number uint16, a account, l Limits) *cache {
	c := &cache{host: h, cfg: &h.cfg, number: number, account: a, lanes: make([]lane, h.cfg.Lanes)}
	c.limits.store(l)
	for i := range c.lanes {
		n := &c.lanes[i]
		n.h, n.own, n.c, n.id, n.now = h, &n.count, c, i, math.MinInt64
	}
	c.design = h.design.cache(c)
	c.after, _ = c.design.(evictsAfter)
	c.bySource, _ = c.design.(limitsSources)
	if number == 0 {
		h.spaces[0] = c
	}
	return c
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
	if c.number == 0 {
		if err := c.host.SetLimits(l); err != nil {
			return err
		}
		c.limits.store(l)
		return nil
	}
	h := c.host
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.check(l); err != nil {
		return err
	}
	c.limits.store(l)
	return capAccount(c.account, l)
}

// room is how many bytes may be charged until this namespace or its host is
// above High.
func (c *cache) room() int64 {
	room := c.limits.high.Load() - c.account.Used()
	if c.number != 0 {
		room = min(room, c.host.limits.high.Load()-c.host.account.Used())
	}
	return room
}

// excess is how many bytes this namespace, or its host, is above Low; 0 or less
// is none.
func (c *cache) excess() int64 {
	excess := c.account.Used() - c.limits.low.Load()
	if c.number != 0 {
		excess = max(excess, c.host.account.Used()-c.host.limits.low.Load())
	}
	return excess
}

func (c *cache) over() <-chan struct{} { return c.host.done }

func (c *cache) Step(now int64, budget int) (more bool) { return c.host.Step(now, budget) }

func (c *cache) Stats() Stats {
	s := Stats{Bytes: exact(c.account), Steps: c.host.steps.Load(), BudgetHit: c.host.budgetHit.Load()}
	for i := range c.lanes {
		c.lanes[i].count.addTo(&s)
	}
	c.late.addTo(&s)
	return s
}

func (c *cache) Walk() iter.Seq[QueueInfo] {
	return func(yield func(QueueInfo) bool) {
		for qs := range c.host.index.batches() {
			for _, q := range qs {
				q.mu.Lock()
				lives := q.state == live && q.cache == c
				var info QueueInfo
				if lives { // else its owner may be emptying it, without the lock
					info = q.info()
				}
				q.mu.Unlock()
				if lives && !yield(info) {
					return
				}
			}
		}
	}
}

func (c *cache) Close() error {
	if c.number == 0 {
		return c.host.Close()
	}
	// CROSSED close/insert: closed is set before the table is walked; a lane
	// inserts before it looks at closed. So either the walk finds the queue, or
	// the lane sees that it must take it back.
	if c.closed.Swap(true) {
		return nil
	}
	h := c.host
	h.flush(c)
	c.flushed.Store(true)
	h.mu.Lock()
	if h.spaces[c.number] == c {
		delete(h.spaces, c.number)
	}
	h.mu.Unlock()
	c.bury()
	return nil
}

// bury closes a namespace's account once nothing is charged to it any more. What
// is charged after the flush is datagrams, so it only falls; before it, a lane
// that saw the namespace open may still be about to charge a queue.
func (c *cache) bury() {
	if c.number != 0 && c.flushed.Load() && exact(c.account) == 0 && !c.buried.Swap(true) {
		_ = c.account.Close() // it is empty
	}
}
