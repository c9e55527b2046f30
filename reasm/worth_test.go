package reasm

import (
	"net/netip"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// The first fragment's UDP header tells worth how many fragments there will be.
func TestWorthReadsTheAnnouncedSize(t *testing.T) {
	for _, family := range []int{4, 6} {
		r := newRig(t, way{design: "worth", mode: Copy, family: family}, nil)
		f := piece(1, 0, 1480, true)
		f.Proto = 17
		f.Data = "00010002fa000000" // 64000 bytes
		r.one(Held, f)
		for qs := range r.cache.(*cache).host.index.batches() {
			for _, q := range qs {
				require.EqualValues(t, 44, q.view.hint)
				require.EqualValues(t, 1, q.fragments)
			}
		}
	}
}

// What the policy keeps does not grow with what it is sent: 256 KiB for a cache,
// whatever the flood, and 8 bytes for each queue it holds.
func TestWorthStateIsBounded(t *testing.T) {
	adapt := func(c *Config) { flat(c); c.Limits = Limits{High: 110 * 1000, Low: 0} }
	r := newRig(t, way{design: "worth", mode: Copy, family: 4}, adapt)
	d := r.cache.(*cache).design.(*worth)
	kept := func() int {
		n := int(unsafe.Sizeof(*d) + unsafe.Sizeof(*d.s) + unsafe.Sizeof(d.lanes[0]))
		if at := d.s.peers.at.Load(); at != nil {
			n += int(unsafe.Sizeof(*at))
		}
		if at := d.s.doom.at.Load(); at != nil {
			n += int(unsafe.Sizeof(*at))
		}
		return n
	}
	for id := range uint32(20_000) {
		x := id * 2654435761
		lone := piece(id, 0, 8, true)
		lone.Src = host(x)
		r.send(lone)
		first, last := piece(id+1<<15, 0, 8, true), piece(id+1<<15, 8, 8, false)
		first.Src, last.Src = host(^x), host(^x)
		for _, res := range r.send(first, last) {
			if res.Datagram != nil {
				r.release(res.Datagram)
			}
		}
		r.now += 1e5
		require.LessOrEqual(t, r.cache.Stats().Bytes, int64(110*1001))
	}
	require.NotNil(t, d.s.peers.at.Load())
	require.NotNil(t, d.s.doom.at.Load())
	require.LessOrEqual(t, kept(), 256<<10)
	require.LessOrEqual(t, len(*d.lanes[0].slots.Load()), 2048)
	r.step(time.Minute)
	require.Len(t, *d.lanes[0].slots.Load(), fewSlots, "and shrinks again")
}

// Nothing is made for a newcomer that would be the first to go.
func TestWorthRefusesANewcomerBeforeItMakesAQueue(t *testing.T) {
	adapt := func(c *Config) { flat(c); c.Limits = Limits{High: 330, Low: 0} }
	r := newRig(t, way{design: "worth", mode: Borrow, family: 4}, adapt)
	for id := range uint32(3) {
		r.one(Held, piece(id, 0, 8, true))
	}
	made := r.cache.(*cache).lanes[0].count.events[evMade].Load()
	r.one(Refused, piece(9, 0, 8, true))
	r.one(Refused, piece(9, 8, 8, false)) // the rest of it
	require.Equal(t, made, r.cache.(*cache).lanes[0].count.events[evMade].Load())
	s := r.cache.Stats()
	require.EqualValues(t, 1, s.Outbid)
	require.EqualValues(t, 1, s.Doomed)
	require.EqualValues(t, 0, s.Evicted)
	r.held(3)
}

// A queue that is begun anew is judged by what it got since (RE-L1).
func TestWorthForgetsWhatARestartedQueueWas(t *testing.T) {
	r := newRig(t, way{design: "worth", mode: Copy, family: 4}, func(c *Config) { c.MaxDist = 3 })
	f := piece(1, 0, 1480, true)
	f.Proto, f.Data = 17, "00010002fa000000"
	r.one(Held, f)
	r.now += 5e6
	g := piece(1, 1488, 8, true)
	g.Proto = 17
	r.one(Held, g)
	var q *queue
	for qs := range r.cache.(*cache).host.index.batches() {
		q = qs[0]
	}
	require.EqualValues(t, 44, q.view.hint)
	require.EqualValues(t, 5e6, q.view.gap)
	require.True(t, q.view.hole)
	for id := range uint32(4) {
		r.one(Held, piece(100+id, 0, 8, true))
	}
	r.now += 5e6
	h := piece(1, 0, 8, true)
	h.Proto, h.Data = 17, "0001000200000000" // announces nothing
	r.verdicts([]Verdict{Held}, h)
	require.EqualValues(t, 0, q.view.hint)
	require.EqualValues(t, 0, q.view.gap)
	require.False(t, q.view.hole)
}

// The books of all sources are even when everything is gone, whoever retired it.
func TestWorthBooksAreEvenAfterConcurrentUse(t *testing.T) {
	const lanes, rounds = 4, 3000
	cfg := DefaultConfig()
	flat(&cfg)
	cfg.Lanes, cfg.Limits = lanes, Limits{High: 110 * 60, Low: 0}
	made, err := New("worth", cfg)
	require.NoError(t, err)
	c := made.(*cache)
	var wg sync.WaitGroup
	for i := range lanes {
		wg.Go(func() {
			var (
				parser Parser
				f      Fragment
				random worthLane
			)
			random.random = uint64(i)
			for n := range rounds {
				x := random.next()
				// Few names, so that lanes meet; a third of the fragments never comes.
				s := piece(uint32(x>>8%64), int(x%3)*504, 504, x%3 < 2)
				s.Src = host(uint32(x >> 16 % 8))
				if x>>20%3 == 0 {
					continue
				}
				parser.Parse(s.packet(4, 0), 0, &f)
				if r := c.Lane(i).Add(int64(n)*1e5, &f); r.Datagram != nil {
					r.Datagram.Release()
				}
				if used := c.account.Used(); used > cfg.Limits.High+lanes*110 {
					t.Errorf("%d bytes in use: more than High and a fragment for each lane", used)
					return
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, c.Close())
	d := c.design.(*worth)
	s := d.scene(&d.c.lanes[0])
	require.Zero(t, s.queues)
	require.Zero(t, s.unknown)
	var active int64
	for i := range d.lanes {
		active += d.lanes[i].active.Load()
	}
	require.Zero(t, active)
	at := d.s.peers.at.Load()
	require.NotNil(t, at, "some completed")
	for i := range at {
		require.Zero(t, at[i].memory.Load())
		require.Zero(t, at[i].uses.Load()&(taken|queueMask))
	}
	require.Positive(t, c.Stats().Evicted)
}

// The laboratory leaves out rules by name; the names are in no list.
func TestWorthWithoutRules(t *testing.T) {
	for _, name := range append([]string{"hole+doom+floor"}, partNames...) {
		c, err := New(withoutPrefix+name, DefaultConfig())
		require.NoError(t, err, name)
		require.NotZero(t, c.(*cache).design.(*worth).off)
		require.NoError(t, c.Close())
	}
	_, err := New(withoutPrefix+"sense", DefaultConfig())
	require.EqualError(t, err, `reasm: no design is called "worth without sense"`)
	for _, d := range Designs() {
		require.NotContains(t, d.Name, "without")
	}
}

// host is an IPv4 address.
func host(x uint32) string {
	return netip.AddrFrom4([4]byte{10, byte(x >> 16), byte(x >> 8), byte(x)}).String()
}
