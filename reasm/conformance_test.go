package reasm

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"corelane/internal/vectors"
)

// The rules that every design obeys, whatever it does when memory is full. Each
// test runs on every design, in Copy and Borrow, with Add and AddBatch, and the
// rig's cleanup checks the books.

func TestCompletesInEveryOrder(t *testing.T) {
	parts := []frag{piece(1, 0, 8, true), piece(1, 8, 24, true), piece(1, 32, 8, true), piece(1, 40, 3, false)}
	forEachWay(t, nil, func(t *testing.T, r *rig) {
		permute(parts, func(order []frag) {
			r.now++
			rs := r.verdicts([]Verdict{Held, Held, Held, Complete}, order...)
			d := rs[3].Datagram
			require.Equal(t, 4, d.Fragments())
			require.Equal(t, r.now, d.Created())
			require.Equal(t, r.now, d.Completed())
			k := d.Key()
			require.EqualValues(t, 1, k.ID())
			r.payload(d, [3]int{0, 0, 43})
			r.held(0)
		})
	})
}

// permute calls fn with every order of parts.
func permute(parts []frag, fn func([]frag)) {
	var rec func(n int)
	order := append([]frag(nil), parts...)
	rec = func(n int) {
		if n == 1 {
			fn(append([]frag(nil), order...))
			return
		}
		for i := range n {
			rec(n - 1)
			if n%2 == 0 {
				order[i], order[n-1] = order[n-1], order[i]
			} else {
				order[0], order[n-1] = order[n-1], order[0]
			}
		}
	}
	rec(len(order))
}

// Q1: each packet moves one verdict's counter by one; nothing panics.
func TestEveryPacketIsCountedOnce(t *testing.T) {
	forEachWay(t, nil, func(t *testing.T, r *rig) {
		good := piece(1, 0, 8, true).of(0).packet(r.family, 0)
		packets := [][]byte{{}, {0x45}, {0x60}, {0xff, 1, 2}, make([]byte, 40), good[:len(good)-1], good}
		for n := range len(good) {
			packets = append(packets, append([]byte(nil), good[:n]...))
		}
		for i := range len(good) {
			b := append([]byte(nil), good...)
			b[i] ^= 0xff
			packets = append(packets, b)
		}
		for _, f := range []frag{
			piece(2, 8, 0, false), piece(2, 0, 0, true), piece(2, 0, 16, false), piece(2, 65528, 100, true), piece(2, 0, 9, true),
			piece(3, 0, 16, true), piece(3, 8, 16, true), piece(4, 8, 8, false), piece(4, 16, 8, false),
		} {
			packets = append(packets, f.of(0).packet(r.family, 0))
		}
		for _, b := range packets {
			before := r.cache.Stats()
			rs := r.sendPackets(b)
			after := r.cache.Stats()
			for v := range after.Verdicts {
				want := before.Verdicts[v]
				if Verdict(v) == rs[0].Verdict {
					want++
				}
				require.Equal(t, want, after.Verdicts[v], "%v after a packet that was %v", Verdict(v), rs[0].Verdict)
			}
		}
	})
}

// Q2: what cannot be right leaves nothing behind.
func TestRefusedFragmentsCostNoState(t *testing.T) {
	forEachWay(t, nil, func(t *testing.T, r *rig) {
		for _, f := range []frag{
			{ID: 1, Off: 8},                               // no payload
			{ID: 1, MF: true},                             // none at offset 0
			{ID: 1, Len: 8, MF: true, Cut: 1},             // truncated
			{ID: 1, Len: 7, MF: true},                     // cut to nothing in IPv4, no multiple of 8 in IPv6
			{ID: 1, Len: 16},                              // whole, or atomic
			{ID: 1, Len: 8, MF: true, Length: 4},          // length below the header, or no room
			{ID: 1, Len: 8, Off: 8, MF: true, Cut: 8 + 8}, // not even its header
		} {
			rs := r.send(f)
			require.False(t, rs[0].Verdict.Kept())
			s := r.held(0)
			require.Zero(t, s.Bytes)
		}
		if r.family == 6 {
			r.one(OffsetTooLarge, piece(1, 65528, 16, true))
			r.one(BadLength, piece(1, 8, 9, true))
			r.one(ShortChain, frag{ID: 1, Len: 16, MF: true, Proto: 6})
			require.Zero(t, r.held(0).Bytes)
		}
	})
}

