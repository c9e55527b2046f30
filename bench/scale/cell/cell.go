// Package cell runs one design under one load on one virtual machine. It means
// something only in a program that was built with package overlay's copy of the
// library, and says so otherwise.
package cell

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sort"
	"unsafe"

	"corelane/bench/scale/load"
	"corelane/bench/scale/machine"
	"corelane/bench/scale/smp"
	"corelane/reasm"
)

// Cell is what is run.
type Cell struct {
	Design  string         `json:"design"`
	CPUs    int            `json:"cpus"`
	Frags   int            `json:"frags"`   // in a datagram
	Flows   int            `json:"flows"`   // on each CPU
	Outside float64        `json:"outside"` // ns per packet, spent on what is not the cache
	High    int64          `json:"high"`    // of the cache; percpu-lru has half of it on each CPU
	Machine machine.Params `json:"machine"`
	Seed    uint64         `json:"seed"`
	Time    float64        `json:"time"` // measured, in ns; a quarter of it goes before

	// Ports is how many CPUs have good traffic at PortRate, fragments/s, from a
	// sender that can be paused; 0: all have it, as much as they can take.
	Ports    int     `json:"ports"`
	PortRate float64 `json:"port_rate"`
	// Attack is the rate of lone first fragments, all CPUs together, spread over
	// Spread of them.
	Attack float64 `json:"attack"`
	Spread int     `json:"spread"`

	Sites []string `json:"sites"` // names
}

// Outcome is what came of it.
type Outcome struct {
	Rate     float64 `json:"rate"`     // fragments/s of datagrams that completed
	Taken    float64 `json:"taken"`    // good fragments/s that were processed
	Attacked float64 `json:"attacked"` // attack fragments/s that were processed
	Evicted  uint64  `json:"evicted"`
	Refused  uint64  `json:"refused"`
	Accesses float64 `json:"accesses"` // per fragment, marked
	Sites    []Site  `json:"sites"`    // those where time was lost, worst first
}

// Site is what a place in memory costs, per fragment processed.
type Site struct {
	Name      string  `json:"name"`
	Accesses  float64 `json:"accesses"`
	Transfers float64 `json:"transfers"` // of them found the line with another CPU
	Stall     float64 `json:"stall"`     // ns waiting for the line
	Waited    float64 `json:"waited"`    // ns waiting for the lock
}

const (
	stepEvery  = 100_000 // ns between two Steps, which CPU 0 does between packets
	stepBudget = 1024
	ringSlots  = 512
	pollBatch  = 64
	moderation = 8000 // ns that an idle CPU sleeps at least
)

var errUnmarked = errors.New("cell: this program was not built with the marked library")

// driver is what runs on a virtual CPU.
type driver struct {
	c      *Cell
	cache  reasm.Cache
	src    *load.Source
	good   ring // with Ports
	attack ring

	taken, attacked int64
}

// ring is a receive queue that a sender fills at a rate.
type ring struct {
	gap   float64 // ns between packets; 0: nobody sends
	next  float64 // when the next one arrives
	pause bool    // the sender waits when the ring is full; else packets are lost
}

// take reports whether a packet is there.
func (r *ring) take(now float64) bool {
	if r.gap == 0 || r.next > now {
		return false
	}
	if most := ringSlots * r.gap; now-r.next > most {
		r.next = now - most // lost, or never sent
	}
	r.next += r.gap
	return true
}

// Run runs a cell.
func Run(c *Cell) (*Outcome, error) {
	debug.SetGCPercent(-1) // addresses must stay what they are
	beginSpans()
	smp.CPUs = c.CPUs
	cfg := load.Config(c.CPUs, reasm.Limits{High: c.High, Low: c.High / 4 * 3})
	cache, err := reasm.New(c.Design, cfg)
	if err != nil {
		return nil, err
	}
	m := machine.New(c.Machine, c.CPUs, max(len(c.Sites), 1), c.Seed)
	drivers := make([]*driver, c.CPUs)
	for i := range drivers {
		drivers[i] = &driver{c: c, cache: cache, src: load.New(i, cache.Lane(i), c.Flows, c.Frags)}
	}
	c.attack(drivers)
	for i := range min(c.Ports, c.CPUs) {
		drivers[i].good = ring{gap: 1e9 / c.PortRate, pause: true}
	}
	warm := c.Time / 4
	var before, after count
	for i, cpu := range m.CPUs {
		d := drivers[i]
		if c.Ports > 0 && d.good.gap == 0 && d.attack.gap == 0 && i > 0 {
			continue
		}
		cpu.Start(float64(i)*13.7, d.run)
	}
	m.Pause(warm)
	before = tally(drivers, m)
	m.Run(warm + c.Time)
	after = tally(drivers, m)
	return c.outcome(before, after, cache.Stats())
}

// beginSpans takes what is left of the heap's open spans of small objects, so that
// what shares a line later does not depend on what was allocated before: the maps of
// the standard library differ from run to run.
func beginSpans() {
	for size := 16; size <= 2048; size += 8 {
		begin(func() unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(make([]byte, size))) })
		begin(func() unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(make([]*byte, size/8))) })
	}
}

