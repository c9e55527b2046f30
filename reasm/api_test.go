package reasm

import (
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"corelane/internal/race"
	"corelane/internal/vectors"
)

func TestConfigErrorsCarryTheNumbers(t *testing.T) {
	for want, adapt := range map[string]func(*Config){
		"reasm: Lanes must be 1 to 4096, got 0":                   func(c *Config) { c.Lanes = 0 },
		"reasm: Lanes must be 1 to 4096, got 4097":                func(c *Config) { c.Lanes = 4097 },
		"reasm: limits need 0 <= Low <= High, got Low 2, High 1":  func(c *Config) { c.Limits = Limits{High: 1, Low: 2} },
		"reasm: limits need 0 <= Low <= High, got Low -2, High 1": func(c *Config) { c.Limits = Limits{High: 1, Low: -2} },
		"reasm: Timeout4 is negative: -1ns":                       func(c *Config) { c.Timeout4 = -1 },
		"reasm: Timeout6 is negative: -1s":                        func(c *Config) { c.Timeout6 = -time.Second },
		"reasm: MaxAge is negative: -1ns":                         func(c *Config) { c.MaxAge = -1 },
		"reasm: MaxDist is negative: -7":                          func(c *Config) { c.MaxDist = -7 },
		"reasm: Headroom must be 0 to 4096, got -1":               func(c *Config) { c.Headroom = -1 },
		"reasm: Headroom must be 0 to 4096, got 5000":             func(c *Config) { c.Headroom = 5000 },
		"reasm: no such Mode: 2":                                  func(c *Config) { c.Mode = 2 },
		"reasm: Borrow needs Config.Free":                         func(c *Config) { c.Mode = Borrow },
	} {
		for _, d := range Designs() {
			cfg := DefaultConfig()
			adapt(&cfg)
			c, err := New(d.Name, cfg)
			require.EqualError(t, err, want)
			require.Nil(t, c)
		}
	}
	_, err := New("leaky-bucket", DefaultConfig())
	require.EqualError(t, err, `reasm: no design is called "leaky-bucket"`)
}

func TestSmallestLegalConfig(t *testing.T) {
	for _, d := range Designs() {
		c, err := New(d.Name, Config{Lanes: 1, Limits: Limits{High: 1, Low: 1}})
		require.NoError(t, err)
		require.NoError(t, c.Close())
	}
}

func TestLanesOutOfRangePanic(t *testing.T) {
	for _, d := range Designs() {
		cfg := DefaultConfig()
		cfg.Lanes = 3
		c, err := New(d.Name, cfg)
		require.NoError(t, err)
		require.PanicsWithValue(t, "reasm: lane 3 of 3", func() { c.Lane(3) })
		require.PanicsWithValue(t, "reasm: lane -1 of 3", func() { c.Lane(-1) })
		require.NoError(t, c.Close())
	}
}

func TestDesignsAreListedOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, d := range Designs() {
		require.False(t, seen[d.Name])
		seen[d.Name] = true
		require.NotEmpty(t, d.Seed)
		require.NotEmpty(t, d.Idea)
	}
	require.True(t, seen[Default])
	ds := Designs()
	ds[0].Name = "changed"
	require.NotEqual(t, "changed", Designs()[0].Name, "the list is the caller's copy")
}

// A batch stops when either slice is used up, also at 0.
func TestAddBatchTakesWhatFits(t *testing.T) {
	for _, w := range ways() {
		if w.mode == Borrow || !w.batch {
			continue
		}
		t.Run(w.String(), func(t *testing.T) {
			r := newRig(t, w, nil)
			fs := make([]Fragment, 4)
			for i := range fs {
				r.parser.Parse(piece(1, 8*i, 8, i < 3).of(0).packet(w.family, 0), 0, &fs[i])
			}
			rs := make([]Result, 2)
			require.Zero(t, r.lane.AddBatch(r.now, nil, rs))
			require.Zero(t, r.lane.AddBatch(r.now, fs, nil))
			require.Equal(t, 2, r.lane.AddBatch(r.now, fs, rs))
			rs = []Result{{Verdict: Overlap, Losses: Losses{true, 7}}, {}, {}, {}}
			require.Equal(t, 2, r.lane.AddBatch(r.now, fs[2:], rs))
			require.Equal(t, Result{Verdict: Held}, rs[0], "nothing is left of what stood there")
			r.sent = 4
			r.payload(rs[1].Datagram, [3]int{0, 0, 32})
		})
	}
}

