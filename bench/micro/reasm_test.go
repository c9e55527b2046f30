package micro

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"

	"corelane/bench/internal/traffic"
	"corelane/bench/peers"
	"corelane/reasm"
)

// shape is one kind of input: every operation is one fragment, parsing included.
type shape struct {
	family int
	size   int    // of the datagram
	order  string // in, reverse
	input  string // hot: one datagram re-fed; cold: a ring of 256 MiB
}

func (s shape) String() string {
	return fmt.Sprintf("family=%d/size=%d/order=%s/input=%s", s.family, s.size, s.order, s.input)
}

// coldBytes is larger than any cache of the machine.
const coldBytes = 256 << 20

// packets returns the datagrams of the shape, each as its fragments in the order
// of arrival. They are numbered on across rounds only by ids that are free again.
// The cold ones stay until the next shape asks: making them takes a second.
func (s shape) packets() (ds [][][]byte) {
	if made.shape == s {
		return made.packets
	}
	made.packets = nil
	defer func() { made.shape, made.packets = s, ds }()
	n := 1
	if s.input == "cold" {
		n = coldBytes / s.size
	}
	for id := range n {
		ps := traffic.Datagram{Family: s.family, ID: uint32(id), Size: s.size, MTU: 1500}.Packets()
		if s.order == "reverse" {
			for i, j := 0, len(ps)-1; i < j; i, j = i+1, j-1 {
				ps[i], ps[j] = ps[j], ps[i]
			}
		}
		ds = append(ds, ps)
	}
	return ds
}

var made struct {
	shape   shape
	packets [][][]byte
}

// The first is the main one: every design is measured on it. The others differ by
// what all designs share, so two of them stand for all.
var shapes = []shape{
	{4, 64000, "in", "hot"}, {6, 64000, "in", "hot"},
	{4, 64000, "reverse", "hot"}, {6, 64000, "reverse", "hot"},
	{4, 4000, "in", "hot"},
	{4, 64000, "in", "cold"}, {6, 64000, "in", "cold"},
}

// BenchmarkReassemble is the cost of a fragment, from the packet's bytes to the
// released datagram, on one core.
func BenchmarkReassemble(b *testing.B) {
	for i, s := range shapes {
		for _, d := range reasm.Designs() {
			if i > 0 && !standsForAll(d) {
				continue
			}
			for _, mode := range []reasm.Mode{reasm.Borrow, reasm.Copy} {
				for _, call := range []string{"single", "batch"} {
					b.Run(fmt.Sprintf("%v/impl=corelane/design=%s/mode=%s/call=%s", s, d.Name, modeName[mode], call), func(b *testing.B) {
						ours(b, s.packets(), d.Name, mode, call == "batch")
					})
				}
			}
		}
		b.Run(fmt.Sprintf("%v/impl=gopacket", s), func(b *testing.B) {
			if s.family == 6 {
				rival(b, s.packets(), peers.NewGopacket6())
			} else {
				rival(b, s.packets(), peers.NewGopacket4())
			}
		})
		b.Run(fmt.Sprintf("%v/impl=gvisor", s), func(b *testing.B) {
			g, err := peers.NewGVisor(traffic.Dst4, traffic.Dst6)
			if err != nil {
				b.Fatal(err)
			}
			defer g.Close()
			rival(b, s.packets(), g)
		})
	}
}

func standsForAll(d reasm.Design) bool { return d.Name == "global-lru" || d.Name == "hard-limit" }

var modeName = map[reasm.Mode]string{reasm.Borrow: "borrow", reasm.Copy: "copy"}

func newCache(b *testing.B, design string, mode reasm.Mode) reasm.Cache {
	cfg := reasm.DefaultConfig()
	cfg.Mode = mode
	cfg.Free = func([]reasm.Buffer) {}
	if design == "percpu-lru" { // its limits are per lane, and half as high as these
		cfg.Limits.High, cfg.Limits.Low = 2*cfg.Limits.High, 2*cfg.Limits.Low
	}
	c, err := reasm.New(design, cfg)
	if err != nil {
		b.Fatal(err)
	}
	return c
}

