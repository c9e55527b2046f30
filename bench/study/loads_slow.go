package study

import "fmt"

// slowSenders is S4: a sender on a 512 kbit/s link beside 1 Mpps of lone first
// fragments (mail 002).
func (b *book) slowSenders() {
	for _, frags := range []int{3, 44} {
		for _, memory := range []int64{4, 24, 240} {
			for _, known := range []bool{true, false} {
				start := int64(0)
				if known {
					start = 2 * second
				}
				l := b.add(fmt.Sprintf("S4 slow=%dF %s memory=%dMiB", frags, knownName(known), memory), func(t *Traffic) {
					end := start + 4*second
					paced{from: host(9), frags: frags, gap: slowGap, end: end}.add(t)
					loneFirst.at(anywhere, start, end).add(t)
				}).within(memory * mib).countFrom(start)
				if frags == 3 {
					l.reach(99)
				}
			}
		}
	}
	b.add("S4 slow=3F known memory=4MiB beside=20G64K", func(t *Traffic) {
		paced{from: host(9), frags: 3, gap: slowGap, end: 2 * second}.add(t)
		streams{
			n: 8, from: from(host(1)), group: bystander, size: packets(44), burst: 8, rate: tenGig,
			start: 800 * ms, end: 2 * second,
		}.add(t)
		loneFirst.at(anywhere, 800*ms, 2*second).add(t)
	}).countFrom(800 * ms).reach(99)
	b.add("S4 slow=3F known memory=4MiB flood-from=its-address", func(t *Traffic) {
		paced{from: host(9), frags: 3, gap: slowGap, end: 5 * second}.add(t)
		loneFirst.at(from(host(9)), 2*second, 5*second).add(t)
	}).countFrom(2 * second).reach(99)
	for _, memory := range []int64{4, 24} {
		b.add(fmt.Sprintf("S4x slow=3F known memory=%dMiB flood-from=its-address,its-size", memory), func(t *Traffic) {
			paced{from: host(9), frags: 3, gap: slowGap, end: 5 * second}.add(t)
			loneFirst3.at(from(host(9)), 2*second, 4*second).add(t)
		}).within(memory * mib).countFrom(2 * second)
	}
}

// slowSendersToo is S4c to S4e: the flood is of the slow sender's size, or the
// sender joins when the flood is there.
func (b *book) slowSendersToo() {
	for _, memory := range []int64{4, 24} {
		cold := b.add(fmt.Sprintf("S4d slow=3F cold memory=%dMiB flood=its-size", memory), func(t *Traffic) {
			paced{from: host(9), frags: 3, gap: slowGap, start: second, end: 5 * second}.add(t)
			loneFirst3.at(anywhere, 0, 5*second).add(t)
		}).within(memory * mib).countFrom(second).reach(5)
		if memory == 24 {
			cold.reach(30)
		}
		b.add(fmt.Sprintf("S4e slow=3F known memory=%dMiB flood=its-size", memory), func(t *Traffic) {
			paced{from: host(9), frags: 3, gap: slowGap, end: 4 * second}.add(t)
			loneFirst3.at(anywhere, second, 4*second).add(t)
		}).within(memory * mib).countFrom(second).reach(99)
	}
	for _, memory := range []int64{4, 24} {
		b.add(fmt.Sprintf("S4c slow=3F cold memory=%dMiB joins-late", memory), func(t *Traffic) {
			paced{from: host(9), frags: 3, gap: slowGap, start: second, end: 6 * second}.add(t)
			loneFirst.at(anywhere, 0, 6*second).add(t)
		}).within(memory * mib).countFrom(second).reach(90)
	}
}

// changes is SW: what was learned stops being true.
func (b *book) changes() {
	ten := func(start, end, jitter int64) streams {
		return streams{
			n: 10, from: from(host(1)), size: packets(44), burst: 8, rate: tenGig, start: start, end: end,
			jitter: jitter, duplicate: 0.01,
		}
	}
	later := func(frags, burst int, start, end int64) streams {
		s := overloaded(200, frags, burst, 0.01)
		s.start, s.end = start, end
		return s
	}
	b.add("SW order then reorder=5ms", func(t *Traffic) {
		ten(0, 400*ms, 0).add(t)
		ten(400*ms, 1200*ms, 5*ms).add(t)
	}).countFrom(500 * ms)
	b.add("SW reorder=5ms then 200x64K burst=8 loss=1%", func(t *Traffic) {
		ten(0, 400*ms, 5*ms).add(t)
		later(44, 8, 400*ms, 1200*ms).add(t)
	}).countFrom(500 * ms)
	known := func(group uint8, start, end int64) streams {
		return streams{n: 4, from: from(host(9)), group: group, size: packets(3), burst: 3, rate: 1e9, start: start, end: end}
	}
	b.add("SW fast 3F then slow 3F beside flood", func(t *Traffic) {
		known(bystander, 0, 200*ms).add(t)
		paced{from: host(9), frags: 3, gap: slowGap, start: 200 * ms, end: 4 * second}.add(t)
		loneFirst.at(anywhere, 200*ms, 4*second).add(t)
	}).countFrom(200 * ms)
	b.add("SW slow 3F then fast 3F beside=200x64K,burst=1", func(t *Traffic) {
		paced{from: host(9), group: bystander, frags: 3, gap: slowGap, end: 2 * second}.add(t)
		known(0, 2*second, 2400*ms).add(t)
		s := overloaded(200, 44, 1, 0)
		s.group, s.start, s.end = bystander, 1800*ms, 2400*ms
		s.add(t)
	}).countFrom(2 * second)
	b.add("SW 3F then 64K 200 streams burst=8 loss=1%", func(t *Traffic) {
		later(3, 3, 0, 300*ms).add(t)
		later(44, 8, 300*ms, 1000*ms).add(t)
	}).countFrom(400 * ms)
}
