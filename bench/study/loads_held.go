package study

import (
	"fmt"

	"corelane/bench/scenario"
)

// losses is bursts of loss (Gilbert 1960, Elliott 1963) instead of single ones:
// 1 % in short bursts, 2 % in long ones.
func (b *book) losses() {
	b.set = Held
	short := func() scenario.Loss { return scenario.GilbertElliott(0.002, 0.1, 0, 0.5) }
	long := func() scenario.Loss { return scenario.GilbertElliott(0.0005, 0.02, 0, 0.8) }
	for _, v := range []struct {
		name string
		loss func() scenario.Loss
	}{{"short-bursts", short}, {"long-bursts", long}} {
		for _, c := range []struct {
			name            string
			n, frags, burst int
			peers           int
		}{
			{"10x64K burst=8", 10, 44, 8, 1}, {"200x64K burst=8", 200, 44, 8, 1}, {"200x64K burst=1", 200, 44, 1, 1},
			{"200x64K burst=1 peers=200", 200, 44, 1, 200}, {"200x3F burst=1", 200, 3, 1, 1},
			{"200xheavy-tail burst=1 peers=20", 200, 0, 1, 20},
		} {
			b.add(fmt.Sprintf("HL %s loss=%s", c.name, v.name), func(t *Traffic) {
				s := overloaded(c.n, c.frags, c.burst, 0)
				s.from, s.loss = each(host(1), c.peers), v.loss()
				if c.frags == 0 {
					s.size = heavyTail
				}
				s.add(t)
			})
		}
	}
}

// recorded is orders that were recorded: by a kernel that fragmented and
// forwarded, and in public captures.
func (b *book) recorded() {
	for _, v := range []struct {
		name   string
		copies int
	}{{"kernel-links", 30}, {"kernel-mixed", 60}, {"kernel-cpus", 400}} {
		for _, loss := range []float64{0, 0.01} {
			b.add(fmt.Sprintf("HR %s copies=%d loss=%g%%", v.name, v.copies, loss*100), func(t *Traffic) {
				replayed{name: v.name, copies: v.copies, rate: 833e3, end: runTime, loss: bernoulli(loss)}.add(t)
			})
		}
	}
	b.add("HR kernel-links copies=1 memory=256KiB", func(t *Traffic) {
		replayed{name: "kernel-links", copies: 1, rate: 833e3, end: runTime / 2}.add(t)
	}).within(256 * kib).countFrom(50 * ms)
	b.add("HR captures copies=400 memory=256KiB flood=lone-first", func(t *Traffic) {
		replayed{name: "captures", copies: 400, rate: 100e3, end: runTime}.add(t)
		loneFirst.at(anywhere, 50*ms, runTime).add(t)
	}).within(256 * kib)
	b.add("HR kernel-links copies=30 flood=lone-first", func(t *Traffic) {
		replayed{name: "kernel-links", copies: 30, rate: 833e3, end: runTime}.add(t)
		loneFirst.at(anywhere, 50*ms, runTime).add(t)
	})
}

