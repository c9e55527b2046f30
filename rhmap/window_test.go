package rhmap

import (
	"fmt"
	"sync/atomic"
	"testing"
	"unsafe"

	"corelane/internal/yield"

	"github.com/stretchr/testify/require"
)

// Each test parks one goroutine in a window that a comment argues about, lets
// the worst happen, and goes on. They need -tags invariants.

// parkIn runs f on a goroutine of its own and returns when it is in the window,
// for the first time. resume lets it go on and waits for its end.
func parkIn(t *testing.T, window string, f func()) (resume func()) {
	t.Helper()
	return parkInNth(t, window, 1, f)
}

// parkInNth is parkIn for the n-th time it is in the window.
func parkInNth(t *testing.T, window string, n int64, f func()) (resume func()) {
	t.Helper()
	if !yield.Enabled {
		t.Skip("windows are compiled out; run with -tags invariants")
	}
	var visits atomic.Int64
	inside, release, done := make(chan bool), make(chan bool), make(chan bool)
	restore := yield.On(window, func() {
		if visits.Add(1) == n {
			close(inside)
			<-release
		}
	})
	go func() {
		defer close(done)
		f()
	}()
	<-inside
	return func() {
		close(release)
		<-done
		restore()
	}
}

// A reader has the node in hand when it is removed, and inserted with another
// key, or with the same one again.
func TestWindowReaderHoldsARecycledNode(t *testing.T) {
	for _, again := range []uint64{1, 2} {
		d := newDict("table", "constant").(*tableDict)
		d.insert(1, 10)
		var ref Ref[item]
		// The first candidate is read without a window: a chain retired before
		// sends the reader to search, which has one.
		d.t.forceReseed()
		settleAll(&d.t.core)
		v := d.t.cur.Load()
		resume := parkIn(t, "rhmap.read", func() { ref = d.t.search(v, hashes["constant"](Seed{}, 1), &word1{1}) })
		d.remove(1)
		d.insert(again, 20)
		resume()
		if again == 1 {
			require.True(t, ref.Ok(), "the key is there, in another life")
			require.True(t, d.t.Live(ref))
		} else {
			require.False(t, ref.Ok(), "the node has another key now")
		}
	}
}

// HM-W7, HM-W8: the walker has chosen a chain when the table moves away from
// under it, in every way.
func TestWindowWalkerBeforeItReadsTheChain(t *testing.T) {
	moves := map[string]func(c *core){
		"grow":   func(c *core) { c.forceResize(true); settleAll(c) },
		"shrink": func(c *core) { c.forceResize(false); settleAll(c) },
		"reseed": func(c *core) { c.forceReseed(); settleAll(c) },
		"all": func(c *core) {
			for range 2 {
				c.forceResize(true)
				settleAll(c)
				c.forceReseed()
				settleAll(c)
				c.forceResize(false)
				settleAll(c)
			}
		},
	}
	for _, kind := range dicts {
		for name, move := range moves {
			t.Run("impl="+kind+"/move="+name, func(t *testing.T) {
				d := fillDict(kind, "good", 300)
				w := d.walk()
				seen := map[uint64]int{}
				resume := parkIn(t, "rhmap.walk", func() {
					k, _, _ := w.next()
					seen[k]++
				})
				move(d.core())
				for k := range uint64(300) { // every node in another life, or another entry
					if k%3 == 0 {
						d.remove(k)
						d.insert(k+1000, k)
					}
				}
				resume()
				for k, n := range drain(w) {
					seen[k] += n
				}
				for k, n := range seen {
					require.LessOrEqual(t, n, 1, "key %d", k)
				}
				for k := range uint64(300) {
					want := 1
					if k%3 == 0 {
						want = 0
					}
					require.Equal(t, want, seen[k], "key %d", k)
				}
			})
		}
	}
}

// The walker is about to read a chain, which freezes; a node of it is removed and
// comes to a chain ahead, in a new life. It must come once, from there.
func TestWindowWalkerHoldsANodeThatMovesAhead(t *testing.T) {
	d := onOrdered("table", 4, 1).(*tableDict)
	w := d.t.Walk()
	// A walker looks a few chains ahead, but not for one chain at a time.
	var out [1]Ref[item]
	seen := map[uint64]int{}
	step := func() (more bool) {
		n, more := w.NextBatch(out[:], 1)
		if n > 0 && d.t.Live(out[0]) {
			seen[out[0].Node.key]++
		}
		return more
	}
	resume := parkIn(t, "rhmap.walk", func() { step() })
	v := d.core().cur.Load()
	d.core().forceReseed()
	nv := v.next.Load()
	d.core().move(v, nv, 0) // the first chain only
	d.remove(1)
	// The same node, in a chain that still rules, for its inserter was late.
	b := v.bucket(4000 << 52)
	m, ok := d.core().lock(b)
	require.True(t, ok)
	it := d.get()
	it.key = 4000
	it.node.setKey(&word1{4000})
	p, _ := d.core().put(v, b, 4000<<52, m, -1, unsafe.Pointer(&it.node), chainLimit)
	it.node.gen.Add(1)
	d.core().unlock(b, p.meta)
	resume()
	for step() {
	}
	require.Equal(t, map[uint64]int{4000: 1}, seen)
}

