package reasm

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What 6LoWPAN does in its own way, on every design, mode and call.

// forEachLinkWay is forEachWay for frames of 6LoWPAN.
func forEachLinkWay(t *testing.T, adapt func(*Config), test func(*testing.T, *rig)) {
	t.Helper()
	for _, w := range waysOnce() {
		w.family = loWPAN
		t.Run(w.String(), func(t *testing.T) { test(t, newRig(t, w, adapt)) })
	}
}

// RE-L22: Linux takes fragments of 6LoWPAN in order only.
func TestLoWPANCompletesInEveryOrder(t *testing.T) {
	const size = 300
	parts := []frag{link(7, 0, 96, size), link(7, 96, 104, size), link(7, 200, 8, size), link(7, 208, 92, size)}
	forEachLinkWay(t, nil, func(t *testing.T, r *rig) {
		permute(parts, func(order []frag) {
			r.now++
			d := r.verdicts([]Verdict{Held, Held, Held, Complete}, order...)[3].Datagram
			require.Equal(t, KeyLoWPAN(linkA, linkB, 7, size, 0), d.Key())
			require.Equal(t, 4, d.Fragments())
			require.Equal(t, 5+104, d.MaxFragment())
			require.Equal(t, r.now, d.Created())
			require.Equal(t, linkIPv6(size, 253, 0)[:40], d.Header())
			require.Equal(t, size, d.Len())
			r.payload(d, [3]int{0, 0, size - 40})
			r.held(0)
		})
	})
}

// The same with a compressed first fragment, of which the frame holds some bytes
// behind the headers, or none.
func TestLoWPANCompressedFirstFragmentCompletes(t *testing.T) {
	forEachLinkWay(t, nil, func(t *testing.T, r *rig) {
		choose := rand.New(rand.NewPCG(9, 9)).IntN
		for _, size := range []int{48, 49, 127, 300, 301, 2047} {
			for _, behind := range []int{0, 8, 40} {
				packet := linkUDP(size, linkA, linkB, choose)
				head, lead, _ := compress(packet, linkA, linkB, choose)
				d := linkDatagram{packet, uint16(size)}
				frames := d.cut(head, lead, []byte{byte((lead+behind)/8 - 1), 11, 0, 20})
				for _, backwards := range []bool{false, true} {
					fs := make([][]byte, len(frames))
					for i := range frames {
						fs[i] = slices.Clone(frames[i])
					}
					if backwards {
						slices.Reverse(fs)
					}
					rs := r.sendPackets(fs...)
					last := rs[len(rs)-1]
					require.Equal(t, Complete, last.Verdict)
					require.Len(t, last.Datagram.Header(), lead)
					require.Equal(t, packet, last.Datagram.Bytes())
					require.Equal(t, packet, last.Datagram.AppendTo(nil))
					require.Equal(t, packet, last.Datagram.Prepend(14)[14:])
					r.release(last.Datagram)
				}
			}
		}
		r.held(0)
	})
}

// A UDP checksum that was left out is computed, odd lengths included.
func TestLoWPANChecksumThatWasLeftOutIsComputed(t *testing.T) {
	always := func(n int) int { return n - 1 } // compress all there is
	forEachLinkWay(t, nil, func(t *testing.T, r *rig) {
		for size := 48; size < 400; size += 7 {
			packet := linkIPv6(size, 17, size)
			copy(packet[40:], []byte{0xf0, 0xb1, 0xf0, 0xb2, 0, byte(size - 40), 0, 0})
			packet[44] = byte((size - 40) >> 8)
			sum := slowUDPSum(packet)
			packet[46], packet[47] = byte(sum>>8), byte(sum)
			head, lead, nhc := compress(packet, linkA, linkB, always)
			require.Equal(t, byte(0xf7), nhc)
			frames := linkDatagram{packet, 1}.cut(head, lead, nil)
			slices.Reverse(frames)
			rs := r.sendPackets(frames...)
			d := rs[len(rs)-1].Datagram
			require.NotNil(t, d)
			require.Equal(t, packet, d.Bytes())
			r.release(d)
		}
	})
}

