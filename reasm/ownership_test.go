package reasm

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Who owns which buffer when, callbacks, and Walk: on every design, mode, call
// and family.

// Q7: the books of the rig prove that each buffer comes back once; this is about
// when, and through whom.
func TestBuffersComeBackAtOnce(t *testing.T) {
	for _, w := range ways() {
		if w.mode != Borrow {
			continue
		}
		t.Run(w.String(), func(t *testing.T) {
			r := newRig(t, w, func(c *Config) { c.Timeout4, c.Timeout6 = time.Second, time.Second })
			calls := 0
			var sizes []int
			r.onFree = func(bs []Buffer) { calls++; sizes = append(sizes, len(bs)) }

			r.verdicts([]Verdict{Held, Held, Overlap}, piece(1, 0, 8, true), piece(1, 16, 8, true), piece(1, 8, 16, true))
			require.Equal(t, []int{2}, sizes, "the offender is the caller's; the rest came back before the call returned")

			sizes = nil
			rs := r.verdicts([]Verdict{Held, Complete}, piece(1, 0, 8, true), piece(1, 8, 8, false))
			require.Empty(t, sizes)
			r.release(rs[1].Datagram)
			require.Equal(t, []int{2}, sizes, "Release")

			sizes = nil
			a, b := piece(1, 0, 8, true), piece(1, 8, 8, false)
			b.TOS = 3
			r.verdicts([]Verdict{Held, BadECN}, a, b)
			require.Equal(t, []int{1}, sizes, "the fragment that completed what is no datagram was not kept")

			sizes = nil
			r.verdicts([]Verdict{Held, Held, Held}, piece(1, 0, 8, true), piece(2, 0, 8, true), piece(2, 8, 8, true))
			r.step(time.Second)
			require.ElementsMatch(t, []int{1, 2}, sizes, "Step, one call a datagram")

			sizes = nil
			r.one(Held, piece(3, 0, 8, true))
			r.now += int64(time.Second)
			r.one(Held, piece(3, 8, 8, true))
			require.Equal(t, []int{1}, sizes, "a late fragment drops its expired queue")

			sizes = nil
			require.NoError(t, r.cache.Close())
			require.Equal(t, []int{1}, sizes, "Close")
			require.Positive(t, calls)
		})
	}
}

// A recycled queue must not hold on to a buffer that it never kept.
func TestRecycledQueuesPinNoBuffers(t *testing.T) {
	w := way{design: Default, mode: Borrow, family: 4}
	r := newRig(t, w, nil)
	a, b := piece(1, 0, 8, true), piece(1, 8, 8, false)
	b.TOS = 3
	r.verdicts([]Verdict{Held, BadECN}, a, b)
	q := r.cache.(*cache).host.take()
	for _, buf := range q.bufs[:cap(q.bufs)] {
		require.Nil(t, buf.Packet)
	}
}

// Q9: every callback may call everything, on the lane that is in the call.
func TestCallbacksMayCallTheCache(t *testing.T) {
	depth, told := 0, 0
	var r *rig
	reenter := func() {
		if r == nil || depth > 0 {
			return
		}
		depth++
		defer func() { depth-- }()
		told++
		id := uint32(1000 + told)
		rs := r.send(piece(id, 0, 8, true), piece(id, 8, 8, false))
		if d := rs[1].Datagram; d != nil {
			r.payload(d, [3]int{0, 0, 16})
		}
		r.cache.Stats()
		for q := range r.cache.Walk() {
			require.NotZero(r.t, q.Charged)
		}
		require.NoError(r.t, r.cache.SetLimits(Limits{High: 700, Low: 300}))
		r.cache.Step(r.now, 1)
	}
	adapt := func(c *Config) {
		flat(c)
		c.Limits = Limits{High: 700, Low: 300}
		c.Timeout4, c.Timeout6 = time.Second, time.Second
		c.OnExpire = func(*Expired) { reenter() }
	}
	for _, w := range ways() {
		t.Run(w.String(), func(t *testing.T) {
			depth, told, r = 0, 0, nil
			r = newRig(t, w, adapt)
			r.onFree = func([]Buffer) { reenter() }
			for i := range 40 {
				id := uint32(i)
				r.send(piece(id, 0, 8, true))
				if i%3 == 0 {
					r.send(piece(id, 0, 16, true)) // overlap
				}
				if i%2 == 0 {
					r.step(400 * time.Millisecond)
				}
			}
			require.Positive(t, told)
			require.NoError(t, r.cache.Close())
			r.now += int64(time.Hour)
			require.False(t, r.cache.Step(r.now, 10))
		})
	}
}

// Close from within a callback, and from within a Walk.
func TestCloseFromCallbacks(t *testing.T) {
	forEachWay(t, nil, func(t *testing.T, r *rig) {
		for id := range uint32(10) {
			r.one(Held, piece(id, 0, 8, true))
		}
		for range r.cache.Walk() {
			require.NoError(t, r.cache.Close())
		}
		r.held(0)
	})
	for _, w := range ways() {
		t.Run("from=OnExpire/"+w.String(), func(t *testing.T) {
			var r *rig
			r = newRig(t, w, func(c *Config) {
				c.Timeout6 = c.Timeout4
				c.OnExpire = func(*Expired) { require.NoError(t, r.cache.Close()) }
			})
			for id := range uint32(10) {
				r.one(Held, piece(id, 0, 8, true))
				r.now += int64(time.Second)
			}
			r.now += int64(20 * time.Second)
			r.step(0)
			r.held(0)
		})
	}
}

// Walk shows what is held, and the body may take it away.
func TestWalkShowsWhatIsHeld(t *testing.T) {
	forEachWay(t, flat, func(t *testing.T, r *rig) {
		r.one(Held, piece(7, 16, 8, true))
		r.now += 5
		r.verdicts([]Verdict{Held, Held}, piece(7, 32, 16, true), piece(7, 48, 4, false))
		r.one(Held, piece(8, 0, 8, true))
		n := 0
		for q := range r.cache.Walk() {
			n++
			if q.Key.ID() == 8 {
				require.Equal(t, 0, q.Holes)
				require.Equal(t, -1, q.End)
				continue
			}
			require.Equal(t, QueueInfo{
				Key: q.Key, Created: r.now - 5, Last: r.now, Bytes: 28, Charged: 130, Fragments: 3, Holes: 2, End: 52,
			}, q)
		}
		require.Equal(t, 2, n)
		for range r.cache.Walk() {
			break
		}
		for q := range r.cache.Walk() { // each body discards the queue it sees
			r.send(piece(q.Key.ID(), 200, 0, true))
		}
		r.held(0)
	})
}
