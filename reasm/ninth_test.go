package reasm

import (
	"iter"
	"testing"

	"github.com/puzpuzpuz/xsync/v3"
	"github.com/stretchr/testify/require"

	"corelane/lru"
)

// How to build a design of your own: a file like this one, and a line in
// designs.go. It takes its parts from where they are, and only its index is new.
//
// Design oldest-tail: percpu-lru with the objection to it answered.
//
//	From:    mail 002, and Eric Dumazet's reply to it: most machines receive on one
//	         CPU, so a limit for each is the wrong one.
//	Index:   xsync.MapOf of v3, which is not part of this library.
//	Charge:  one atomic counter.
//	Victim:  the oldest over the lists of all lanes; a touch takes no lock.
//	Evictor: the fragment that finds memory above High evicts down to Low.
//
//	lane 0: [old ... new] ──┐
//	lane 1: [old ... new] ──┼── the oldest of the oldest goes
//	lane 2: [old ... new] ──┘
//
//	Bound:   High plus one fragment per lane.
//	Locks:   queue.mu, then a bucket of the map or a lane's list.
//	Wins:    no lock that all lanes share, and one limit for all of them.
//	Loses:   what every least-recently-used order loses; the map allocates an entry
//	         for each queue, and copies a key of 48 bytes twice.
type oldestTail struct {
	plain
	c    *cache
	list *lru.PerCPU[queue]
}

var ninth = Design{"oldest-tail", "002", "a list for each lane, one limit; evicts the oldest of all", ninthHost, newOldestTail}

func ninthHost(h *Host) { h.index = newXsyncIndex(h) }

func newOldestTail(c *cache) design {
	list, err := lru.NewPerCPU[queue](lru.Config{Lanes: c.cfg.Lanes})
	if err != nil {
		panic("reasm: " + err.Error())
	}
	return &oldestTail{c: c, list: list}
}

func (d *oldestTail) room(*lane) int64 { return d.c.room() }

func (d *oldestTail) before(l *lane, _ *Fragment) bool {
	for d.c.excess() > 0 {
		victim, ok := d.list.PopOldest()
		if !ok {
			return d.c.room() >= 0
		}
		l.evict(victim)
	}
	return true
}

func (d *oldestTail) link(l *lane, q *queue)    { d.list.Insert(l.id, &q.node, l.now) }
func (d *oldestTail) touch(l *lane, q *queue)   { d.list.Touch(&q.node, l.now) }
func (d *oldestTail) unlink(q *queue, _ ending) { d.list.Remove(&q.node) }

// xsyncIndex is somebody else's map as an index, with its own hash, which is
// faster there, unless one was asked for. The map's seed is left out of that one:
// with it, walks would differ from run to run (Q12).
type xsyncIndex struct {
	m *xsync.MapOf[Key, *queue]
}

func newXsyncIndex(h *Host) *xsyncIndex {
	hash := h.cfg.Hash
	if hash == nil {
		return &xsyncIndex{xsync.NewMapOf[Key, *queue]()}
	}
	return &xsyncIndex{xsync.NewMapOfWithHasher[Key, *queue](func(k Key, _ uint64) uint64 { return hash(&k) })}
}

func (x *xsyncIndex) find(k *Key) *queue {
	q, _ := x.m.Load(*k)
	return q
}

func (x *xsyncIndex) insert(q *queue) insertion {
	if _, there := x.m.LoadOrStore(q.key, q); there {
		return present
	}
	return inserted
}

func (x *xsyncIndex) remove(q *queue) {
	if got, _ := x.m.LoadAndDelete(q.key); got != q {
		panic("reasm: retired queue is not in the map")
	}
}

func (x *xsyncIndex) batches() iter.Seq[[]*queue] {
	return func(yield func([]*queue) bool) {
		var qs []*queue
		more := true
		x.m.Range(func(_ Key, q *queue) bool {
			if qs = append(qs, q); len(qs) == 64 {
				more = yield(qs)
				qs = qs[:0]
			}
			return more
		})
		if more && len(qs) > 0 {
			yield(qs)
		}
	}
}