// links is packets of other sizes and kinds. Memory is 1/2.4 of what is in
// flight, as in S1 with 200 streams, and 1/10.
func (b *book) links() {
	for _, v := range []struct {
		link  *link
		frags int
	}{{ipv4576, 59}, {ipv49000, 7}, {ipv6, 44}, {ipv61280, 52}, {lowpan, 13}, {ipv4Lean, 44}} {
		flight := 200 * int64(v.frags) / 2 * v.link.charge.Fragment
		for _, c := range []struct {
			burst int
			loss  float64
			times float64 // as much in flight as fits
		}{{8, 0.01, 2.4}, {1, 0, 2.4}, {1, 0.01, 10}} {
			memory := int64(float64(flight) / c.times)
			b.add(fmt.Sprintf("HK link=%q 200x%dF burst=%d loss=%g%% times=%g", v.link.name, v.frags, c.burst, c.loss*100, c.times),
				func(t *Traffic) { overloaded(200, v.frags, c.burst, c.loss).add(t) }).over(v.link).within(memory)
		}
		b.add(fmt.Sprintf("HK link=%q 8x%dF flood=lone-first", v.link.name, v.frags), func(t *Traffic) {
			clean(t, v.frags, runTime)
			f := loneFirst
			f.of = v.frags
			f.at(anywhere, 50*ms, runTime).add(t)
		}).over(v.link)
	}
	quiet := func(int) int { return silent }
	for _, burst := range []int{8, 1} {
		b.add(fmt.Sprintf("HK no-UDP 200x64K burst=%d loss=1%%", burst), func(t *Traffic) {
			s := overloaded(200, 44, burst, 0.01)
			s.claim = quiet
			s.add(t)
		})
		b.add(fmt.Sprintf("HK no-UDP 200xheavy-tail burst=%d loss=1%%", burst), func(t *Traffic) {
			s := overloaded(200, 44, burst, 0.01)
			s.size, s.claim = heavyTail, quiet
			s.add(t)
		})
	}
}

// budgets is memory from 64 KiB to 1 GiB, with 2.4 times as much in flight.
func (b *book) budgets() {
	for _, v := range []struct {
		memory int64
		frags  int
		lives  int64 // of a datagram, that the run takes
	}{{64 * kib, 8, 40}, {512 * kib, 44, 20}, {16 * mib, 44, 8}, {64 * mib, 44, 5}, {1024 * mib, 44, 3}} {
		n := int(float64(v.memory) * 2.4 / float64(v.frags/2) / float64(ipv4.charge.Fragment))
		life := int64(n) * int64(v.frags) * 1200
		name := fmt.Sprintf("%dKiB", v.memory/kib)
		if v.memory >= mib {
			name = fmt.Sprintf("%dMiB", v.memory/mib)
		}
		for _, loss := range []float64{0, 0.01} {
			b.add(fmt.Sprintf("HB memory=%s streams=%dx%dF burst=1 loss=%g%%", name, n, v.frags, loss*100), func(t *Traffic) {
				s := overloaded(n, v.frags, 1, loss)
				s.end = max(life*v.lives, 200*ms)
				s.add(t)
			}).within(v.memory).countFrom(life * 3 / 2)
		}
	}
}

// rates is 1 Mbit/s to 100 Gbit/s.
func (b *book) rates() {
	for _, v := range []struct {
		name string
		rate float64
	}{{"1M", 1e6}, {"10M", 1e7}, {"100M", 1e8}, {"1G", 1e9}, {"100G", 1e11}} {
		n, memory := 200, 4*mib
		if v.rate < 1e9 {
			n, memory = 10, 256*kib // so that a datagram takes less than its timeout
		}
		packet := wireBytes * 8e9 / v.rate
		for _, burst := range []int{8, 1} {
			b.add(fmt.Sprintf("HV rate=%s %dx64K burst=%d loss=1%%", v.name, n, burst), func(t *Traffic) {
				s := overloaded(n, 44, burst, 0.01)
				s.rate, s.end = v.rate, int64(400e3*packet)
				s.add(t)
			}).within(memory).countFrom(int64(60e3 * packet))
		}
	}
	// S4, a hundred times slower and ten times faster.
	for _, v := range []struct {
		name string
		slow int64 // tenths
	}{{"1/100", 1000}, {"10x", 1}} {
		for _, known := range []bool{true, false} {
			at := func(t int64) int64 { return t * v.slow / 10 }
			b.add(fmt.Sprintf("HV slow=3F %s everything at %s speed", knownName(known), v.name), func(t *Traffic) {
				start := int64(0)
				if known {
					start = 2 * second
				}
				paced{from: host(9), frags: 3, gap: at(slowGap), end: at(start + 2*second)}.add(t)
				f := loneFirst.at(anywhere, at(start), at(start+2*second))
				f.rate = 1e6 * 10 / float64(v.slow)
				f.add(t)
			}).countFrom(map[bool]int64{true: at(2 * second), false: 0}[known])
		}
	}
}