// Interleaved datagrams, and a batch that completes one twice.
func TestBatchOfManyDatagrams(t *testing.T) {
	forEachWay(t, nil, func(t *testing.T, r *rig) {
		rs := r.send(
			piece(1, 0, 8, true), piece(1, 8, 8, false), piece(1, 0, 8, true), piece(1, 8, 8, false),
			piece(2, 0, 8, true), piece(3, 0, 8, true), piece(2, 8, 8, false), piece(3, 8, 8, false),
			frag{Len: 8, Plain: true}, piece(4, 0, 8, true), frag{Len: 8, MF: true, Cut: 1}, piece(4, 8, 8, false))
		require.Equal(t, "[held complete held complete held held complete complete whole held truncated complete]", verdictString(rs))
		for i := range rs {
			if rs[i].Datagram != nil {
				r.payload(rs[i].Datagram, [3]int{0, 0, 16})
			}
		}
	})
}

// Prepend: room for the caller's headers, without a copy while they fit.
func TestPrependUsesTheHeadroom(t *testing.T) {
	forEachWay(t, func(c *Config) { c.Headroom = 20 }, func(t *testing.T, r *rig) {
		for _, n := range []int{0, 14, 20, 200, 5000} {
			rs := r.send(piece(1, 0, 8, true), piece(1, 8, 8, false))
			d := rs[1].Datagram
			all := append([]byte(nil), d.Bytes()...)
			b := d.Prepend(n)
			require.Equal(t, all, b[n:])
			for i := range n {
				b[i] = 0xee
			}
			require.Equal(t, all, d.Bytes(), "writing the headers changes nothing else")
			if r.mode == Copy && n <= 20 {
				b[n+len(all)-1] ^= 1
				require.NotEqual(t, all, d.Bytes(), "it is the datagram itself")
			}
			r.release(d)
		}
	})
}

// IPv6 headers longer than the room in front of the payload.
func TestHeadersLongerThanTheHeadroom(t *testing.T) {
	long := vectors.Ext{NH: 60, Hex: "00201eff" + fmt.Sprintf("%0510x", 0) + "1e03000000"}
	forEachWay(t, func(c *Config) { c.Headroom = 0 }, func(t *testing.T, r *rig) {
		if r.family == 4 {
			return
		}
		for _, reverse := range []bool{false, true} {
			parts := []frag{{ID: 1, Len: 16, MF: true, Pre: []vectors.Ext{long}}, {ID: 1, Off: 16, Len: 8, Pre: []vectors.Ext{long}}}
			if reverse {
				parts[0], parts[1] = parts[1], parts[0]
			}
			rs := r.verdicts([]Verdict{Held, Complete}, parts...)
			d := rs[1].Datagram
			require.Len(t, d.Header(), 40+264)
			require.EqualValues(t, 253, d.Header()[40])
			require.EqualValues(t, 60, d.Header()[6])
			r.payload(d, [3]int{0, 0, 24})
		}
		r.one(Held, frag{ID: 1, Len: 16, MF: true, Pre: []vectors.Ext{long}})
		r.step(time.Minute)
		require.Len(t, r.expired, 1)
	})
}

