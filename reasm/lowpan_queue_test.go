package reasm

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"corelane/internal/race"
)

// What a queue of 6LoWPAN holds: which fragments are the same, which conflict,
// which belong together, and what they cost.

// RE-26, RFC 4944 5.3: the same fragment again is ignored, in any place; the
// first copy stays.
func TestLoWPANRepeatedFragmentIsIgnored(t *testing.T) {
	const size = 205
	forEachLinkWay(t, nil, func(t *testing.T, r *rig) {
		rs := r.verdicts([]Verdict{Held, Duplicate, Held, Duplicate, Duplicate, Held, Duplicate, Duplicate, Duplicate, Complete},
			link(1, 96, 32, size).of(1), link(1, 96, 32, size).of(2),
			link(1, 128, 32, size).of(1), link(1, 96, 32, size).of(3), link(1, 128, 32, size).of(4),
			link(1, 0, 96, size).of(1), link(1, 0, 96, size).of(5), link(1, 96, 32, size).of(6), link(1, 128, 32, size).of(7),
			link(1, 160, 45, size).of(8))
		for _, res := range rs {
			require.False(t, res.Restarted)
		}
		r.payload(rs[9].Datagram, [3]int{1, 0, 120}, [3]int{8, 120, 165})
		require.Zero(t, r.held(0).Conflicts)
	})
}

// RE-26: a fragment that overlaps in any other way discards what was held, and
// starts afresh.
func TestLoWPANConflictStartsAfresh(t *testing.T) {
	const size = 240
	held := []frag{link(1, 0, 80, size).of(1), link(1, 80, 40, size).of(1), link(1, 160, 80, size).of(1)}
	for _, tt := range []struct{ off, n int }{
		{0, 72}, {0, 88}, {0, 120}, {0, 240}, // the same start
		{72, 8}, {112, 8}, {200, 40}, // the same end
		{80, 32}, {88, 16}, {168, 8}, // within one
		{72, 16}, {80, 80}, {80, 48}, {152, 16}, {120, 48}, {120, 120}, {80, 160}, // across borders
	} {
		t.Run(fmt.Sprintf("off=%d/n=%d", tt.off, tt.n), func(t *testing.T) {
			forEachLinkWay(t, nil, func(t *testing.T, r *rig) {
				r.verdicts([]Verdict{Held, Held, Held}, held...)
				at := r.now
				r.now += int64(time.Second)
				f := link(1, tt.off, tt.n, size).of(2)
				want := Held
				if tt.n == size {
					want = Complete
				}
				res := r.one(want, f)
				require.True(t, res.Restarted)
				if want == Complete {
					r.payload(res.Datagram, [3]int{2, 0, size - 40})
					require.EqualValues(t, 1, r.held(0).Conflicts)
					return
				}
				s := r.held(1)
				require.EqualValues(t, 1, s.Conflicts)
				for q := range r.cache.Walk() {
					require.Greater(t, q.Created, at, "its time starts anew")
					require.Equal(t, tt.n, q.Bytes)
					require.Equal(t, 1, q.Fragments)
					require.Equal(t, size, q.End)
				}
				require.Len(t, r.kept, map[Mode]int{Copy: 0, Borrow: 1}[r.mode], "what was held came back")
				// The rest, from the newcomer's sender.
				rest := []frag{}
				if tt.off > 0 {
					rest = append(rest, link(1, 0, tt.off, size).of(2))
				}
				if end := tt.off + tt.n; end < size {
					rest = append(rest, link(1, end, size-end, size).of(2))
				}
				rs := r.send(rest...)
				last := rs[len(rs)-1]
				require.Equal(t, Complete, last.Verdict)
				require.Equal(t, r.now, last.Datagram.Created())
				r.payload(last.Datagram, [3]int{2, 0, size - 40})
				require.EqualValues(t, 1, r.held(0).Conflicts)
			})
		})
	}
}

// A conflict within a batch takes back what the batch stored before it.
func TestLoWPANConflictsWithinABatch(t *testing.T) {
	const size = 200
	forEachLinkWay(t, nil, func(t *testing.T, r *rig) {
		rs := r.verdicts([]Verdict{Held, Held, Held, Held, Held, Complete},
			link(1, 0, 96, size).of(1), link(1, 96, 96, size).of(1),
			link(1, 88, 96, size).of(2), // drops both
			link(1, 0, 96, size).of(3),  // drops that
			link(1, 96, 96, size).of(4), link(1, 192, 8, size).of(5))
		restarted := []bool{}
		for _, res := range rs {
			restarted = append(restarted, res.Restarted)
		}
		require.Equal(t, []bool{false, false, true, true, false, false}, restarted)
		r.payload(rs[5].Datagram, [3]int{3, 0, 56}, [3]int{4, 56, 152}, [3]int{5, 152, 160})
		require.EqualValues(t, 2, r.held(0).Conflicts)
		require.Zero(t, r.cache.Stats().Bytes)
	})
}