// Q3: late copies never make a second datagram out of one.
func TestDatagramIsDeliveredOnce(t *testing.T) {
	forEachWay(t, nil, func(t *testing.T, r *rig) {
		a, b := piece(1, 0, 16, true), piece(1, 16, 5, false)
		rs := r.verdicts([]Verdict{Held, Duplicate, Complete, Held, Duplicate}, a, a, b, b, b)
		r.payload(rs[2].Datagram, [3]int{0, 0, 21})
		r.held(1)
		r.step(time.Minute)
		r.held(0)
	})
}

// Q3: of two copies with other bytes, the first one counts.
func TestFirstCopyWins(t *testing.T) {
	forEachWay(t, nil, func(t *testing.T, r *rig) {
		rs := r.verdicts([]Verdict{Held, Duplicate, Duplicate, Complete},
			piece(1, 0, 24, true).of(1), piece(1, 0, 24, true).of(2), piece(1, 8, 8, true).of(3), piece(1, 24, 8, false).of(4))
		r.payload(rs[3].Datagram, [3]int{1, 0, 24}, [3]int{4, 24, 32})
	})
}

// Q4: the kernel's runs, whose borders depend on the order of arrival (RE-L25).
func TestDuplicatesAndOverlapsDependOnOrder(t *testing.T) {
	forEachWay(t, nil, func(t *testing.T, r *rig) {
		// Superset first: the inner one is a duplicate. Inner one first: overlap.
		rs := r.verdicts([]Verdict{Held, Duplicate, Held, Complete},
			piece(1, 0, 1000, true), piece(1, 512, 256, true), piece(1, 1000, 1000, true), piece(1, 2000, 1000, false))
		r.payload(rs[3].Datagram, [3]int{0, 0, 3000})
		r.verdicts([]Verdict{Held, Overlap}, piece(2, 512, 256, true), piece(2, 0, 1000, true))
		r.held(0)
		// In order, three fragments are one run; backwards they are three.
		r.verdicts([]Verdict{Held, Held, Held, Duplicate},
			piece(3, 8, 8, true), piece(3, 16, 8, true), piece(3, 24, 8, true), piece(3, 8, 24, true))
		r.verdicts([]Verdict{Held, Held, Held, Overlap},
			piece(4, 24, 8, true), piece(4, 16, 8, true), piece(4, 8, 8, true), piece(4, 8, 24, true))
		r.held(1)
	})
}

// Q4: all ways to contradict the datagram's end.
func TestContradictedEndsDiscard(t *testing.T) {
	for _, tt := range []struct {
		name  string
		frags []frag
	}{
		{"second-end-longer", []frag{piece(1, 8, 8, false), piece(1, 16, 8, false)}},
		{"second-end-shorter", []frag{piece(1, 24, 8, false), piece(1, 8, 8, false)}},
		{"end-below-data", []frag{piece(1, 24, 8, true), piece(1, 8, 8, false)}},
		{"data-beyond-end", []frag{piece(1, 8, 8, false), piece(1, 16, 8, true)}},
		{"data-across-end", []frag{piece(1, 8, 8, false), piece(1, 8, 16, true)}},
	} {
		t.Run("case="+tt.name, func(t *testing.T) {
			forEachWay(t, nil, func(t *testing.T, r *rig) {
				r.verdicts([]Verdict{Held, BadEnd}, tt.frags...)
				r.held(0)
				// What follows starts anew.
				r.one(Held, tt.frags[0])
			})
		})
	}
}

// Q4: a last fragment that is a duplicate still tells where the end is, with the
// quirk that both configurations share (RE-L24).
func TestEndFromDuplicate(t *testing.T) {
	forEachWay(t, nil, func(t *testing.T, r *rig) {
		rs := r.verdicts([]Verdict{Held, Duplicate, Complete},
			piece(1, 8, 8, true), piece(1, 8, 8, false), piece(1, 0, 8, true))
		r.payload(rs[2].Datagram, [3]int{0, 0, 16})
		r.verdicts([]Verdict{Held, Duplicate, BadEnd},
			piece(2, 0, 16, true), piece(2, 8, 8, false), piece(2, 16, 8, false))
		r.held(0)
	})
	// Without the quirk a duplicate changes nothing.
	forEachWay(t, func(c *Config) { c.Quirks = Quirks{} }, func(t *testing.T, r *rig) {
		rs := r.verdicts([]Verdict{Held, Duplicate, Held, Complete},
			piece(1, 8, 8, true), piece(1, 8, 8, false), piece(1, 0, 8, true), piece(1, 16, 8, false))
		r.payload(rs[3].Datagram, [3]int{0, 0, 24})
	})
}

