package reasm

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The public catalogue of reassembly bugs, entry by entry: each is a case in
// bugcases_test.go, or a test elsewhere, or cannot apply here.

// catalogue is every entry, RE- in front left out.
const catalogue = `
L1 L2 L3 L4 L5 L6 L7 L8 L9 L10 L11 L12 L13 L14 L15 L16 L17 L18 L19 L20 L21 L22 L23 L24 L25 L26 L27
G1 G2 G4 G5 G6 G7 G8 G9 G10 G11 G12 G13 G14
P1 P2 P3 P4 P5 P6 P9 P10 P11 P12
D1 D2 D3 D4 D5 D6 D7 D8 D9 D10 D11 D12 D13
V1 V2 V3 V4 V5 V6 V7 V8 V10 V12 V13 V14 V15 V16 V17
S2 S3 S4 S5 S6 S7 S8 S10 S11 S13 S15 S16 S17 S18 S19 S20
O1 O3 O4 O5 O6 O7 O8 O9 O10 O11 O13 O14 O15 O16 O18 O19 O20 O21 O22 O24 O25 O26 O27 O28 O29 O30 O31 O32 O34 O35`

// bugTests are the entries that a test of their own, or a rule of every design,
// replays.
var bugTests = map[string]string{
	"L2":  "TestDeadQueuesDoNotStopAnEvictingDesign",
	"L3":  "TestDeadQueuesDoNotStopAnEvictingDesign",
	"L5":  "TestNumberOfFragmentsIsNotLimited",
	"L7":  "TestStressReasmSharedDatagrams",
	"L9":  "TestChargeFollowsBuffersThatMove",
	"L10": "TestHookMayRewriteTheFirstFragment",
	"L16": "TestCollidingKeysStayApart",
	"L17": "TestConcurrentClose",
	"L18": "TestBuffersComeBackAtOnce",
	"L19": "TestConcurrentReleases",
	"L20": "TestConcurrentCompletionAndExpiry",
	"L21": "TestMaxDistRestarts",
	"L24": "TestEndFromDuplicate",
	"L25": "TestDuplicatesAndOverlapsDependOnOrder",
	"L26": "TestMaxAgeStartsAnew",
	"L27": "TestHeadersLongerThanTheHeadroom",
	"G1":  "TestLanesShareDatagramsAndTheLimit",
	"G2":  "TestLanesShareDatagramsAndTheLimit",
	"G5":  "TestKeysDoNotMix",
	"G6":  "TestLanesShareDatagramsAndTheLimit",
	"G8":  "TestTimeoutRunsFromTheFirstFragment",
	"G9":  "TestConcurrentClose",
	"G10": "TestClose",
	"G11": "TestDatagramOutlivesEverything",
	"G12": "TestDefaultChargeIsWhatIsPinned",
	"G14": "TestExpiryQuotesTheFirstFragment",
	"P11": "TestConcurrentLastFragmentsCompleteOnce",
	"P12": "TestDatagramIsDeliveredOnce",
	"D10": "TestDefaultHashIsKeyed",
	"D12": "TestTimeoutRunsFromTheFirstFragment",
	"D13": "TestBuffersComeBackAtOnce",
	"V7":  "TestConcurrentCreatorsShareOneQueue",
	"V8":  "TestConcurrentCompletionAndExpiry",
	"V10": "TestEvictionOrderOfGlobalLRU",
	"V14": "TestJumpExpiresInBatches",
	"S2":  "TestCollidingKeysStayApart",
	"S3":  "TestResultThatIsAFragmentIsAddedAgain",
	"S4":  "TestBytesIsTheSumOfTheCharges",
	"S13": "TestDomainsDoNotMix",
	"S16": "TestDefaultHashIsKeyed",
	"S17": "TestConcurrentLastFragmentsCompleteOnce",
	"S20": "TestSetLimitsRefusesNonsenseAndKeepsTheOld",
	"L22": "TestLoWPANCompletesInEveryOrder",
	"O3":  "TestLanesDoNotWaitForEachOther",
	"O4":  "TestEveryQueueEndsOnce",
	"O5":  "TestHardLimitRefusesTheCompletingFragment",
	"O6":  "TestClose",
	"O13": "TestStressReasmSharedDatagrams",
	"O20": "TestConcurrentCompletionAndExpiry",
	"O21": "TestMaxAgeStartsAnew",
	"O24": "TestDeadlineIsExactWithoutStep",
	"O28": "TestJumpExpiresInBatches",
	"O32": "TestMaxAgeStartsAnew",
}

// bugsElsewhere cannot apply to this package, and why.
var bugsElsewhere = map[string]string{
	"L1":  "a table rebuilt as a whole stalls: rhmap resizes in bounded steps, and its own tests measure that; the chained designs have a table of fixed size, as the mails had",
	"L12": "routes: the library has none; the host that sends the error looks its route up then",
	"G13": "tiny fragments are legal and refusing them broke real traffic (L4); what they cost is bounded by TestNumberOfFragmentsIsNotLimited",
	"V5":  "a limit of fragments per datagram refuses real traffic (O31, O35); a long chain costs constant time for each",
	"V16": "two stages sharing metadata of one packet: a Fragment belongs to one call, a Datagram to one caller",
	"O25": "which datagram to give up is what the designs differ in; each file names its victim",
	"O27": "a victim found by scanning: no design of this package scans more than the chains or lists its mail says",
}

