package stress

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"corelane/lru"
)

// lruQueue stands for a fragment queue: a lock of its own, lives, a node.
type lruQueue struct {
	id   int
	mu   sync.Mutex
	live bool // guarded by mu
	node lru.Node[lruQueue]
}

func lruQueues(n int) []*lruQueue {
	all := make([]*lruQueue, n)
	for i := range all {
		all[i] = &lruQueue{id: i}
		all[i].node.Init(all[i])
	}
	return all
}

// lruList is what Global and PerCPU have in common for the suites.
type lruList interface {
	insert(lane int, q *lruQueue, tick int64)
	touch(q *lruQueue, tick int64)
	remove(q *lruQueue) bool
	pop(lane int) (lru.Ref[lruQueue], bool)
	size() int
}

type lruGlobal struct{ lru.Global[lruQueue] }

func (g *lruGlobal) insert(_ int, q *lruQueue, tick int64) { g.Insert(&q.node, tick) }
func (g *lruGlobal) touch(q *lruQueue, tick int64)         { g.Touch(&q.node, tick) }
func (g *lruGlobal) remove(q *lruQueue) bool               { return g.Remove(&q.node) }
func (g *lruGlobal) pop(int) (lru.Ref[lruQueue], bool)     { return g.PopOldest() }
func (g *lruGlobal) size() int                             { return g.Len() }

type lruPerCPU struct {
	*lru.PerCPU[lruQueue]
	own bool // evict by the 2013 rule
}

func (p lruPerCPU) insert(lane int, q *lruQueue, tick int64) { p.Insert(lane, &q.node, tick) }
func (p lruPerCPU) touch(q *lruQueue, tick int64)            { p.Touch(&q.node, tick) }
func (p lruPerCPU) remove(q *lruQueue) bool                  { return p.Remove(&q.node) }
func (p lruPerCPU) size() int                                { return p.Len() }
func (p lruPerCPU) pop(lane int) (lru.Ref[lruQueue], bool) {
	if p.own {
		return p.PopOwn(lane)
	}
	return p.PopOldest()
}