// Q11: nothing is allocated for a fragment, once the pools are warm.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection empties the pools
	for _, w := range ways() {
		for _, order := range []string{"forward", "backward"} {
			t.Run(w.String()+"/order="+order, func(t *testing.T) {
				cfg := DefaultConfig()
				cfg.Mode = w.mode
				cfg.Free = func([]Buffer) {}
				c, err := New(w.design, cfg)
				require.NoError(t, err)
				defer c.Close()
				const n = 44
				packets := make([][]byte, n)
				for i := range packets {
					u := i
					if order == "backward" {
						u = n - 1 - i
					}
					packets[i] = piece(1, u*1440, 1440, u < n-1).of(0).packet(w.family, 0)
				}
				var (
					lane   = c.Lane(0)
					parser Parser
					fs     = make([]Fragment, n)
					rs     = make([]Result, n)
					now    int64
				)
				allocs := testing.AllocsPerRun(100, func() {
					now += int64(time.Millisecond)
					for i := range packets {
						parser.Parse(packets[i], 0, &fs[i])
						if !w.batch {
							rs[i] = lane.Add(now, &fs[i])
						}
					}
					if w.batch {
						lane.AddBatch(now, fs, rs)
					}
					rs[n-1].Datagram.Release()
					c.Step(now, 100)
				})
				if !race.Enabled {
					require.Zero(t, allocs)
				}
			})
		}
	}
}

// Q12: the same calls give the same results.
func TestSameCallsGiveTheSameResults(t *testing.T) {
	for _, w := range ways() {
		t.Run(w.String(), func(t *testing.T) {
			run := func() (trace []string) {
				r := newRig(t, w, func(c *Config) {
					flat(c)
					c.Limits = Limits{High: 3000, Low: 2000}
					c.Hash = func(k *Key) uint64 { return k.tag*0x9e3779b97f4a7c15 ^ k.SrcLo }
					seed := rand.New(rand.NewPCG(1, 2))
					c.Rand = seed.Uint64
				})
				rng := rand.New(rand.NewPCG(7, 7))
				for range 600 {
					id := rng.Uint32N(100)
					res := r.send(piece(id, 8*rng.IntN(6), 8*rng.IntN(3)+8, rng.IntN(4) > 0))[0]
					trace = append(trace, fmt.Sprint(res.Verdict, res.Restarted, res.Evicted))
					if res.Datagram != nil {
						r.release(res.Datagram)
					}
					r.now += rng.Int64N(int64(20 * time.Millisecond))
					if rng.IntN(10) == 0 {
						r.cache.Step(r.now, 5)
					}
					for q := range r.cache.Walk() {
						trace = append(trace, q.Key.String())
						break
					}
				}
				return append(trace, fmt.Sprint(r.cache.Stats()))
			}
			require.Equal(t, run(), run())
		})
	}
}

// A Fragment is reused for every packet: what an earlier one left in it must not
// reach into a later, shorter one.
func TestPayloadOfAReusedFragmentOfAnyLength(t *testing.T) {
	var p Parser
	for name, parse := range map[string]func([]byte, *Fragment) Verdict{
		"family=4":      func(b []byte, f *Fragment) Verdict { return p.IPv4(b, 0, f) },
		"family=6":      func(b []byte, f *Fragment) Verdict { return p.IPv6(b, 0, f) },
		"family=lowpan": func(b []byte, f *Fragment) Verdict { return p.LoWPAN(b, linkA, linkB, 0, f) },
	} {
		packet := map[string][]byte{
			"family=4":      piece(1, 8, 8, true).of(0).packet(4, 0),
			"family=6":      piece(1, 8, 8, true).of(0).packet(6, 0),
			"family=lowpan": linkPacket(link(1, 48, 48, 96).of(0)),
		}[name]
		t.Run(name, func(t *testing.T) {
			for n := range packet {
				var f Fragment
				require.Equal(t, Held, parse(packet, &f))
				require.Len(t, f.Payload(), len(packet)-int(f.HeaderLen))
				if parse(packet[:n], &f) != Held {
					require.LessOrEqual(t, len(f.Payload()), n)
				}
			}
		})
	}
}