func TestPublicBugs(t *testing.T) {
	for _, b := range bugCases {
		t.Run("RE="+strings.ReplaceAll(b.ids, " ", ","), func(t *testing.T) {
			t.Log(b.what)
			forEachWay(t, func(c *Config) { c.Timeout6 = c.Timeout4 }, func(t *testing.T, r *rig) {
				if b.family != 0 && b.family != r.family {
					return
				}
				frags := slices.Clone(b.frags)
				for i := range frags {
					if frags[i].Src == "?" { // another host
						frags[i].Src = map[int]string{4: "10.9.1.77", 6: "fd09::77"}[r.family]
					}
				}
				rs := r.send(frags...)
				require.Equal(t, strings.Fields(b.want), strings.Fields(strings.Trim(verdictString(rs), "[]")))
				r.held(b.held)
				if b.check != nil {
					b.check(t, r, rs)
				}
				data := b.data
				for i := range rs {
					if rs[i].Datagram != nil && len(data) > 0 {
						r.payload(rs[i].Datagram, data[0]...)
						data = data[1:]
					}
				}
				require.Empty(t, data, "datagrams that did not come")
			})
		})
	}
}

// Every entry is somewhere, once; the tests that are named exist.
func TestCatalogueIsComplete(t *testing.T) {
	tests := map[string]bool{}
	for _, dir := range []string{".", "../stress"} {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		require.NoError(t, err)
		for _, file := range files {
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok {
					tests[fn.Name.Name] = true
				}
			}
		}
	}
	where := map[string]int{}
	for _, b := range bugCases {
		for _, id := range strings.Fields(b.ids) {
			where[id]++
		}
	}
	for id, name := range bugTests {
		where[id]++
		require.True(t, tests[name], "RE-%s: no test is called %s", id, name)
	}
	for id, why := range bugsElsewhere {
		where[id]++
		require.NotEmpty(t, why)
	}
	for _, id := range strings.Fields(catalogue) {
		require.Equal(t, 1, where[id], "RE-%s", id)
		delete(where, id)
	}
	require.Empty(t, where, "entries that the catalogue does not have")
}

// RE-L2, RE-L3: the cache is full of datagrams that lost a fragment. An LRU goes
// on at once; hard-limit, which is what the mails complain of, waits for their
// timeout.
func TestDeadQueuesDoNotStopAnEvictingDesign(t *testing.T) {
	adapt := func(c *Config) {
		flat(c)
		c.Limits = Limits{High: 10_000, Low: 8_000}
		c.Timeout6 = c.Timeout4
	}
	forEachWay(t, adapt, func(t *testing.T, r *rig) {
		for id := range uint32(200) {
			r.send(piece(id, 0, 8, true), piece(id, 16, 8, false)) // the middle is lost
			r.now += int64(time.Millisecond)
		}
		try := func() (done int) {
			for id := range uint32(20) {
				for _, res := range r.send(row(1000+id, 3, 8)...) {
					if res.Datagram != nil {
						done++
						r.release(res.Datagram)
					}
				}
			}
			return done
		}
		switch r.design {
		case "hard-limit":
			require.Zero(t, try())
		case "global-lru", "percpu-lru":
			require.Equal(t, 20, try())
		}
		r.step(time.Minute)
		require.Equal(t, 20, try(), "after the timeout")
	})
}

// RE-L10: whoever answers may need the packet for itself.
func TestHookMayRewriteTheFirstFragment(t *testing.T) {
	adapt := func(c *Config) {
		c.OnExpire = func(e *Expired) { scribble(e.First) }
	}
	forEachWay(t, adapt, func(t *testing.T, r *rig) {
		for range 3 {
			r.verdicts([]Verdict{Held, Held}, piece(1, 0, 16, true), piece(1, 24, 8, false))
			r.step(time.Hour)
			rs := r.verdicts([]Verdict{Held, Held, Complete}, row(1, 3, 8)...)
			r.payload(rs[2].Datagram, [3]int{0, 0, 24})
		}
	})
}

// RE-L16, RE-S2: keys that collide, of both families, cost time but nothing else.
func TestCollidingKeysStayApart(t *testing.T) {
	for _, w := range waysOnce() {
		t.Run(w.String(), func(t *testing.T) {
			r := newRig(t, w, func(c *Config) { c.Hash = func(*Key) uint64 { return 42 } })
			const n = 60
			for id := range uint32(n) {
				for _, r.family = range []int{4, 6} {
					r.one(Held, piece(id, 0, 8, true).of(int(id)+r.family))
				}
			}
			r.held(2 * n)
			for id := range uint32(n) {
				for _, r.family = range []int{6, 4} {
					fill := int(id) + r.family
					res := r.one(Complete, piece(id, 8, 8, false).of(fill))
					r.payload(res.Datagram, [3]int{fill, 0, 16})
				}
			}
			r.held(0)
		})
	}
}

