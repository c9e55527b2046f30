package reasm

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// turnoverOf lets that many newcomers a second come for a while, to lanes in turn, beside some queues, and returns what the last lane makes of it.
func turnoverOf(t *testing.T, lanes int, queues int64, rate float64, start int64) time.Duration {
	cfg := DefaultConfig()
	cfg.Lanes = lanes
	c, err := New("worth", cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	d := c.(*cache).design.(*worth)
	d.lanes[0].size.Store(int32(queues))
	for i := range 1000 * lanes {
		l := &d.c.lanes[i%lanes]
		l.now = start + int64(float64(i)*1e9/rate)
		d.came(l)
	}
	d.lanes[0].size.Store(0)
	return time.Duration(d.lanes[lanes-1].pace.turnover.Load())
}

func TestTurnoverIsQueuesOverRate(t *testing.T) {
	for _, lanes := range []int{1, 4, 16} {
		for _, rate := range []float64{1, 1e4, 1e7} {
			for _, start := range []int64{0, 1 << 60} {
				require.InEpsilon(t, 1600/rate, turnoverOf(t, lanes, 1600, rate, start).Seconds(), 0.1, "lanes=%d rate=%g", lanes, rate)
			}
		}
	}
}

// A lane that was flooded and is no longer does not count for ever.
func TestTurnoverForgetsAQuietLane(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Lanes = 2
	c, err := New("worth", cfg)
	require.NoError(t, err)
	d := c.(*cache).design.(*worth)
	d.lanes[0].size.Store(1000)
	for i, gap := range []int64{1e3, 1e7} { // lane 0: a million a second; then lane 1: a hundred
		for range 1000 {
			d.c.lanes[i].now += gap
			d.came(&d.c.lanes[i])
		}
	}
	d.lanes[0].size.Store(0)
	require.InEpsilon(t, 1000*1e7, float64(d.lanes[1].pace.turnover.Load()), 0.2)
	require.NoError(t, c.Close())
}

// A lane may grow while another one chooses: its size is loaded once. Before, the
// slot's number could become negative.
func TestChooseBesideALaneThatGrows(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Lanes = 2
	c, err := New("worth", cfg)
	require.NoError(t, err)
	d := c.(*cache).design.(*worth)
	for i := range d.lanes {
		d.lanes[i].resize(1000)
	}
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !stop.Load() {
			d.lanes[0].size.Store(0)
			d.lanes[0].size.Store(1000)
		}
	}()
	s := d.scene(&d.c.lanes[1])
	s.queues = 1000
	for range 20_000 {
		require.Nil(t, d.choose(&d.c.lanes[1], &s, worthSamples).q)
	}
	stop.Store(true)
	<-done
	d.lanes[0].size.Store(0)
	require.NoError(t, c.Close())
}