// RFC 4944 5.3: both addresses, tag and size tell datagrams apart, and so does the
// caller's domain.
func TestLoWPANKeysDoNotMix(t *testing.T) {
	addrs := []LinkAddr{{}, ShortAddr(0), ShortAddr(0x0102), ExtendedAddr([8]byte{}), ExtendedAddr([8]byte{6: 1, 7: 2})}
	forEachLinkWay(t, nil, func(t *testing.T, r *rig) {
		var frames [][2][]byte
		var keys []Key
		for _, src := range addrs {
			for _, dst := range addrs {
				for _, size := range []uint16{104, 112} {
					for tag := range uint16(2) {
						for domain := range uint64(2) {
							d := linkDatagram{linkIPv6(int(size), 59, len(frames)), tag}
							frames = append(frames, [2][]byte{d.first(d.plain(), 0, 96), d.next(96, int(size))})
							keys = append(keys, KeyLoWPAN(src, dst, tag, size, domain))
						}
					}
				}
			}
		}
		add := func(i, part int) Result {
			var f Fragment
			k := keys[i]
			b := frames[i][part]
			require.Equal(t, Held, r.parser.LoWPAN(b, k.LinkSrc(), k.LinkDst(), k.Domain, &f))
			require.Equal(t, k, f.Key)
			f.Ref = r.sent
			r.sent++
			if r.mode == Borrow {
				r.kept[f.Ref] = b
			}
			return r.lane.Add(r.now, &f)
		}
		for i := range frames {
			require.Equal(t, Held, add(i, 0).Verdict)
		}
		r.held(len(frames))
		for i := range frames {
			res := add(i, 1)
			require.Equal(t, Complete, res.Verdict)
			k := keys[i]
			require.Equal(t, k, res.Datagram.Key())
			r.payload(res.Datagram, [3]int{i, 0, int(k.ID()>>16) - 40})
		}
	})
}

// Families that share a cache do not meet, and a Fragment, like a queue, may be
// used for all, one after the other.
func TestLoWPANSharesACacheWithIP(t *testing.T) {
	for _, w := range waysOnce() {
		if w.batch {
			continue
		}
		t.Run(w.String(), func(t *testing.T) {
			r := newRig(t, w, nil)
			var f Fragment
			add := func(family int, s frag) Result {
				b := s.of(3).packet(family, 0)
				if family == loWPAN {
					r.parser.LoWPAN(b, LinkAddr{}, LinkAddr{}, 0, &f)
				} else {
					r.parser.Parse(b, 0, &f)
				}
				f.Ref = r.sent
				r.sent++
				res := r.lane.Add(r.now, &f)
				if r.mode == Borrow && res.Verdict.Kept() {
					r.kept[f.Ref] = b
				}
				return res
			}
			for range 3 {
				r.family = loWPAN // one whole datagram, whose queue the others get
				r.release(r.sendPackets(unhex("c0320001 7f33 f7 12 0102"))[0].Datagram)
				r.parser.LoWPAN(linkPacket(link(1, 0, 48, 96).of(0)), linkA, linkB, 0, &f)
				require.Equal(t, Held, add(4, piece(1, 0, 48, true)).Verdict)
				require.Equal(t, Held, add(loWPAN, link(1, 0, 48, 96)).Verdict)
				require.Equal(t, Held, add(6, piece(1, 0, 48, true)).Verdict)
				r.held(3)
				for family, last := range map[int]frag{4: piece(1, 48, 16, false), 6: piece(1, 48, 16, false), loWPAN: link(1, 48, 48, 96)} {
					res := add(family, last)
					require.Equal(t, Complete, res.Verdict)
					n := map[int]int{4: 64, 6: 64, loWPAN: 56}[family]
					r.payload(res.Datagram, [3]int{3, 0, n})
				}
				r.held(0)
			}
		})
	}
}