// Datagrams that share anything but the whole key never mix (RE-G5, RE-D7).
func TestKeysDoNotMix(t *testing.T) {
	forEachWay(t, nil, func(t *testing.T, r *rig) {
		addrs := []string{"10.9.1.1", "10.9.1.2", "10.9.0.1", "11.9.1.1"}
		if r.family == 6 {
			addrs = []string{"fd09::1:1", "fd09::1:2", "fd09:0:0:1::1:1", "fe09::1:1"}
		}
		var heads, tails []frag
		for i, src := range addrs {
			for j, dst := range addrs {
				for id := range uint32(3) {
					for proto := 253; proto <= 254; proto++ {
						if proto == 254 && r.family == 6 {
							continue // not in the key of IPv6
						}
						fill := len(heads)
						head := frag{ID: id, Src: src, Dst: dst, Proto: proto, Len: 8 + 8*(i+j), MF: true}.of(fill)
						tail := head
						tail.Off, tail.MF = tail.Len, false
						heads, tails = append(heads, head), append(tails, tail)
					}
				}
			}
		}
		for i, res := range r.send(heads...) {
			require.Equal(t, Held, res.Verdict, "head %d", i)
		}
		r.held(len(heads))
		for i, res := range r.send(tails...) {
			require.Equal(t, Complete, res.Verdict, "tail %d", i)
			r.payload(res.Datagram, [3]int{i, 0, 2 * heads[i].Len})
		}
		r.held(0)
	})
}

// The caller's domain keeps equal addresses apart (VRF, VLAN, zone; RE-S13).
func TestDomainsDoNotMix(t *testing.T) {
	forEachWay(t, nil, func(t *testing.T, r *rig) {
		var f Fragment
		add := func(domain uint64, p frag) Result {
			b := p.of(0).packet(r.family, 0)
			r.parser.Parse(b, domain, &f)
			f.Ref = r.sent
			r.sent++
			res := r.lane.Add(r.now, &f)
			if r.mode == Borrow && res.Verdict.Kept() {
				r.kept[f.Ref] = b
			}
			return res
		}
		require.Equal(t, Held, add(1, piece(1, 0, 8, true)).Verdict)
		require.Equal(t, Held, add(1<<63, piece(1, 8, 8, false)).Verdict)
		require.Equal(t, Held, add(2, piece(1, 8, 8, false)).Verdict)
		res := add(1, piece(1, 8, 8, false))
		require.Equal(t, Complete, res.Verdict)
		k := res.Datagram.Key()
		require.EqualValues(t, 1, k.Domain)
		r.payload(res.Datagram, [3]int{0, 0, 16})
	})
}

// The header is the first fragment's, whenever it arrives; lengths, fragment
// fields, ECN and checksum are the datagram's.
func TestHeaderComesFromOffsetZero(t *testing.T) {
	forEachWay(t, nil, func(t *testing.T, r *rig) {
		first := frag{ID: 9, Len: 16, MF: true, TTL: 7, TOS: 0xb8 | 2}
		last := frag{ID: 9, Off: 16, Len: 4, TTL: 99, TOS: 0x20 | 3, Flow: 5}
		if r.family == 4 {
			last.Flow = 0
			first.Opt = "94040000"
			last.DF = true
		} else {
			first.Pre = []vectors.Ext{{NH: 60, Hex: "0000010400000000"}}
			first.Flow = 0x12345
		}
		for _, order := range [][]frag{{first, last}, {last, first}} {
			d := r.verdicts([]Verdict{Held, Complete}, order...)[1].Datagram
			h := d.Header()
			if r.family == 4 {
				require.Zero(t, checksum(h))
				h[10], h[11] = 0, 0
				require.Equal(t, vectors.Unhex("46bb002c000900000"+"7fd00000a0901010a09000194040000"), h)
				require.Equal(t, 24+16, d.MaxFragment())
			} else {
				want := "6bb12345001c3c07" + "fd090000000000000000000000010001" + "fd090000000000000000000000000001" + "fd00010400000000"
				require.Equal(t, vectors.Unhex(want), h)
				require.Equal(t, 40+8+8+16, d.MaxFragment())
			}
			r.release(d)
		}
	})
}

// RFC 3168 5.3: Not-ECT mixed with ECT or CE is a forgery, or broken.
func TestMixedECNDiscardsAtCompletion(t *testing.T) {
	forEachWay(t, nil, func(t *testing.T, r *rig) {
		a, b := piece(1, 0, 8, true), piece(1, 8, 8, false)
		b.TOS = 3
		r.verdicts([]Verdict{Held, BadECN}, a, b)
		r.held(0)
		rs := r.verdicts([]Verdict{Held, Complete}, a, piece(1, 8, 8, false))
		r.payload(rs[1].Datagram, [3]int{0, 0, 16})
	})
}