func begin(alloc func() unsafe.Pointer) {
	last := uintptr(alloc())
	step := uintptr(0)
	for range 1 << 10 {
		at := uintptr(alloc())
		if d := at - last; step == 0 {
			step = d
		} else if d != step {
			return // the first of a new span
		}
		last = at
	}
}

// attack gives CPUs their share of the attack, and fills the cache with what it
// sent before.
func (c *Cell) attack(drivers []*driver) {
	if c.Attack == 0 {
		return
	}
	spread := min(max(c.Spread, 1), c.CPUs)
	first := 0
	if spread == 1 {
		first = min(c.Ports, c.CPUs-1) // a CPU without a port, if there is one
	}
	hit := drivers[first : first+spread]
	for i, d := range hit {
		d.attack = ring{gap: 1e9 / c.Attack * float64(spread), next: float64(i) * 37}
	}
	full := c.High / 100 * 97
	if c.Design == "percpu-lru" {
		full = full / 2 * int64(spread)
	}
	for held, was := int64(0), int64(-1); held < full && held > was; {
		was = held
		for _, d := range hit {
			d.src.Attack(0)
		}
		held = drivers[0].cache.Stats().Bytes
	}
}

func (d *driver) run(cpu *machine.CPU) {
	step := float64(stepEvery)
	for {
		if cpu.ID == 0 && cpu.Now >= step {
			d.cache.Step(int64(cpu.Now), stepBudget)
			step = cpu.Now + stepEvery
		}
		if d.c.Ports > 0 {
			d.poll(cpu, step)
			continue
		}
		cpu.Work(d.c.Outside)
		cpu.Sync()
		d.src.Good(int64(cpu.Now))
		d.taken++
		if d.attack.take(cpu.Now) {
			cpu.Work(d.c.Outside)
			d.src.Attack(int64(cpu.Now))
			d.attacked++
		}
	}
}

// poll empties the rings, a batch of each in turn, as an interrupt handler does.
func (d *driver) poll(cpu *machine.CPU, step float64) {
	worked := false
	for range pollBatch {
		if !d.good.take(cpu.Now) {
			break
		}
		worked = true
		cpu.Work(d.c.Outside)
		cpu.Sync()
		d.src.Good(int64(cpu.Now))
		d.taken++
	}
	for range pollBatch {
		if !d.attack.take(cpu.Now) {
			break
		}
		worked = true
		cpu.Work(d.c.Outside)
		cpu.Sync()
		d.src.Attack(int64(cpu.Now))
		d.attacked++
	}
	if worked {
		return
	}
	next := machine.Forever
	for _, r := range []*ring{&d.good, &d.attack} {
		if r.gap > 0 {
			next = min(next, r.next)
		}
	}
	if cpu.ID == 0 {
		next = min(next, step)
	}
	cpu.SleepUntil(max(next, cpu.Now) + moderation)
}

// count is what had happened at one moment.
type count struct {
	time                       float64
	completed, taken, attacked int64
	sites                      []machine.Site
}

func tally(ds []*driver, m *machine.Machine) count {
	n := count{time: m.Clock(), sites: append([]machine.Site(nil), m.Sites...)}
	for _, d := range ds {
		n.completed += d.src.Completed
		n.taken += d.taken
		n.attacked += d.attacked
	}
	return n
}

func (c *Cell) outcome(a, b count, stats reasm.Stats) (*Outcome, error) {
	seconds := (b.time - a.time) / 1e9
	frags := float64(b.taken - a.taken + b.attacked - a.attacked)
	o := &Outcome{
		Rate:     float64(b.completed-a.completed) / seconds,
		Taken:    float64(b.taken-a.taken) / seconds,
		Attacked: float64(b.attacked-a.attacked) / seconds,
		Evicted:  stats.Evicted, Refused: stats.Verdicts[reasm.Refused],
	}
	if frags == 0 {
		return o, nil
	}
	for i := range b.sites {
		x, y := &a.sites[i], &b.sites[i]
		s := Site{
			Accesses:  float64(y.Hits+y.Transfers-x.Hits-x.Transfers) / frags,
			Transfers: float64(y.Transfers-x.Transfers) / frags,
			Stall:     (y.Stall - x.Stall) / frags,
			Waited:    (y.Waited - x.Waited) / frags,
		}
		o.Accesses += s.Accesses
		if s.Stall+s.Waited > 0 && i < len(c.Sites) {
			s.Name = c.Sites[i]
			o.Sites = append(o.Sites, s)
		}
	}
	if o.Accesses == 0 {
		return nil, errUnmarked
	}
	sort.SliceStable(o.Sites, func(i, j int) bool {
		return o.Sites[i].Stall+o.Sites[i].Waited > o.Sites[j].Stall+o.Sites[j].Waited
	})
	return o, nil
}

// String names the cell in errors.
func (c *Cell) String() string {
	return fmt.Sprintf("%s on %d CPUs, %d fragments", c.Design, c.CPUs, c.Frags)
}
