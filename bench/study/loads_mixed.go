package study

import "fmt"

// peers is S5 and S6: a hog beside an average peer (mail 003), and an interface
// that loses packets beside two that do not (mail 004).
func (b *book) peers() {
	for _, v := range []struct {
		n, burst   int
		loss       float64
		hog, other float64 // promised, of what each could complete
	}{{10, 8, 0.01, 97, 97}, {200, 1, 0, 30, 97}, {200, 8, 0.01, 45, 97}} {
		b.add(fmt.Sprintf("S5 hog=%dx64K burst=%d loss=%g%% beside=1", v.n, v.burst, v.loss*100), func(t *Traffic) {
			s := overloaded(v.n, 44, v.burst, v.loss)
			s.rate = 9.1e9
			s.add(t)
			s = overloaded(1, 44, 1, v.loss)
			s.from, s.group, s.rate = from(host(2)), 2, 0.9e9
			s.add(t)
		}).reachBy(v.hog, 0, v.other)
	}
	b.add("S6 interfaces=3 one loses 10%", func(t *Traffic) {
		for i, loss := range []float64{0, 0, 0.1} {
			s := overloaded(10, 44, 8, loss)
			s.from, s.group = from(host(1+i)), uint8(i)
			s.add(t)
		}
	}).reach(99)
}

// disorder is S7: packets less than a time apart change places, 1 % arrive twice.
func (b *book) disorder() {
	late := func(n, frags, burst int, loss float64, jitter int64) streams {
		s := overloaded(n, frags, burst, loss)
		s.jitter, s.duplicate = jitter, 0.01
		return s
	}
	b.add("S7 10x64K reorder=0.1ms", func(t *Traffic) { late(10, 44, 8, 0, ms/10).add(t) }).reach(98)
	b.add("S7 10x64K reorder=1ms", func(t *Traffic) { late(10, 44, 8, 0, ms).add(t) }).reach(98)
	b.add("S7 10x64K reorder=5ms", func(t *Traffic) { late(10, 44, 8, 0, 5*ms).add(t) }).reach(72)
	b.add("S7 200x3F reorder=5ms loss=1%", func(t *Traffic) { late(200, 3, 3, 0.01, 5*ms).add(t) }).reach(98)
	b.add("S7 10x64K rate=1G reorder=5ms loss=1%", func(t *Traffic) {
		s := late(10, 44, 8, 0.01, 5*ms)
		s.rate, s.end = 1e9, 3*runTime
		s.add(t)
	}).countFrom(200 * ms)
}

// sizes is S8: sizes with a heavy tail.
func (b *book) sizes() {
	for _, burst := range []int{8, 1} {
		for i, loss := range []float64{0, 0.01} {
			l := b.add(fmt.Sprintf("S8 streams=200 heavy-tail burst=%d loss=%g%%", burst, loss*100), func(t *Traffic) {
				s := overloaded(200, 44, burst, loss)
				s.size = heavyTail
				s.add(t)
			}).reach(99)
			if burst == 1 {
				l.reach([]float64{90, 92}[i])
			}
		}
	}
	b.add("S8 peers=50x20 heavy-tail burst=1 loss=1%", func(t *Traffic) {
		for i := range 50 {
			s := overloaded(20, 44, 1, 0.01)
			s.from, s.size, s.rate = from(host(1+i)), heavyTail, tenGig/50
			s.add(t)
		}
	}).reach(82)
}

// manyStreams is S9: more datagrams in flight than memory holds, by 10 and 25
// times.
func (b *book) manyStreams() {
	for _, n := range []int{400, 1000} {
		for _, loss := range []float64{0, 0.01} {
			for _, peers := range []int{1, n} {
				b.add(fmt.Sprintf("S9 streams=%d burst=1 loss=%g%% peers=%d", n, loss*100, peers), func(t *Traffic) {
					s := overloaded(n, 44, 1, loss)
					s.from = each(host(1), peers)
					s.add(t)
				}).reach(map[int]float64{400: 55, 1000: 48}[n])
			}
		}
	}
}

// tiny is S10: 256 KiB, which hold two and a half datagrams of 64 KB.
func (b *book) tiny() {
	half := func(n, frags, burst int, loss float64) func(*Traffic) {
		return func(t *Traffic) {
			s := overloaded(n, frags, burst, loss)
			s.end = runTime / 2
			s.add(t)
		}
	}
	for _, burst := range []int{44, 8, 1} {
		for _, loss := range []float64{0, 0.01} {
			l := b.add(fmt.Sprintf("S10 10x64K memory=256KiB burst=%d loss=%g%%", burst, loss*100), half(10, 44, burst, loss)).
				within(256 * kib).countFrom(50 * ms)
			if burst < 44 {
				l.reach(46)
			}
		}
	}
	b.add("S10 200x3F memory=256KiB burst=1 loss=1%", half(200, 3, 1, 0.01)).
		within(256 * kib).countFrom(50 * ms).reach(58)
}