// A sum that comes out as 0 is sent as all ones (RFC 768).
func TestLoWPANChecksumIsNeverZero(t *testing.T) {
	packet := linkIPv6(64, 17, 1)
	copy(packet[40:], []byte{0xf0, 0xb1, 0xf0, 0xb2, 0, 24, 0, 0})
	packet[62], packet[63] = 0, 0
	sum := slowUDPSum(packet)
	packet[62], packet[63] = byte(sum>>8), byte(sum) // now all adds up
	require.Equal(t, uint16(0xffff), slowUDPSum(packet))
	packet[46], packet[47] = 0xff, 0xff
	head, lead, _ := compress(packet, linkA, linkB, func(n int) int { return n - 1 })
	forEachLinkWay(t, nil, func(t *testing.T, r *rig) {
		rs := r.sendPackets(linkDatagram{packet, 1}.cut(head, lead, []byte{0})...)
		require.Equal(t, packet, rs[1].Datagram.Bytes())
		r.release(rs[1].Datagram)
	})
}

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

// Q2: what cannot be right, or cannot be undone, leaves nothing behind, not even
// with the kernel's quirks.
func TestLoWPANRefusedFragmentsCostNoState(t *testing.T) {
	good := linkDatagram{linkIPv6(200, 59, 0), 1}
	first := func(head string) []byte { return append([]byte{0xc0, 200, 0, 1}, unhex(head)...) }
	version := good.first(good.plain(), 0, 96)
	version[5] = 0x45
	for _, tt := range []struct {
		name string
		want Verdict
		b    []byte
	}{
		{"empty", Truncated, nil},
		{"size-39", BadHeader, resize(good.next(96, 104), 39)},
		{"first-cut", Truncated, []byte{0xc0, 200, 0}},
		{"next-cut", Truncated, []byte{0xe0, 200, 0, 1}},
		{"next-empty", BadLength, good.next(96, 96)},
		{"next-odd", BadLength, good.next(96, 103)},
		{"next-beyond-size", OffsetTooLarge, resize(good.next(96, 200), 199)},
		{"next-far-beyond", OffsetTooLarge, resize(good.next(96, 200), 96)},
		{"next-at-0", BadHeader, good.next(0, 96)},
		{"next-in-header", BadHeader, good.next(32, 96)},
		{"first-without-dispatch", Truncated, first("")},
		{"first-with-part-of-header", ShortChain, good.first(good.plain(), 0, 32)},
		{"first-odd", BadLength, good.first(good.plain(), 0, 95)},
		{"first-beyond-size", OffsetTooLarge, append(good.first(good.plain(), 0, 200), 0)},
		{"first-not-IPv6", BadHeader, version},
		{"first-with-another-length", BadHeader, resize(good.first(good.plain(), 0, 96), 208)},
		{"hc1", Unsupported, first("42 fb 0000")},
		{"iphc-cut", Truncated, first("7b")},
		{"iphc-source-context", Unsupported, first("7b53 3a 0000000000000000 00000000")},
		{"iphc-destination-context", Unsupported, first("7b35 3a 0000000000000000 0000")},
		{"iphc-multicast-context", Unsupported, first("7b3c 3a 000000000000 0000")},
		{"iphc-reserved-destination", BadHeader, first("7b34 3a 0000")},
		{"iphc-reserved-multicast", BadHeader, first("7b3d 3a 0000")},
		{"iphc-extension-header", Unsupported, first("7f33 e0 3a 04 000000000000")},
		{"iphc-no-next-header", Truncated, first("7f33")},
		{"iphc-udp-larger-than-size", BadHeader, append([]byte{0xc0, 47, 0, 1}, unhex("7f33f012341234123400000000")...)},
		{"mesh-cut", Truncated, []byte{0xbf, 1, 0, 1, 0}},
		{"broadcast-only", Truncated, []byte{0x50, 1}},
		{"not-a-frame", Whole, []byte{0x00, 1, 2, 3}},
		{"whole", Whole, good.packet},
		{"whole-compressed", Whole, unhex("7b333a8000")},
		{"recoverable-fragment", Whole, unhex("e80100600000000000")},
	} {
		b := tt.b
		t.Run("case="+tt.name, func(t *testing.T) {
			for _, adapt := range []func(*Config){nil, func(c *Config) { *c = LinuxConfig() }} {
				forEachLinkWay(t, adapt, func(t *testing.T, r *rig) {
					rs := r.sendPackets(slices.Clone(b))
					require.Equal(t, tt.want.String(), rs[0].Verdict.String())
					require.False(t, rs[0].HasProblem)
					require.Zero(t, r.held(0).Bytes)
				})
			}
		})
	}
	var f Fragment
	elided := first("7b33 3a 8000")
	require.Equal(t, BadHeader, Parser{}.LoWPAN(elided, linkA, LinkAddr{}, 0, &f), "made of an address that is not there")
}