// Lanes that send the same datagrams, whole and in conflict, agree in the end.
func TestConcurrentLoWPANConflicts(t *testing.T) {
	for _, d := range Designs() {
		t.Run("design="+d.Name, func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.Lanes = 4
			cache, err := New(d.Name, cfg)
			require.NoError(t, err)
			var wg sync.WaitGroup
			for i := range cfg.Lanes {
				wg.Go(func() {
					lane := cache.Lane(i)
					var f Fragment
					for n := range 3000 {
						s := link(uint32(n/50), 0, 96, 288)
						switch (n*7 + i) % 5 {
						case 0:
							s = link(uint32(n/50), 96, 96, 288)
						case 1:
							s = link(uint32(n/50), 192, 96, 288)
						case 2:
							s = link(uint32(n/50), 40+8*(n%20), 24, 288)
						}
						require.Equal(t, Held, Parser{}.LoWPAN(s.of(1).packet(loWPAN, 0), linkA, linkB, 0, &f))
						r := lane.Add(int64(n), &f)
						if r.Verdict == Complete {
							if want := linkIPv6(288, 253, 1); !slices.Equal(want, r.Datagram.Bytes()) {
								t.Errorf("got %x", r.Datagram.Bytes())
							}
							r.Datagram.Release()
						}
					}
				})
			}
			wg.Wait()
			s := cache.Stats()
			require.NotZero(t, s.Verdicts[Complete])
			require.NotZero(t, s.Conflicts)
			require.NoError(t, cache.Close())
			s = cache.Stats()
			require.Zero(t, s.Bytes)
			require.Zero(t, s.Queues)
		})
	}
}

// Every recycled map must be empty, or a later datagram would see fragments of an
// earlier one.
func TestLinkMapIsEmptyWhenReused(t *testing.T) {
	var h holes
	h.addLink(0, 2047)
	links := h.links
	require.Equal(t, []run{{0, 2047}}, h.runs())
	require.Equal(t, "[ 2047 ]", h.String())
	require.Equal(t, duplicate, h.classify(0, 2047))
	require.Equal(t, overlaps, h.classify(0, 2040))
	h.reset()
	require.Equal(t, linkMap{}, *links)
	require.Equal(t, holes{}, h)
}

// Q11: a datagram of 6LoWPAN allocates nothing once the pools are warm.
func TestLoWPANAllocatesNothing(t *testing.T) {
	if race.Enabled {
		t.Skip("sync.Pool drops at random under race")
	}
	packet := linkUDP(1280, linkA, linkB, func(int) int { return 1 })
	head, lead, _ := compress(packet, linkA, linkB, func(n int) int { return n - 1 })
	frames := linkDatagram{packet, 1}.cut(head, lead, nil)
	for _, mode := range []Mode{Copy, Borrow} {
		t.Run("mode="+modeName(mode), func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.Mode, cfg.Free = mode, func([]Buffer) {}
			cache, err := New(Default, cfg)
			require.NoError(t, err)
			lane := cache.Lane(0)
			var f Fragment
			allocs := testing.AllocsPerRun(100, func() {
				for _, b := range frames {
					Parser{}.LoWPAN(b, linkA, linkB, 0, &f)
					if r := lane.Add(0, &f); r.Datagram != nil {
						r.Datagram.Release()
					}
				}
			})
			require.Zero(t, allocs)
			require.NotZero(t, cache.Stats().Verdicts[Complete])
			require.NoError(t, cache.Close())
		})
	}
}

// What is charged is what is pinned: the queue, the map of its fragments, and in
// Borrow the frames with their records.
func TestLoWPANCharge(t *testing.T) {
	forEachLinkWay(t, nil, func(t *testing.T, r *rig) {
		frame := linkPacket(link(1, 96, 48, 200).of(0))
		pinned := int64(cap(frame)) + bufferRecord
		if r.mode == Copy {
			front := int64(r.cache.(*cache).host.buffers.front)
			pinned = front + 1<<minClass + cellRecord
		}
		r.sendPackets(frame)
		require.Equal(t, queueRecord+linkMapBytes+pinned, r.held(1).Bytes)
	})
}

// Design worth is told how many fragments there will be.
func TestLoWPANTellsWorthItsSize(t *testing.T) {
	r := newRig(t, way{design: "worth", family: loWPAN}, nil)
	r.one(Held, link(1, 0, 96, 1280))
	for qs := range r.cache.(*cache).host.index.batches() {
		for _, q := range qs {
			require.EqualValues(t, 14, q.view.hint)
		}
	}
	r.held(1)
}
