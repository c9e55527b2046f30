package study

import (
	"fmt"

	"corelane/bench/scenario"
)

// sizeName names a datagram's size as the mails do.
func sizeName(frags int) string {
	if frags == 44 {
		return "64K"
	}
	return fmt.Sprint(frags, "F")
}

// overloaded is n streams of one host on a link of 10 Gbit/s.
func overloaded(n, frags, burst int, loss float64) streams {
	return streams{
		n: n, from: from(host(1)), size: packets(frags), burst: burst, rate: tenGig, end: runTime, loss: bernoulli(loss),
	}
}

func bernoulli(p float64) scenario.Loss {
	if p == 0 {
		return nil
	}
	return scenario.Bernoulli(p)
}

// overload is S1 and S2: netperf's parallel streams, mail 000.
func (b *book) overload() {
	losses := []float64{0, 0.005, 0.01, 0.05}
	promise := map[int][]float64{8: {60, 58, 58, 88}, 1: {66, 64, 60, 88}}
	for _, frags := range []int{44, 3} {
		set, bursts := "S1", []int{44, 8, 1}
		if frags == 3 {
			set, bursts = "S2", []int{3, 1}
		}
		for _, n := range []int{10, 200} {
			for _, burst := range bursts {
				for i, loss := range losses {
					if n == 10 && loss == 0 && burst > 1 {
						continue // everything fits
					}
					l := b.add(fmt.Sprintf("%s streams=%dx%s burst=%d loss=%g%%", set, n, sizeName(frags), burst, loss*100),
						func(t *Traffic) { overloaded(n, frags, burst, loss).add(t) }).reach(99)
					if p := promise[burst]; frags == 44 && n == 200 && p != nil {
						l.reach(p[i])
					}
				}
			}
		}
	}
	for _, burst := range []int{8, 1} {
		for _, loss := range []float64{0, 0.01} {
			b.add(fmt.Sprintf("S1 peers=200 burst=%d loss=%g%%", burst, loss*100), func(t *Traffic) {
				s := overloaded(200, 44, burst, loss)
				s.from = each(host(1), 200)
				s.add(t)
			})
		}
	}
}

// clean is 20 Gbit/s that fit: four streams each of two hosts (mail 002).
func clean(t *Traffic, frags int, end int64) {
	burst := min(frags, 8)
	for i := range 2 {
		streams{
			n: 4, from: from(host(1 + i)), size: packets(frags), burst: burst, rate: tenGig, end: end,
		}.add(t)
	}
}

const stranger = 11<<24 + 777 // one host of an attacker

// floods is S3: floods at 1 Mpps beside traffic that fits.
func (b *book) floods() {
	kinds := []struct {
		name  string
		flood flood
		from  source
		small bool // also beside 3-fragment datagrams
	}{
		{"lone-first from=anywhere", loneFirst, anywhere, true},
		{"lone-first from=one", loneFirst, from(stranger), true},
		{"lone-first from=good", loneFirst, from(host(1)), true},
		{"lone-middle", loneMiddle, anywhere, true},
		{"lone-last", loneLast, anywhere, true},
		{"2-of-3", twoOfThree, anywhere, true},
		{"lying-first", lyingFirst, anywhere, false},
		{"43-of-44 from=anywhere", allButLast, anywhere, true},
		{"43-of-44 from=good", allButLast, from(host(1)), false},
		{"half-whole from=4096", halfWhole, each(stranger, 4096), true},
		{"half-whole from=one", halfWhole, from(stranger), false},
		{"half-whole from=anywhere", halfWhole, anywhere, true},
	}
	for _, frags := range []int{44, 3} {
		for _, k := range kinds {
			if frags == 3 && !k.small {
				continue
			}
			b.add(fmt.Sprintf("S3 20G%s flood=%s", sizeName(frags), k.name), func(t *Traffic) {
				clean(t, frags, runTime)
				k.flood.at(k.from, 50*ms, runTime).add(t)
			}).reach(99)
		}
	}
	b.add("S3 20G64K flood=trickle-2000", func(t *Traffic) {
		clean(t, 44, runTime)
		trickle{n: 2000, period: 20 * ms, from: anywhere, start: 50 * ms, end: runTime}.add(t)
	}).reach(99)
	b.floodOnOverload("S3o", "lone-first from=anywhere", loneFirst, anywhere).reach(58)
}