// RE-D10, RE-S16: every cache has a hash key of its own, and all of a key counts.
func TestDefaultHashIsKeyed(t *testing.T) {
	a, b := keyedHash(), keyedHash()
	equal, chains := 0, map[uint64]int{}
	for id := range uint16(4096) {
		k := Key4([4]byte{10, 0, 0, 1}, [4]byte{10, 0, 0, 2}, id, 17, 0)
		if a(&k) == b(&k) {
			equal++
		}
		require.Equal(t, a(&k), a(&k))
		chains[a(&k)%1024]++
	}
	require.LessOrEqual(t, equal, 1)
	for _, n := range chains {
		require.Less(t, n, 30, "4 on average")
	}
}

// A key differs from another one in any bit of it. This was wrong once: ^ and |
// have the same precedence in Go.
func TestKeyEqualSeesEveryBit(t *testing.T) {
	words := []func(*Key) *uint64{
		func(k *Key) *uint64 { return &k.SrcHi }, func(k *Key) *uint64 { return &k.SrcLo },
		func(k *Key) *uint64 { return &k.DstHi }, func(k *Key) *uint64 { return &k.DstLo },
		func(k *Key) *uint64 { return &k.Domain }, func(k *Key) *uint64 { return &k.tag },
	}
	for _, fill := range []uint64{0, ^uint64(0), 0x0123456789abcdef} {
		base := Key{fill, fill, fill, fill, fill, fill}
		same := base
		require.True(t, base.equal(&same))
		for _, word := range words {
			for bit := range 64 {
				other := base
				*word(&other) ^= 1 << bit
				require.False(t, base.equal(&other))
				require.False(t, other.equal(&base))
			}
		}
	}
}

// RE-G1, RE-G2: the first fragment is steered to another lane than the rest;
// RE-G6: one limit for all of them.
func TestLanesShareDatagramsAndTheLimit(t *testing.T) {
	adapt := func(c *Config) {
		flat(c)
		c.Lanes = 4
		c.Limits = Limits{High: 4400, Low: 4400}
	}
	forEachWay(t, adapt, func(t *testing.T, r *rig) {
		for id := range uint32(8) {
			for i, f := range row(id, 4, 8) {
				r.lane = r.cache.Lane((int(id) + i) % 4)
				res := r.send(f)[0]
				require.Equal(t, i == 3, res.Verdict == Complete)
				if i == 3 {
					r.payload(res.Datagram, [3]int{0, 0, 32})
				}
			}
		}
		for id := range uint32(100) {
			r.lane = r.cache.Lane(int(id) % 4)
			r.send(piece(id, 0, 8, true))
		}
		if r.design == "global-lru" || r.design == "hard-limit" {
			require.LessOrEqual(t, r.cache.Stats().Bytes, int64(4400+110))
		}
	})
}

// RE-G11: what was delivered belongs to the caller, whatever becomes of the cache.
func TestDatagramOutlivesEverything(t *testing.T) {
	forEachWay(t, nil, func(t *testing.T, r *rig) {
		d := r.send(piece(1, 8, 8, false), piece(1, 0, 8, true))[1].Datagram
		for id := range uint32(500) { // what could take its memory
			for _, res := range r.send(row(id, 3, 64)...) {
				if res.Datagram != nil {
					r.release(res.Datagram)
				}
			}
		}
		r.step(time.Hour)
		require.NoError(t, r.cache.Close())
		r.payload(d, [3]int{0, 0, 16})
	})
}

// RE-S3: a tunnel's datagram holds a fragment; it is added while the outer one is
// out, on the same lane.
func TestResultThatIsAFragmentIsAddedAgain(t *testing.T) {
	forEachWay(t, nil, func(t *testing.T, r *rig) {
		var (
			inner [][]byte
			outer *Datagram
		)
		for _, f := range []frag{piece(0x850, 0, 24, true), piece(0x850, 24, 8, false)} {
			f.Src = map[int]string{4: "10.9.1.77", 6: "fd09::77"}[r.family]
			inner = append(inner, f.of(5).packet(r.family, 0))
		}
		for i, packet := range inner {
			half := len(packet) / 16 * 8
			a := frag{ID: 0x850, Proto: 4, Len: half, MF: true}
			b := frag{ID: 0x850, Proto: 4, Off: half, Len: len(packet) - half}
			ab := [][]byte{a.packet(r.family, 0), b.packet(r.family, 0)}
			copy(ab[0][len(ab[0])-half:], packet)
			copy(ab[1][len(ab[1])-(len(packet)-half):], packet[half:])
			rs := r.sendPackets(ab...)
			require.Equal(t, Complete, rs[1].Verdict)
			d := rs[1].Datagram
			got := append([]byte(nil), d.Bytes()[len(d.Header()):]...)
			require.Equal(t, packet, got)
			res := r.sendPackets(got)[0]
			if i == 0 {
				require.Equal(t, Held, res.Verdict)
				outer = d
				continue
			}
			require.Equal(t, Complete, res.Verdict)
			r.payload(res.Datagram, [3]int{5, 0, 32})
			r.release(d)
			r.release(outer)
		}
	})
}