func ours(b *testing.B, ds [][][]byte, design string, mode reasm.Mode, batch bool) {
	c := newCache(b, design, mode)
	var (
		lane   = c.Lane(0)
		parser reasm.Parser
		f      reasm.Fragment
		fs     = make([]reasm.Fragment, len(ds[0]))
		rs     = make([]reasm.Result, len(ds[0]))
		done   int
	)
	b.ReportAllocs()
	b.ResetTimer()
	stop := processorTime(b)
	n := 0
	for round := 0; n < b.N; round++ {
		ps := ds[round%len(ds)]
		if batch {
			for i, p := range ps {
				parser.Parse(p, 0, &fs[i])
			}
			lane.AddBatch(int64(n), fs[:len(ps)], rs)
			if d := rs[len(ps)-1].Datagram; d != nil {
				done++
				d.Release()
			}
		} else {
			for _, p := range ps {
				parser.Parse(p, 0, &f)
				if r := lane.Add(int64(n), &f); r.Datagram != nil {
					done++
					r.Datagram.Release()
				}
			}
		}
		n += len(ps)
	}
	b.StopTimer()
	stop()
	if want := n / len(ds[0]); done != want {
		b.Fatalf("%d datagrams of %d completed", done, want)
	}
	if err := c.Close(); err != nil {
		b.Fatal(err)
	}
	if s := c.Stats(); s.Bytes != 0 || s.Queues != 0 {
		b.Fatalf("books do not balance: %d bytes, %d queues", s.Bytes, s.Queues)
	}
}

func rival(b *testing.B, ds [][][]byte, p peers.Peer) {
	done, n := 0, 0
	b.ReportAllocs()
	b.ResetTimer()
	stop := processorTime(b)
	for round := 0; n < b.N; round++ {
		ps := ds[round%len(ds)]
		for _, packet := range ps {
			if p.Add(packet) {
				done++
			}
		}
		n += len(ps)
	}
	b.StopTimer()
	stop()
	if want := n / len(ds[0]); done != want {
		b.Fatalf("%d datagrams of %d completed", done, want)
	}
}

// processorTime starts to measure the time of this process on processors, for a
// machine that others use too: ns/op includes what they took, cpu-ns/op does not.
// Call the result when the timer stops.
func processorTime(b *testing.B) (stop func()) {
	from := cpuTime()
	return func() { b.ReportMetric(float64(cpuTime()-from)/float64(b.N), "cpu-ns/op") }
}

// BenchmarkFlood is the cost of a lone first fragment, each of another datagram,
// at the limit: what an attacker can ask for. hard-limit refuses, others evict.
func BenchmarkFlood(b *testing.B) {
	packet := traffic.Datagram{Family: 4, Size: 64000, MTU: 1500}.Packets()[0]
	for _, d := range reasm.Designs() {
		for _, mode := range []reasm.Mode{reasm.Borrow, reasm.Copy} {
			b.Run(fmt.Sprintf("impl=corelane/design=%s/mode=%s", d.Name, modeName[mode]), func(b *testing.B) {
				c := newCache(b, d.Name, mode)
				defer c.Close()
				var (
					lane   = c.Lane(0)
					parser reasm.Parser
					f      reasm.Fragment
				)
				add := func(n int) {
					packet[4], packet[5], packet[15], packet[14] = byte(n>>8), byte(n), byte(n>>16), byte(n>>24)
					parser.IPv4(packet, 0, &f)
					lane.Add(int64(n), &f)
				}
				for n := range 1 << 14 { // up to the limit first
					add(n)
				}
				b.ReportAllocs()
				b.ResetTimer()
				stop := processorTime(b)
				for n := range b.N {
					add(n + 1<<14)
				}
				stop()
			})
		}
	}
}