// floodOnOverload is a flood beside 200 streams, of which 40 fit.
func (b *book) floodOnOverload(set, name string, f flood, from source) *Load {
	return b.add(fmt.Sprintf("%s 200x64K burst=8 flood=%s", set, name), func(t *Traffic) {
		overloaded(200, 44, 8, 0).add(t)
		f.at(from, 50*ms, runTime).add(t)
	})
}

// attacksOnOverload is S3x and the rest of S4: what was tried to break worth.
func (b *book) attacksOnOverload() {
	b.floodOnOverload("S3x", "2-of-3 from=good", twoOfThree, from(host(1))).reach(58)
	b.add("S3x 20G64K flood=2-of-3 from=good", func(t *Traffic) {
		clean(t, 44, runTime)
		twoOfThree.at(from(host(1)), 50*ms, runTime).add(t)
	}).reach(99)
	b.floodOnOverload("S3x", "2-of-3 from=anywhere", twoOfThree, anywhere).reach(58)
	for _, known := range []bool{true, false} {
		start := 800 * ms
		if known {
			start = 0
		}
		b.add("S4o slow=3F "+knownName(known)+" beside=200x64K,burst=1", func(t *Traffic) {
			paced{from: host(9), frags: 3, gap: slowGap, start: start, end: 2 * second}.add(t)
			s := overloaded(200, 44, 1, 0)
			s.group, s.end = bystander, 2*second
			if known {
				s.start = 800 * ms
			}
			s.add(t)
		}).countFrom(800 * ms).reach(99)
	}
	for _, frags := range []int{44, 3} {
		b.add(fmt.Sprintf("S3x 20G%s flood=slow-sybil-2000", sizeName(frags)), func(t *Traffic) {
			clean(t, frags, 1400*ms)
			sybil{n: 2000, first: stranger, gap: 300 * ms, period: 20 * ms, lone: 700 * ms, end: 1400 * ms}.add(t)
		}).countFrom(800 * ms).reach(99)
	}
	b.add("S3x 20G64K flood=trickle-20000", func(t *Traffic) {
		clean(t, 44, runTime)
		trickle{n: 20000, period: 20 * ms, from: anywhere, start: 50 * ms, end: runTime}.add(t)
	}).countFrom(500 * ms).reach(99)
	b.add("S3x 20G64K flood=trickle-2000 from=one", func(t *Traffic) {
		clean(t, 44, runTime)
		trickle{n: 2000, period: 18 * ms, from: from(stranger), end: runTime}.add(t)
	}).countFrom(500 * ms).reach(99)
	b.floodOnOverload("S3x", "half-whole from=anywhere", halfWhole, anywhere).reach(45)
	b.floodOnOverload("S3x", "half-whole from=4096", halfWhole, each(stranger, 4096)).reach(45)
	b.floodOnOverload("S3x", "lone-first from=good", loneFirst, from(host(1))).reach(58)
}

func knownName(known bool) string {
	if known {
		return "known"
	}
	return "cold"
}

// recoveries is S1r: 200 streams for a second, then ten of them go on.
func (b *book) recoveries() {
	for _, loss := range []float64{0, 0.01, 0.05} {
		for _, burst := range []int{44, 8, 1} {
			if loss == 0.05 && burst != 8 {
				continue
			}
			l := b.add(fmt.Sprintf("S1r burst=%d loss=%g%%", burst, loss*100), func(t *Traffic) {
				s := overloaded(200, 44, burst, loss)
				s.end, s.stopAt, s.keep = 3*second, second, 10
				s.add(t)
			}).countFrom(second)
			l.stop = second
		}
	}
}
