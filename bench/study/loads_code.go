package study

import "fmt"

// codeAware is attacks by somebody who has read the rules of worth. Each is
// beside 200 streams, of which 40 fit, unless it says something else.
func (b *book) codeAware() {
	b.set = Attack

	// The peer table has 1024 entries, and residents with a record are slow to go:
	// fill it with hosts that complete cheap datagrams, before anybody good comes.
	filler := whole{frags: 2, from: each(stranger, 2048), rate: 5e5}
	b.add("AT peers=200 burst=8 come after 2048 took the peer table", func(t *Traffic) {
		f := filler
		f.end = runTime
		f.add(t)
		s := overloaded(200, 44, 8, 0)
		s.from, s.start = each(host(1), 200), 300*ms
		s.add(t)
	}).countFrom(400 * ms)
	b.add("AT slow=3F cold comes after 2048 took the peer table, flood=its-size", func(t *Traffic) {
		f := filler
		f.end = 4 * second
		f.add(t)
		paced{from: host(9), frags: 3, gap: slowGap, start: second, end: 4 * second}.add(t)
		loneFirst3.at(anywhere, 300*ms, 4*second).add(t)
	}).countFrom(second)

	// A source that completes with holes is forgiven holes: train a pool of
	// hosts, or the victim's own address, then send every other fragment.
	holes := flood{of: 44, send: everyOther(44)}
	for _, as := range []struct {
		name  string
		from  source
		train bool
	}{
		{"from=anywhere", anywhere, false}, {"from=64-trained", each(stranger, 64), true}, {"from=good,trained", from(host(1)), true},
	} {
		b.add("AT 200x64K burst=8 flood=every-other "+as.name, func(t *Traffic) {
			overloaded(200, 44, 8, 0).add(t)
			if as.train {
				whole{frags: 3, reverse: true, from: as.from, rate: 1e4, end: runTime}.add(t)
			}
			holes.at(as.from, 50*ms, runTime).add(t)
		})
	}

	// A source's patience is its longest gap: complete slow datagrams under the
	// victim's address, so that lone fragments under it never look overdue.
	b.add("AT 200x64K burst=8 flood=lone-first from=good,gap-trained", func(t *Traffic) {
		overloaded(200, 44, 8, 0).add(t)
		whole{frags: 2, gap: 200 * ms, from: from(host(1)), rate: 500, end: runTime}.add(t)
		loneFirst.at(from(host(1)), 50*ms, runTime).add(t)
	})

	// The fair share falls with the number of known sources that hold memory.
	b.floodOnOverload("AT", "half-whole from=512", halfWhole, each(stranger, 512))
	b.floodOnOverload("AT", "half-whole from=64", halfWhole, each(stranger, 64))

	// The doom table forgets by collision: flush it with evictions while good
	// datagrams are out of order, which it matters for most.
	b.add("AT 10x64K reorder=5ms flood=lone-first from=anywhere", func(t *Traffic) {
		s := overloaded(10, 44, 8, 0)
		s.jitter, s.duplicate = 5*ms, 0.01
		s.add(t)
		loneFirst.at(anywhere, 50*ms, runTime).add(t)
	})

	// What was given up stays out for a tenth of a second: have a name given up
	// before its owner uses it.
	for _, share := range []float64{0.1, 1} {
		b.add(fmt.Sprintf("AT 20G64K flood=lone-first, %g%% of names used 20 ms before", share*100), func(t *Traffic) {
			clean(t, 44, runTime)
			forger{ahead: 20 * ms, share: share, frag: 1}.add(t)
			loneFirst.at(anywhere, 50*ms, runTime).add(t)
		})
	}

	// Records are kept by size class: a flood of every size blames all of them.
	sizes := loneFirst
	sizes.claims = []int{2, 3, 5, 12, 44}
	for _, known := range []bool{true, false} {
		b.add("AT slow=3F "+knownName(known)+" flood=lone-first of every size", func(t *Traffic) {
			p := paced{from: host(9), frags: 3, gap: slowGap, start: second, end: 4 * second}
			if known {
				p.start = 0
			}
			p.add(t)
			f := sizes.at(anywhere, 0, 4*second)
			if known {
				f.start = second
			}
			f.add(t)
		}).countFrom(second)
	}
	b.floodOnOverload("AT", "lone-first of every size", sizes, anywhere)
	b.add("AT 20G64K flood=lone-first of every size", func(t *Traffic) {
		clean(t, 44, runTime)
		sizes.at(anywhere, 50*ms, runTime).add(t)
	})

	// The floor lets unknown queues live for a second, whatever they are worth:
	// keep it occupied, and let a known source's streams pay.
	b.add("AT 200x64K burst=8 flood=trickle-60", func(t *Traffic) {
		overloaded(200, 44, 8, 0).add(t)
		trickle{n: 60, period: 20 * ms, from: anywhere, start: 50 * ms, end: runTime}.add(t)
	})
	b.add("AT slow=3F cold beside=200x64K,burst=1 flood=trickle-60", func(t *Traffic) {
		paced{from: host(9), frags: 3, gap: slowGap, start: second, end: 3 * second}.add(t)
		s := overloaded(200, 44, 1, 0)
		s.group, s.end = bystander, 3*second
		s.add(t)
		trickle{n: 60, period: 20 * ms, from: anywhere, end: 3 * second}.add(t)
	}).countFrom(second)
}

func everyOther(n int) []int {
	var s []int
	for i := 0; i < n; i += 2 {
		s = append(s, i)
	}
	return s
}
