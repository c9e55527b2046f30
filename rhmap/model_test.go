package rhmap

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// An op list is run on a dict and on a plain map, and they must agree on every
// answer; every open walk is held to W1, W2 and W3.

type op struct {
	what byte
	key  uint64
}

const (
	opInsert = iota
	opLookup
	opRemove
	opWalk // begin walk key%walks anew
	opNext // and advance it
	opMove // move a few chains
	opGrow // begin a resize
	opShrink
	opReseed
	opLen
	opKinds
)

const walks = 3

// openWalk is what a walk owes.
type openWalk struct {
	w        dictWalk
	must     map[uint64]bool // present since Walk
	returned map[uint64]bool // in this stay
}

type reference struct {
	d     dict
	want  map[uint64]uint64
	walks [walks]*openWalk
	n     uint64
}

func (r *reference) apply(o op) error {
	want, present := r.want[o.key]
	switch o.what {
	case opInsert:
		r.n++
		v, inserted := r.d.insert(o.key, r.n)
		if inserted == present || !inserted && v != want {
			return fmt.Errorf("insert %d: %d %v, want %d %v", o.key, v, inserted, want, !present)
		}
		if inserted {
			r.want[o.key] = r.n
		}
	case opLookup:
		if v, ok := r.d.lookup(o.key); ok != present || v != want {
			return fmt.Errorf("lookup %d: %d %v, want %d %v", o.key, v, ok, want, present)
		}
	case opRemove:
		if v, ok := r.d.remove(o.key); ok != present || ok && v != want {
			return fmt.Errorf("remove %d: %d %v, want %d %v", o.key, v, ok, want, present)
		}
		delete(r.want, o.key)
		for _, w := range r.walks {
			if w != nil {
				delete(w.must, o.key)
				delete(w.returned, o.key)
			}
		}
	case opWalk:
		w := &openWalk{r.d.walk(), map[uint64]bool{}, map[uint64]bool{}}
		for k := range r.want {
			w.must[k] = true
		}
		r.walks[o.key%walks] = w
	case opNext:
		return r.step(int(o.key % walks))
	case opMove:
		r.d.core().advance(int(o.key%4) + 1)
	case opGrow, opShrink:
		r.d.core().forceResize(o.what == opGrow)
	case opReseed:
		r.d.core().forceReseed()
	case opLen:
		if n := r.d.core().count(); n != len(r.want) {
			return fmt.Errorf("R5: Len %d, want %d", n, len(r.want))
		}
	}
	return nil
}

func (r *reference) step(i int) error {
	w := r.walks[i]
	if w == nil {
		return nil
	}
	k, v, ok := w.w.next()
	if !ok {
		r.walks[i] = nil
		for k := range w.must {
			if !w.returned[k] {
				return fmt.Errorf("W1: key %d was there all the time and did not come", k)
			}
		}
		return nil
	}
	if w.returned[k] {
		return fmt.Errorf("W2: key %d came twice", k)
	}
	w.returned[k] = true
	if want, present := r.want[k]; !present || v != want {
		return fmt.Errorf("W3: walk returned %d=%d, want %d %v", k, v, want, present)
	}
	return nil
}

// finish ends all walks and checks the shape.
func (r *reference) finish() error {
	for i := range r.walks {
		for r.walks[i] != nil {
			if err := r.step(i); err != nil {
				return err
			}
		}
	}
	if err := r.apply(op{what: opWalk}); err != nil {
		return err
	}
	for r.walks[0] != nil {
		if err := r.step(0); err != nil {
			return err
		}
	}
	for k := range r.want {
		if err := r.apply(op{opLookup, k}); err != nil {
			return err
		}
	}
	return r.d.core().check()
}

func runOps(d dict, ops []op) error {
	r := &reference{d: d, want: map[uint64]uint64{}}
	for i, o := range ops {
		if err := r.apply(o); err != nil {
			return fmt.Errorf("op %d: %w", i, err)
		}
	}
	return r.finish()
}

func TestMatchesReference(t *testing.T) {
	for _, kind := range dicts {
		for _, hash := range hashNames {
			t.Run("impl="+kind+"/hash="+hash, func(t *testing.T) {
				rapid.Check(t, func(rt *rapid.T) {
					keys := rapid.SampledFrom([]uint64{4, 40, 400}).Draw(rt, "keys")
					gen := rapid.Custom(func(rt *rapid.T) op {
						return op{byte(rapid.IntRange(0, opKinds-1).Draw(rt, "what")), rapid.Uint64Range(0, keys-1).Draw(rt, "key")}
					})
					if err := runOps(newDict(kind, hash), rapid.SliceOfN(gen, 0, 400).Draw(rt, "ops")); err != nil {
						rt.Fatal(err)
					}
				})
			})
		}
	}
}

// Long random lists, in which the table grows, shrinks and reseeds by itself.
func TestMatchesReferenceInTheLongRun(t *testing.T) {
	for _, kind := range dicts {
		for _, hash := range hashNames {
			t.Run("impl="+kind+"/hash="+hash, func(t *testing.T) {
				t.Parallel()
				n, keys := 20_000, 2000
				if hash != "good" && hash != "ordered" {
					n, keys = 8_000, 400 // every operation passes long chains
				}
				if long {
					n *= 4
				}
				r := &reference{d: newDict(kind, hash), want: map[uint64]uint64{}}
				rnd := newRand(7)
				for i := range n {
					o := op{what: byte(rnd.IntN(opLen + 1)), key: rnd.Uint64N(uint64(keys))}
					if o.what >= opGrow && rnd.IntN(20) > 0 || o.what == opWalk && rnd.IntN(40) > 0 {
						// Mostly writes, in waves: more inserts, then more removals.
						o.what = opInsert
						if i/3000%2 == 1 {
							o.what = opRemove
						}
					}
					if err := r.apply(o); err != nil {
						t.Fatal("op", i, err)
					}
				}
				require.NoError(t, r.finish())
			})
		}
	}
}

func FuzzOps(f *testing.F) {
	f.Add(byte(0), []byte{0, 1, 0, 2, 3, 0, 6, 0, 4, 0, 5, 1, 4, 0})
	f.Add(byte(7), []byte{0, 1, 0, 17, 0, 33, 3, 0, 8, 0, 4, 0, 2, 1, 0, 2, 5, 1, 4, 0, 4, 0})
	f.Fuzz(func(t *testing.T, setup byte, data []byte) {
		kind := dicts[int(setup)%len(dicts)]
		hash := hashNames[int(setup)/len(dicts)%len(hashNames)]
		var ops []op
		for ; len(data) >= 2 && len(ops) < 2000; data = data[2:] {
			ops = append(ops, op{data[0] % opKinds, uint64(data[1])})
		}
		if err := runOps(newDict(kind, hash), ops); err != nil {
			t.Fatal(kind, hash, err)
		}
	})
}
