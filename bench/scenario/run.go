package scenario

import (
	"context"
	"fmt"
	"math/rand/v2"

	"corelane/reasm"
)

// run is one variant with one design, on one goroutine.
type run struct {
	trace   *trace
	meter   *meter
	cache   reasm.Cache
	packets packets

	now      int64
	event    int   // being handled, or next
	nextStep int64 // when the cache is stepped again

	releasing bool  // Free is called because a datagram was released
	expiring  bool  // Free is called next for a datagram that ran out of time
	charges   int64 // upper estimate of what is charged
	// dropped are the datagrams that were freed while the current fragment was
	// taken in, for another reason.
	dropped []victim
}

// stepEvery is how often the cache is stepped: about as often as a kernel runs a
// worker that has rescheduled itself. The clock jumps over silence.
const (
	stepEvery  = 30_000 // nanoseconds
	stepBudget = 1024   // as in reasm.Run
)

// simulate runs a variant's trace through one design.
func simulate(ctx context.Context, t *trace, b *bounds, v *Variant, design string, seed uint64) (*Row, error) {
	r := &run{trace: t, meter: newMeter(t, v)}
	var err error
	if r.cache, err = reasm.New(design, r.config(v, seed)); err != nil {
		return nil, err
	}
	lanes := make([]reasm.Lane, max(v.Lanes, 1))
	for i := range lanes {
		lanes[i] = r.cache.Lane(i)
	}
	var (
		parser reasm.Parser
		f      reasm.Fragment
	)
	watch := newStopwatch(v.Phases)
	for i := range t.events {
		if i%4096 == 0 && ctx.Err() != nil {
			watch.stop(v.Phases)
			return nil, ctx.Err()
		}
		e := &t.events[i]
		watch.event(e.at)
		r.event = i
		r.advance(e.at)
		packet := r.packets.build(t, e)
		if verdict := parser.Parse(packet, 0, &f); verdict != reasm.Held {
			return nil, fmt.Errorf("scenario: built a packet that is %v", verdict)
		}
		f.Ref = uint64(i)
		r.add(lanes[e.lane], &f)
	}
	costs := watch.stop(v.Phases)
	stats := r.cache.Stats()
	if err := r.close(); err != nil {
		return nil, err
	}
	row, err := r.meter.row(stats, b)
	if err != nil {
		return nil, err
	}
	row.CostNs = costs
	if mbps, ok := v.Mail[design]; ok {
		row.MailMbps = ref(mbps)
	}
	return row, nil
}

// config is what every design is given.
func (r *run) config(v *Variant, seed uint64) reasm.Config {
	cfg := reasm.DefaultConfig()
	cfg.Lanes = max(v.Lanes, 1)
	cfg.Limits = v.Limits
	cfg.Mode = reasm.Borrow
	cfg.Charge = reasm.Charge{
		Queue:    func(*reasm.Fragment) int64 { return KernelCharge.Queue },
		Fragment: func(*reasm.Fragment) int64 { return KernelCharge.Fragment },
	}
	cfg.Hash = func(k *reasm.Key) uint64 {
		return mix64(mix64(seed^k.SrcLo<<32^k.DstLo) ^ uint64(k.ID())<<8 ^ uint64(k.Proto()))
	}
	cfg.Rand = rand.New(rand.NewPCG(seed, 0x72616e64)).Uint64
	cfg.Free = r.free
	cfg.OnExpire = func(*reasm.Expired) { r.expiring = true }
	if v.Config != nil {
		v.Config(&cfg)
	}
	return cfg
}

// advance moves the clock, and steps the cache as often as somebody would who
// has nothing else to do. While nothing arrives and the cache has no work left,
// the clock jumps.
func (r *run) advance(to int64) {
	for r.nextStep <= to {
		r.now = r.nextStep
		if r.step() {
			r.nextStep += stepEvery
			continue
		}
		r.nextStep = to - to%stepEvery + stepEvery
		if r.now < to-to%stepEvery {
			r.now = to
			r.step() // what fell due in the silence
		}
	}
	r.now = to
}

func (r *run) step() (more bool) {
	more = r.cache.Step(r.now, stepBudget)
	for _, d := range r.dropped {
		r.meter.evicted(d)
	}
	r.dropped = r.dropped[:0]
	return more
}

// add gives one fragment to the cache and takes note of all that this causes.
func (r *run) add(lane reasm.Lane, f *reasm.Fragment) {
	res := lane.Add(r.now, f)
	if res.Verdict.Kept() {
		r.packets.out++
		r.meter.kept(&r.trace.events[r.event])
		r.charges += KernelCharge.Queue + KernelCharge.Fragment
	} else {
		r.packets.back(f.Packet)
	}
	point := &r.meter.timeline[r.now/timelineStep]
	if r.charges > r.meter.peak || point.Charged == 0 {
		r.charges = r.cache.Stats().Bytes
		r.meter.charged(r.charges)
		point.Charged = r.charges
	}
	for _, d := range r.dropped {
		own := r.trace.sameKey(d.event, f.Ref)
		if own && (res.Restarted || res.Verdict >= reasm.Overlap && res.Verdict <= reasm.BadECN) {
			continue // its own datagram was discarded, which makes no room
		}
		r.meter.evicted(d)
	}
	r.dropped = r.dropped[:0]
	if res.Datagram != nil {
		r.meter.complete(r.now, res.Datagram)
		r.releasing = true
		res.Datagram.Release()
		r.releasing = false
	}
}

// free is Config.Free.
func (r *run) free(held []reasm.Buffer) {
	for _, b := range held {
		r.packets.back(b.Packet)
	}
	r.packets.out -= len(held)
	r.meter.left(held)
	if !r.releasing && !r.expiring {
		r.dropped = append(r.dropped, r.trace.victim(r.now, r.event, held))
	}
	r.expiring = false
}

// close ends the run and balances the books.
func (r *run) close() error {
	if err := r.cache.Close(); err != nil {
		return err
	}
	if s := r.cache.Stats(); s.Bytes != 0 || s.Queues != 0 || r.packets.out != 0 {
		return fmt.Errorf("scenario: after Close %d bytes are charged, %d queues held, %d packets missing",
			s.Bytes, s.Queues, r.packets.out)
	}
	return nil
}

// sameKey reports whether two events bring fragments of what looks like one
// datagram.
func (t *trace) sameKey(i, j uint64) bool {
	a, b := &t.dgrams[t.events[i].dgram], &t.dgrams[t.events[j].dgram]
	return a.src == b.src && a.dst == b.dst && a.id == b.id
}