// The walker is about to read the last bucket of a chain, after most of its
// elements, when that bucket is unlinked and used again: for the copies of those
// same elements, which they get when the chain moves. They must come once.
func TestWindowWalkerHoldsABucketOfTheCopy(t *testing.T) {
	for _, kind := range dicts {
		for _, what := range []string{"grow", "shrink", "reseed"} {
			for _, asleep := range []bool{false, true} {
				t.Run(fmt.Sprintf("impl=%s/move=%s/mover-asleep=%v", kind, what, asleep), func(t *testing.T) {
					const stable = 2 * slotsPer
					d := fillDict(kind, "constant", stable+1)
					c := d.core()
					settleAll(c)
					w := d.walk()
					seen := map[uint64]int{}
					resume := parkInNth(t, "rhmap.walk.link", 2, func() {
						k, _, _ := w.next()
						seen[k]++
					})
					d.remove(stable)
					move := func() {
						switch what {
						case "grow":
							c.forceResize(true)
						case "shrink":
							c.forceResize(false)
						default:
							c.forceReseed()
						}
						settleAll(c)
					}
					if asleep { // over the chain it has copied, before the mark
						last := c.cur.Load().index(hashes["constant"](Seed{}, 0))
						require.Zero(t, last, "the chain that moves first")
						wake := parkIn(t, "rhmap.moved", move)
						defer wake()
					} else {
						move()
					}
					resume()
					for k, n := range drain(w) {
						seen[k] += n
					}
					require.Len(t, seen, stable)
					for k, n := range seen {
						require.Equal(t, 1, n, "key %d", k)
					}
				})
			}
		}
	}
}

// A mover sleeps over a chain it has copied but not marked: everybody finds the
// keys where they were, and writers of other chains go on (R3).
func TestWindowMoverAsleepBeforeTheMark(t *testing.T) {
	for _, kind := range dicts {
		for _, what := range []string{"grow", "shrink", "reseed"} {
			t.Run("impl="+kind+"/move="+what, func(t *testing.T) {
				d := onOrdered(kind, 4)
				for k := range uint64(4096) {
					if k%256 < 2 {
						d.insert(k, k)
					}
				}
				c := d.core()
				resume := parkIn(t, "rhmap.moved", func() {
					switch what {
					case "grow":
						c.forceResize(true)
					case "shrink":
						c.forceResize(false)
					default:
						c.forceReseed()
					}
					c.advance(1)
				})
				for k := range uint64(4096) {
					_, ok := d.lookup(k)
					require.Equal(t, k%256 < 2, ok, "key %d", k)
				}
				var w dictWalk
				if what != "reseed" { // else Walk would finish the reseed, and wait
					w = d.walk()
				}
				for k := uint64(3000); k < 3010; k++ { // chain 11
					d.insert(k, k)
				}
				for i := range uint64(100) {
					d.insert(3500, i)
					d.remove(3500)
				}
				require.Equal(t, c.advance(1000), true, "the sleeper's chain is left")
				resume()
				settleAll(c)
				if w != nil {
					require.Equal(t, 32, stableOf(drain(w)))
				}
				require.NoError(t, c.check())
			})
		}
	}
}

func stableOf(seen map[uint64]int) (n int) {
	for k, times := range seen {
		if k%256 < 2 && times == 1 {
			n++
		}
	}
	return n
}

// The one who moved the last chain sleeps before it says so: nobody waits.
func TestWindowFinisherAsleep(t *testing.T) {
	for _, kind := range dicts {
		t.Run("impl="+kind, func(t *testing.T) {
			d := fillDict(kind, "good", 500)
			w := d.walk()
			resume := parkIn(t, "rhmap.finish", func() {
				d.core().forceResize(true)
				settleAll(d.core())
			})
			for k := range uint64(500) {
				_, ok := d.lookup(k)
				require.True(t, ok)
				if k%2 == 0 {
					d.remove(k)
				}
			}
			require.Len(t, drain(w), 250)
			resume()
			require.NoError(t, d.core().check())
			require.True(t, d.core().forceResize(true), "the next resize can begin")
		})
	}
}

// A node is found from the instant its life begins, and not found from the
// instant it ends, whatever the slot shows (R1, W3).
func TestWindowBirthAndDeath(t *testing.T) {
	d := newDict("table", "good").(*tableDict)
	resume := parkIn(t, "rhmap.born", func() { d.insert(1, 1) })
	_, ok := d.lookup(1)
	require.False(t, ok, "not born yet")
	require.Empty(t, drain(d.walk()))
	resume()
	_, ok = d.lookup(1)
	require.True(t, ok)
	w := d.walk()
	resume = parkIn(t, "rhmap.dead", func() { d.t.Remove(d.t.Lookup(&word1{1})) })
	require.False(t, d.t.Lookup(&word1{1}).Ok(), "dead already")
	require.Empty(t, drain(w))
	resume()
	require.Zero(t, d.t.Len())
}

// A slot is reserved by its tag before it shows the entry: readers that see the
// tag find nothing in it.
func TestWindowReservedSlot(t *testing.T) {
	for _, kind := range dicts {
		t.Run("impl="+kind, func(t *testing.T) {
			d := newDict(kind, "constant")
			resume := parkIn(t, "rhmap.put", func() { d.insert(1, 1) })
			_, ok := d.lookup(1)
			require.False(t, ok)
			require.Empty(t, drain(d.walk()))
			resume()
			_, ok = d.lookup(1)
			require.True(t, ok)
		})
	}
}