// The largest packets there can be, and the smallest that are too large.
func TestLargestDatagrams(t *testing.T) {
	forEachWay(t, nil, func(t *testing.T, r *rig) {
		room := 65535 - 20
		if r.family == 6 {
			room = 65535
		}
		const cut = 65488
		rs := r.verdicts([]Verdict{Held, Complete}, piece(1, 0, cut, true), piece(1, cut, room-cut, false))
		require.Equal(t, cut+20+(r.family-4)*14, rs[1].Datagram.MaxFragment(), "also beyond 16 bits, without the quirk")
		r.payload(rs[1].Datagram, [3]int{0, 0, room})
		if r.family == 6 {
			res := r.verdicts([]Verdict{Held, OffsetTooLarge}, piece(1, 0, cut, true), piece(1, cut, room-cut+1, false))
			require.Equal(t, Problem{Due: true, Code: 0, Pointer: 42}, res[1].Problem)
			r.held(1)
			return
		}
		r.verdicts([]Verdict{Held, TooLong}, piece(1, 0, cut, true), piece(1, cut, room-cut+1, false))
		r.held(0)
		// What reaches further is stored first, and never completes.
		r.verdicts([]Verdict{Held, Held, BadEnd}, piece(1, 65528, 65512, true), piece(1, 0, 65512, true), piece(1, 65512, 16, false))
		r.held(0)
	})
}

// 8190 fragments of 8 bytes, and every order that a list dislikes (RE-L5, RE-P3).
func TestNumberOfFragmentsIsNotLimited(t *testing.T) {
	orders := map[string]func(i, n int) int{
		"forward":  func(i, n int) int { return i },
		"backward": func(i, n int) int { return n - 1 - i },
		"odd-even": func(i, n int) int { return (2*i)%n + (2*i)/n*(1-n%2) },
		"stride":   func(i, n int) int { return i * 4099 % n },
	}
	for name, order := range orders {
		t.Run("order="+name, func(t *testing.T) {
			roomy := func(c *Config) { c.Limits = Limits{High: 16 << 20, Low: 12 << 20} }
			forEachWay(t, roomy, func(t *testing.T, r *rig) {
				n := 8188
				if r.family == 6 || r.design != Default {
					n = 516 // the same code
				}
				for i := range n {
					u := order(i, n)
					res := r.send(piece(1, u*8, 8, u < n-1))[0]
					if i < n-1 {
						require.Equal(t, Held, res.Verdict)
						continue
					}
					require.Equal(t, Complete, res.Verdict)
					require.Equal(t, n, res.Datagram.Fragments())
					r.payload(res.Datagram, [3]int{0, 0, n * 8})
				}
			})
		})
	}
}

// Whatever a configuration may say is kept, also where it is absurd: a datagram
// that fits completes, and one whose time is over does not.
func TestExtremeConfigurations(t *testing.T) {
	for name, adapt := range map[string]func(*Config){
		"limits=largest":   func(c *Config) { c.Limits = Limits{High: math.MaxInt64, Low: math.MaxInt64} },
		"limits=high":      func(c *Config) { c.Limits.High = math.MaxInt64 },
		"timeouts=longest": func(c *Config) { c.Timeout4, c.Timeout6, c.MaxAge = math.MaxInt64, math.MaxInt64, math.MaxInt64 },
		"dist=beyond-32":   func(c *Config) { c.MaxDist = math.MaxInt },
		"dist=2^32":        func(c *Config) { c.MaxDist = int(min(uint64(1)<<32, math.MaxInt)) },
		"lanes=most":       func(c *Config) { c.Lanes = maxLanes },
		"headroom=most":    func(c *Config) { c.Headroom = 1 << 12 },
		"quirks=all":       func(c *Config) { c.Quirks, c.MaxDist = linuxQuirks, 1 },
	} {
		t.Run(name, func(t *testing.T) {
			forEachWay(t, adapt, func(t *testing.T, r *rig) {
				for id := range uint32(3) {
					r.now += int64(time.Millisecond)
					r.verdicts([]Verdict{Held, Complete}, piece(id, 0, 8, true), piece(id, 8, 8, false))
					r.held(0)
				}
				r.verdicts([]Verdict{Held, Held}, piece(3, 0, 8, true), piece(3, 8, 8, true))
				require.NoError(t, r.cache.SetLimits(Limits{High: math.MaxInt64, Low: math.MaxInt64}))
				r.now = math.MaxInt64
				r.step(0)
				r.held(0)
			})
		})
	}
}