// BenchmarkSmack is FragmentSmack (CVE-2018-5391): one datagram in 8189 pieces
// of 8 bytes; the cost of a piece. In random order for all designs.
func BenchmarkSmack(b *testing.B) {
	const pieces = 8189 // one more, and the header would make it too long
	for _, order := range []string{"in", "reverse", "random"} {
		ps := traffic.Datagram{Family: 4, Size: pieces * 8, MTU: 28}.Packets()
		at := permutation(order, len(ps))
		for _, d := range reasm.Designs() {
			if order != "random" && !standsForAll(d) {
				continue
			}
			for _, mode := range []reasm.Mode{reasm.Borrow, reasm.Copy} {
				b.Run(fmt.Sprintf("order=%s/impl=corelane/design=%s/mode=%s", order, d.Name, modeName[mode]), func(b *testing.B) {
					shuffled := make([][]byte, len(ps))
					for i, j := range at {
						shuffled[i] = ps[j]
					}
					ours(b, [][][]byte{shuffled}, d.Name, mode, false)
				})
			}
		}
	}
}

// BenchmarkLanes is the cost of a fragment when lanes of the same cache are used
// at once, each by a goroutine with a core of its own and with sources of its own:
// if nothing is shared, two lanes take half the time of one. size=64000 is a run
// of 44 fragments (20G64K in mail 002), size=4000 three (20G3F).
func BenchmarkLanes(b *testing.B) {
	for _, size := range []int{64000, 4000} {
		for _, d := range reasm.Designs() {
			for _, lanes := range []int{1, 2} {
				b.Run(fmt.Sprintf("size=%d/impl=corelane/design=%s/lanes=%d", size, d.Name, lanes), func(b *testing.B) {
					defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
					onLanes(b, d.Name, size, lanes)
				})
			}
		}
	}
}

func onLanes(b *testing.B, design string, size, lanes int) {
	cfg := reasm.DefaultConfig()
	cfg.Lanes, cfg.Mode, cfg.Free = 2, reasm.Borrow, func([]reasm.Buffer) {}
	c, err := reasm.New(design, cfg)
	if err != nil {
		b.Fatal(err)
	}
	streams := make([][][]byte, lanes)
	for i := range streams {
		for _, p := range (traffic.Datagram{Family: 4, Size: size, MTU: 1500}).Packets() {
			p = slices.Clone(p)
			p[15] = byte(i) // of the source address
			streams[i] = append(streams[i], p)
		}
	}
	rounds := max(1, b.N/lanes/len(streams[0]))
	var wg sync.WaitGroup
	b.ResetTimer()
	stop := processorTime(b)
	for i, ps := range streams {
		wg.Go(func() {
			var (
				lane   = c.Lane(i)
				parser reasm.Parser
				f      reasm.Fragment
			)
			for n := range rounds {
				for _, p := range ps {
					parser.Parse(p, 0, &f)
					if r := lane.Add(int64(n), &f); r.Datagram != nil {
						r.Datagram.Release()
					}
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	stop()
	s := c.Stats()
	if got := s.Verdicts[reasm.Complete]; got != uint64(rounds*lanes) {
		b.Fatalf("%d datagrams of %d completed", got, rounds*lanes)
	}
	if err := c.Close(); err != nil {
		b.Fatal(err)
	}
}

func permutation(order string, n int) []int {
	at := make([]int, n)
	for i := range at {
		at[i] = i
	}
	switch order {
	case "reverse":
		for i := range at {
			at[i] = n - 1 - i
		}
	case "random":
		x := uint64(1)
		for i := n - 1; i > 0; i-- {
			x = x*6364136223846793005 + 1442695040888963407
			j := int(x>>33) % (i + 1)
			at[i], at[j] = at[j], at[i]
		}
	}
	return at
}