// The largest datagram, the smallest, and those of one fragment.
func TestLoWPANSizes(t *testing.T) {
	forEachLinkWay(t, nil, func(t *testing.T, r *rig) {
		for _, size := range []int{40, 41, 48, 104, 1280, 1281, 2040, 2047} { // Linux ends at 1280
			for _, n := range []int{8, 96, 1024, 2048} {
				frags := []frag{link(1, 0, min(max(n, 40), size), size)}
				for off := max(n, 40); off < size; off += n {
					frags = append(frags, link(1, off, min(n, size-off), size))
				}
				rs := r.send(frags...)
				last := rs[len(rs)-1]
				require.Equal(t, Complete, last.Verdict, "size %d, %d bytes each", size, n)
				require.Equal(t, len(frags), last.Datagram.Fragments())
				require.Equal(t, linkIPv6(size, 253, 0), last.Datagram.Bytes())
				r.release(last.Datagram)
			}
		}
		r.held(0)
	})
}

// RFC 4944 5.2: the addresses of a mesh header are those of the datagram.
func TestLoWPANMeshAddressesNameTheDatagram(t *testing.T) {
	forEachLinkWay(t, nil, func(t *testing.T, r *rig) {
		packet := linkIPv6(120, 59, 0)
		copy(packet[8:], unhex("fe80000000000000000000fffe001122"))
		copy(packet[24:], unhex("fe800000000000003302030405060708"))
		d := linkDatagram{packet, 5}
		first := d.first(unhex("7833 3b 3d"), 40, 96) // both addresses left out
		for _, mesh := range []string{"a5 1122 3102030405060708", "af0f 1122 3102030405060708", "a5 1122 3102030405060708 5077"} {
			rs := r.sendPackets(append(unhex(mesh), first...), append(unhex(mesh), d.next(96, 120)...))
			require.Equal(t, Complete, rs[1].Verdict)
			k := rs[1].Datagram.Key()
			require.Equal(t, ShortAddr(0x1122), k.LinkSrc())
			require.Equal(t, ExtendedAddr([8]byte{0x31, 2, 3, 4, 5, 6, 7, 8}), k.LinkDst())
			require.Equal(t, packet, rs[1].Datagram.Bytes())
			r.release(rs[1].Datagram)
		}
	})
}

// RFC 4944 5.3: 60 s from the first fragment that came. What is told is the
// beginning of the datagram, decompressed.
func TestLoWPANTimeout(t *testing.T) {
	const size = 200
	var first [][]byte
	adapt := func(c *Config) {
		c.MaxAge = 0
		c.OnExpire = func(e *Expired) { first = append(first, slices.Clone(e.First)) }
	}
	forEachLinkWay(t, adapt, func(t *testing.T, r *rig) {
		first = nil
		packet := linkIPv6(size, 59, 0)
		d := linkDatagram{packet, 1}
		head, _, _ := compress(packet, linkA, linkB, func(n int) int { return n - 1 })
		r.sendPackets(d.next(96, 104))
		r.now += int64(20 * time.Second)
		r.sendPackets(d.first(head, 40, 96))
		r.one(Held, link(2, 0, 96, size))
		r.one(Held, link(3, 96, 96, size))
		if r.design == "adaptive" {
			r.step(time.Hour) // its timeouts depend on memory
		} else {
			r.step(40*time.Second - 1)
			require.Empty(t, first)
			r.held(3)
			r.step(1)
			require.Equal(t, [][]byte{packet[:96]}, first)
			r.held(2)
			r.step(20 * time.Second)
		}
		require.Len(t, first, 3)
		require.Contains(t, first, linkIPv6(size, 253, 0)[:96])
		require.Contains(t, first, []byte(nil))
		require.EqualValues(t, 3, r.held(0).Expired)
	})
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

func TestLoWPANKeyPrints(t *testing.T) {
	k := KeyLoWPAN(linkA, linkB, 7, 1280, 0xabcd)
	require.Equal(t, "020000fffe00000a > 0b0b tag 7 size 1280 domain 0xabcd", k.String())
	require.Equal(t, LoWPAN, k.Family())
	require.Equal(t, "none", k.link(0, 0).String())
	require.False(t, k.Src().IsValid())
	ip := Key4([4]byte{1, 2, 3, 4}, [4]byte{5, 6, 7, 8}, 9, 17, 0)
	require.Equal(t, LinkAddr{}, ip.LinkSrc())
	require.Equal(t, "1.2.3.4 > 5.6.7.8 id 9 proto 17", ip.String())
	ip = Key6([16]byte{15: 1}, [16]byte{15: 2}, 9, 0)
	require.Equal(t, "::1 > ::2 id 9", ip.String())
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
	if raceEnabled {
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
			require.Equal(t, 14, q.view.hint)
		}
	}
	r.held(1)
}