// A design that is not in the library obeys its rules, too.
func TestNinthDesignObeysTheRules(t *testing.T) {
	all := designs
	designs = []Design{ninth}
	t.Cleanup(func() { designs = all })
	for _, rule := range []struct {
		name string
		test func(*testing.T)
	}{
		{"traces", TestTraces}, {"reference", TestDesignsMatchTheReference},
		{"order", TestCompletesInEveryOrder}, {"counters", TestEveryPacketIsCountedOnce}, {"no-state", TestRefusedFragmentsCostNoState},
		{"once", TestDatagramIsDeliveredOnce}, {"first-copy", TestFirstCopyWins}, {"overlaps", TestDuplicatesAndOverlapsDependOnOrder},
		{"ends", TestContradictedEndsDiscard}, {"keys", TestKeysDoNotMix}, {"domains", TestDomainsDoNotMix},
		{"ecn", TestMixedECNDiscardsAtCompletion}, {"largest", TestLargestDatagrams},
		{"deadline", TestDeadlineIsExactWithoutStep}, {"jump", TestJumpExpiresInBatches}, {"max-age", TestMaxAgeStartsAnew},
		{"max-dist", TestMaxDistRestarts}, {"close", TestClose}, {"one-end", TestEveryQueueEndsOnce},
		{"charges", TestBytesIsTheSumOfTheCharges}, {"flood", TestFloodKeepsTheBooks}, {"buffers", TestBuffersComeBackAtOnce},
		{"callbacks", TestCallbacksMayCallTheCache}, {"walk", TestWalkShowsWhatIsHeld}, {"repeatable", TestSameCallsGiveTheSameResults},
		{"last-fragments", TestConcurrentLastFragmentsCompleteOnce}, {"creators", TestConcurrentCreatorsShareOneQueue},
		{"expiry", TestConcurrentCompletionAndExpiry}, {"closing", TestConcurrentClose}, {"lanes", TestLanesDoNotWaitForEachOther},
		{"host-cap", TestHostCapHoldsOverNamespaces}, {"neighbours", TestNobodyIsEvictedForANeighbour},
		{"own", TestFullHostMakesEachEvictItsOwn}, {"numbers", TestNamespaceNumbersAreUsedAgain},
		{"namespace-close", TestConcurrentNamespaceClose}, {"host-close", TestHostClose},
	} {
		t.Run("rule="+rule.name, rule.test)
	}
}

// What it is for: the order of age holds over all lanes, where percpu-lru evicts
// on a crowded lane while its neighbour holds what nobody will complete.
func TestOldestTailEvictsTheOldestOfAnyLane(t *testing.T) {
	all := designs
	designs = append([]Design{ninth}, all...)
	t.Cleanup(func() { designs = all })
	for _, tt := range []struct {
		design string
		dead   int // left on the quiet lane, of 100
		live   int // left on the crowded one, of 100
	}{{"oldest-tail", 0, 99}, {"percpu-lru", 100, 49}} {
		t.Run("design="+tt.design, func(t *testing.T) {
			h := newHostRig(t, tt.design, nil)
			c := h.open(Limits{High: 200 * 110, Low: 100 * 110})
			for id := range uint32(100) {
				h.add(c.Lane(0), int64(id), piece(id, 0, 8, true))
			}
			for id := range uint32(101) {
				h.add(c.Lane(1), int64(100+id), piece(1000+id, 0, 8, true))
			}
			h.add(c.Lane(1), 300, piece(1100, 8, 8, true)) // finds memory above High
			dead, live := 0, 0
			for q := range c.Walk() {
				if q.Key.ID() < 1000 {
					dead++
				} else if q.Key.ID() < 1100 {
					live++
				}
			}
			require.Equal(t, [2]int{tt.dead, tt.live}, [2]int{dead, live})
			h.end(c)
		})
	}
}