func newLRUPerCPU(t *testing.T, lanes, scan int) *lru.PerCPU[lruQueue] {
	p, err := lru.NewPerCPU[lruQueue](lru.Config{Lanes: lanes, Scan: scan})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Births, touches, completions and evictions over queues that are used again
// and again, as a fragment cache does it: every life ends exactly once (L1,
// L8), and the list holds exactly the living at the end. PC-51, PC-52.
func TestStressLRULifeEndsOnce(t *testing.T) {
	const lanes = 4
	for _, s := range []struct {
		name string
		list lruList
	}{
		{"list=global", new(lruGlobal)},
		{"list=percpu/rule=oldest", lruPerCPU{newLRUPerCPU(t, lanes, 0), false}},
		{"list=percpu/rule=oldest/scan=1", lruPerCPU{newLRUPerCPU(t, lanes, 1), false}},
		{"list=percpu/rule=own", lruPerCPU{newLRUPerCPU(t, lanes, 0), true}},
	} {
		t.Run(s.name, func(t *testing.T) {
			var (
				queues = lruQueues(64)
				ledger = NewLedger("lives", len(queues))
				tick   atomic.Int64
			)
			die := func(q *lruQueue) error { // q.mu is held
				q.live = false
				return ledger.Back(q.id)
			}
			Run(t, Plan{
				Procs: []int{1, 2, 4},
				Scale: 0.5,
				Actors: []Actor{
					{Name: "receive", Workers: 2, Run: func(w *Worker) error {
						for w.Next() {
							q, now := queues[w.Rand.IntN(len(queues))], tick.Add(1)
							q.mu.Lock()
							if q.live {
								s.list.touch(q, now)
							} else {
								q.live = true
								if err := ledger.Out(q.id); err != nil {
									q.mu.Unlock()
									return err
								}
								s.list.insert(w.Rand.IntN(lanes), q, now)
							}
							q.mu.Unlock()
						}
						return nil
					}},
					{Name: "complete", Run: func(w *Worker) (err error) {
						for w.Next() && err == nil {
							q := queues[w.Rand.IntN(len(queues))]
							q.mu.Lock()
							removed := s.list.remove(q)
							switch {
							case q.live:
								err = die(q) // also when an evictor holds the claim: it will see
							case removed:
								err = fmt.Errorf("queue %d was at rest and in the list", q.id)
							}
							q.mu.Unlock()
						}
						return err
					}},
					{Name: "evict", Workers: 2, Run: func(w *Worker) (err error) {
						for w.Next() && err == nil {
							r, ok := s.list.pop(w.Rand.IntN(lanes))
							if !ok {
								continue
							}
							r.Owner.mu.Lock()
							if r.Current() && r.Owner.live {
								err = die(r.Owner)
							}
							r.Owner.mu.Unlock()
						}
						return err
					}},
				},
				Check: func() error {
					living := 0
					for _, q := range queues {
						if q.live != q.node.Linked() {
							return fmt.Errorf("queue %d: live is %v, linked is %v", q.id, q.live, q.node.Linked())
						}
						if q.live {
							living++
							if err := ledger.Back(q.id); err != nil {
								return err
							}
						}
					}
					if living != s.list.size() {
						return fmt.Errorf("%d live, %d in the list", living, s.list.size())
					}
					return ledger.Balanced()
				},
			})
		})
	}
}

// While a flood turns the list over, a few queues are touched without pause and
// without a lock. Their ticks are always within `late` of the newest, and the
// list spans far more, so no correct list ever evicts one (L2).
func TestStressLRUActiveSurvivesFlood(t *testing.T) {
	const lanes, limit, active = 4, 512, 8
	var (
		p    = newLRUPerCPU(t, lanes, 0)
		warm = lruQueues(active)
		tick atomic.Int64
		// Each flood goroutine waits for the toucher once the oldest active
		// queue would lag by more than limit/4 ticks: a slow scheduler must not
		// look like a broken list.
		touched atomic.Int64
	)
	for i, q := range warm {
		q.id = -1
		p.Insert(i, &q.node, 0)
	}
	Run(t, Plan{
		Procs: []int{1, 2, 4},
		Actors: []Actor{
			{Name: "touch", Run: func(w *Worker) error {
				for w.Next() {
					now := tick.Load()
					for _, q := range warm {
						p.Touch(&q.node, now)
					}
					touched.Store(now)
				}
				return nil
			}},
			{Name: "flood", Workers: 3, Run: func(w *Worker) error {
				var free []*lruQueue
				for w.Next() {
					if tick.Load()-touched.Load() > limit/4 {
						continue
					}
					var q *lruQueue
					if n := len(free); n > 0 {
						q, free = free[n-1], free[:n-1]
					} else {
						q = lruQueues(1)[0]
					}
					p.Insert(w.Rand.IntN(lanes)&w.Rand.IntN(lanes), &q.node, tick.Add(1)) // skewed to lane 0
					for p.Len() > limit {
						r, ok := p.PopOldest()
						if !ok {
							return fmt.Errorf("%d nodes, and none to pop", p.Len())
						}
						if r.Owner.id < 0 {
							return fmt.Errorf("an active queue was evicted: its tick %d, now %d", r.Tick, tick.Load())
						}
						free = append(free, r.Owner)
					}
				}
				return nil
			}},
		},
		Until: func() bool { s := p.Stats(); return s.Relinked > 0 && s.Popped > 0 },
		Check: func() error {
			s := p.Stats()
			if s.Relinked == 0 || s.Popped == 0 {
				return fmt.Errorf("the flood never reached the touched: %+v", s)
			}
			return nil
		},
	})
}

// One node, one pop against one removal: one of them, and only one, gets it.
func TestLitmusLRUPopAgainstRemove(t *testing.T) {
	RunLitmus(t, Litmus{
		New: func() ([]func(), func() string) {
			p := newLRUPerCPU(t, 2, 0)
			q := lruQueues(1)[0]
			p.Insert(1, &q.node, 1)
			var popped, removed bool
			return []func(){
					func() { _, popped = p.PopOldest() },
					func() { removed = p.Remove(&q.node) },
				}, func() string {
					return fmt.Sprintf("popped=%v removed=%v", popped, removed)
				}
		},
		Table: map[string]Outcome{
			"popped=true removed=false":  {Acceptable, "the pop came first"},
			"popped=false removed=true":  {Acceptable, "the removal came first"},
			"popped=true removed=true":   {Forbidden, "L1: two removers of one life"},
			"popped=false removed=false": {Forbidden, "L1: a life that nobody ended"},
		},
	})
}

// Two touches race with different ticks: the later tick stays (L5).
func TestLitmusLRUTouchesRace(t *testing.T) {
	RunLitmus(t, Litmus{
		New: func() ([]func(), func() string) {
			p := newLRUPerCPU(t, 1, 0)
			q := lruQueues(1)[0]
			p.Insert(0, &q.node, 1)
			return []func(){
					func() { p.Touch(&q.node, 7) },
					func() { p.Touch(&q.node, 9) },
				}, func() string {
					return fmt.Sprintf("tick=%d", q.node.Tick())
				}
		},
		Table: map[string]Outcome{
			"tick=9": {Acceptable, "the later tick"},
			"tick=7": {Forbidden, "L5: the slower touch undid the later one"},
		},
	})
}

// A touch against the pop of the oldest of two: either the touch is seen, and
// the other node goes, or it came too late.
func TestLitmusLRUTouchAgainstPop(t *testing.T) {
	RunLitmus(t, Litmus{
		New: func() ([]func(), func() string) {
			p := newLRUPerCPU(t, 2, 0)
			qs := lruQueues(2)
			p.Insert(0, &qs[0].node, 1)
			p.Insert(1, &qs[1].node, 2)
			victim := -1
			return []func(){
					func() { p.Touch(&qs[0].node, 3) },
					func() {
						if r, ok := p.PopOldest(); ok {
							victim = r.Owner.id
						}
					},
				}, func() string {
					return fmt.Sprintf("victim=%d", victim)
				}
		},
		Table: map[string]Outcome{
			"victim=0":  {Interesting, "the pop had looked already"},
			"victim=1":  {Acceptable, "the touch was seen"},
			"victim=-1": {Forbidden, "L1: two nodes, and none was popped"},
		},
	})
}
