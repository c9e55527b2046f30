package rhmap

import (
	"errors"
	"flag"
	"fmt"
	"testing"

	"corelane/internal/model"

	"github.com/stretchr/testify/require"
)

// The reuse rule, searched exhaustively: two nodes that are pooled, three keys,
// one mutator that removes and inserts as it likes, one mover, and either a
// reader or a walker. Every step below is one atomic access of the shipped code
// (or several that nobody can see in between). Tags match always: the worst case.
//
// Each clause of the protocol is then left out in turn, and the search must find
// what goes wrong: a clause that could be left out would be unproved, or idle.

// The search grows tenfold with each operation: 2 take seconds, 3 (15 million
// states) a minute, 4 take many; neither found anything more. With CORELANE_LONG
// set it begins with every table of protoStarts, else with three of them.
var protoOps = flag.Int("rhmap.ops", 2, "operations of the mutator in the protocol search")

const (
	protoNodes = 2
	protoKeys  = 3
)

// protoRules are the clauses that can be left out.
type protoRules struct {
	labels       bool // name the steps: it takes longer than taking them
	reseed       bool // the mover reseeds; otherwise it grows from two chains to three
	reverse      bool // the mover begins with the last chain
	oneNode      bool // the mutator has one node only: a smaller search
	lifeEarly    bool // broken: the life begins before the slot shows the node
	deathLate    bool // broken: the slot is cleared before the life ends
	noLifeCheck  bool // broken: readers do not read the life a second time
	noLastCheck  bool // broken: walkers do not read the life again after the key
	noSlotCheck  bool // broken: walkers do not read the slot a second time
	noRangeCheck bool // broken: walkers do not check the hash of the key, retired chain or not
	clearOld     bool // broken: the mover clears the slots of the old chain
	readOld      bool // broken: a reader searches a chain that was retired before it came
}

type chain struct {
	tag    [2]bool
	slot   [2]uint8 // node + 1
	gone   bool
	locked bool
}

// proto is one state: shared memory, actors, and ghosts that only check reads.
type proto struct {
	rules protoRules // constant

	ch  [2][3]chain // version, chain
	gen [protoNodes]uint8
	key [protoNodes]uint8

	// Mutator.
	mpc, mnode, mkey, mver, mchain, mslot uint8
	ops                                   uint8 // left

	// Mover: chain, entry, and what it holds.
	vpc, vchain, vslot, vdst, vdslot uint8

	// Reader or walker.
	walks, direct                  bool // direct: a walk returns what it has found at once, as NextBatch does
	rpc, rkey, rver, rchain, rslot uint8
	rtag                           [2]bool
	rnode, rgen                    uint8
	rent, rlife                    [2]uint8 // the walker's: node + 1, life, of each slot
	pos, end                       uint8
	buf                            [4]uint8 // node<<4 | gen
	nbuf                           uint8
	found                          bool
	sawAbsent, sawPresent          bool // ghosts of the reader
	here, stable                   [protoKeys]bool
	lives                          [protoNodes]uint8 // ghost: lives that the walk has returned
	bad                            uint8             // which claim broke
}

const (
	badMiss = iota + 1 // a key present throughout was not found
	badFind            // a node was found by a key its life does not have
	badW1              // an element present throughout was not returned
	badW2              // a key was returned twice in one stay
)

var protoErrors = [...]error{nil, errors.New("R1: miss"), errors.New("R1: wrong find"), errors.New("W1"), errors.New("W2")}

// place is the chain of a key: in version 0 and 1, when reseeding or growing.
func (p *proto) place(ver, key uint8) uint8 {
	switch {
	case p.rules.reseed && ver == 0:
		return [protoKeys]uint8{0, 0, 1}[key]
	case p.rules.reseed:
		return [protoKeys]uint8{1, 0, 1}[key]
	case ver == 0:
		return [protoKeys]uint8{0, 0, 1}[key]
	default:
		return [protoKeys]uint8{0, 1, 2}[key]
	}
}

// span is the range of keys of the chain that holds key in ver: key order is hash
// order.
func (p *proto) last(ver, key uint8) uint8 {
	for key+1 < protoKeys && p.place(ver, key+1) == p.place(ver, key) {
		key++
	}
	return key
}

// protoChains is the number of chains of version 0.
const protoChains = 2

type protoStep = model.Step[proto]

func (p proto) next() (steps []protoStep) {
	if p.bad != 0 {
		return nil
	}
	p.mutator(&steps)
	p.mover(&steps)
	if p.walks {
		p.walker(&steps)
	} else {
		p.reader(&steps)
	}
	return steps
}

func emit(steps *[]protoStep, p proto, label string, args ...uint8) {
	step := protoStep{To: p}
	if p.rules.labels {
		var all []any
		for _, a := range args {
			all = append(all, a)
		}
		step.Label = fmt.Sprintf(label, all...)
	}
	*steps = append(*steps, step)
}

// born and dies move the ghosts with the instant a life begins or ends.
func (p *proto) born(k uint8) {
	p.here[k] = true
	if k == p.rkey {
		p.sawPresent = true
	}
}

func (p *proto) dies(k uint8) {
	p.here[k], p.stable[k] = false, false
	if k == p.rkey {
		p.sawAbsent = true
	}
}

// mutator: 0 idle; 1 lock; 2 tag; 3 slot; 4 life; 5 unlock (insert).
// 11 lock; 12 death; 13 clear slot; 14 clear tag, unlock (remove).
func (p proto) mutator(steps *[]protoStep) {
	s := p
	switch p.mpc {
	case 0:
		if p.ops == 0 {
			return
		}
		s.ops--
		for n := range uint8(protoNodes) {
			if s.mnode = n; n > 0 && p.rules.oneNode {
				break
			}
			if p.gen[n]%2 == 1 {
				s.mpc, s.mkey, s.mver, s.key = 11, p.key[n], 0, p.key
				emit(steps, s, "remove node %d, key %d", n, p.key[n])
				continue
			}
			for k := range uint8(protoKeys) {
				s.mpc, s.mkey, s.mver, s.key = 1, k, 0, p.key
				s.key[n] = k
				emit(steps, s, "insert node %d, key %d", n, k)
			}
		}
	case 1, 11:
		s.mchain = p.place(p.mver, p.mkey)
		c := &s.ch[p.mver][s.mchain]
		switch {
		case c.gone:
			s.mver = 1
			emit(steps, s, "mutator: chain gone")
			return
		case c.locked:
			return
		}
		c.locked = true
		s.mpc = p.mpc + 1
		for i := range c.slot { // seen by nobody else: the chain is ours
			n := c.slot[i]
			if c.tag[i] && n != 0 && p.mpc == 1 && p.key[n-1] == p.mkey {
				c.locked, s.mpc = false, 0 // the key is there
			}
			if c.tag[i] && p.mpc == 11 && n == p.mnode+1 {
				s.mslot = uint8(i)
			}
		}
		if s.mpc == 2 {
			s.mslot = 0
			if c.tag[0] {
				s.mslot = 1
			}
		}
		emit(steps, s, "mutator locks chain %d of version %d", s.mchain, p.mver)
	case 2:
		s.ch[p.mver][p.mchain].tag[p.mslot] = true
		s.mpc = 3
		if p.rules.lifeEarly {
			s.gen[p.mnode]++
			s.born(p.mkey)
		}
		emit(steps, s, "mutator sets tag %d", p.mslot)
	case 3:
		s.ch[p.mver][p.mchain].slot[p.mslot] = p.mnode + 1
		s.mpc = 4
		emit(steps, s, "mutator sets slot %d", p.mslot)
	case 4:
		if !p.rules.lifeEarly {
			s.gen[p.mnode]++
			s.born(p.mkey)
		}
		s.mpc = 5
		emit(steps, s, "node %d lives", p.mnode)
	case 5:
		s.ch[p.mver][p.mchain].locked = false
		s.mpc = 0
		emit(steps, s, "mutator unlocks")
	case 12, 13:
		if (p.mpc == 12) != p.rules.deathLate {
			s.gen[p.mnode]++
			s.dies(p.mkey)
			emit2(steps, s, "node %d dies", p.mnode)
			return
		}
		s.ch[p.mver][p.mchain].slot[p.mslot] = 0
		emit2(steps, s, "mutator clears slot %d", p.mslot)
	case 14:
		c := &s.ch[p.mver][p.mchain]
		c.tag[p.mslot], c.locked = false, false
		s.mpc = 0
		emit(steps, s, "mutator clears tag %d, unlocks", p.mslot)
	}
}

func emit2(steps *[]protoStep, s proto, label string, n uint8) {
	s.mpc++
	emit(steps, s, label, n)
}

// mover: 0 lock chain; 1 next entry: lock the new chain, if a reseed; 2 tag;
// 3 slot, unlock the new chain; 4 mark and unlock. A split fills chains that
// nobody can reach, so it is one step.
func (p proto) mover(steps *[]protoStep) {
	s := p
	if p.vchain == protoChains {
		return
	}
	chain := p.vchain
	if p.rules.reverse {
		chain = protoChains - 1 - chain
	}
	old := &s.ch[0][chain]
	switch p.vpc {
	case 0:
		if old.locked {
			return
		}
		old.locked = true
		s.vpc, s.vslot = 1, 0
		emit(steps, s, "mover locks chain %d", chain)
	case 1:
		for s.vslot < 2 && !old.tag[s.vslot] {
			s.vslot++
		}
		if s.vslot == 2 {
			s.vpc = 4
			emit(steps, s, "mover has all")
			return
		}
		n := old.slot[s.vslot]
		s.vdst = p.place(1, p.key[n-1])
		d := &s.ch[1][s.vdst]
		if !p.rules.reseed {
			i := 0
			if d.tag[0] {
				i = 1
			}
			d.tag[i], d.slot[i] = true, n
			s.vslot++
			emit(steps, s, "mover splits off node %d", n-1)
			return
		}
		if d.locked {
			return
		}
		d.locked = true
		s.vdslot = 0
		if d.tag[0] {
			s.vdslot = 1
		}
		s.vpc = 2
		emit(steps, s, "mover locks new chain %d", s.vdst)
	case 2:
		s.ch[1][p.vdst].tag[p.vdslot] = true
		s.vpc = 3
		emit(steps, s, "mover sets tag")
	case 3:
		d := &s.ch[1][p.vdst]
		d.slot[p.vdslot], d.locked = old.slot[p.vslot], false
		s.vslot++
		s.vpc = 1
		emit(steps, s, "mover sets slot")
	case 4:
		old.gone, old.locked = true, false
		if p.rules.clearOld {
			old.slot, old.tag = [2]uint8{}, [2]bool{}
		}
		s.vpc, s.vchain = 0, p.vchain+1
		s.vslot, s.vdst, s.vdslot = 0, 0, 0
		emit(steps, s, "mover marks chain %d", chain)
	}
}

// reader: 0 start; 1 load meta; 2 slot; 3 life; 4 key; 5 life again; 6 done.
func (p proto) reader(steps *[]protoStep) {
	s := p
	switch p.rpc {
	case 0:
		for k := range uint8(protoKeys) {
			s.rpc, s.rkey = 1, k
			s.sawPresent, s.sawAbsent = p.here[k], !p.here[k]
			emit(steps, s, "reader looks for %d", k)
		}
	case 1:
		s.rchain = p.place(p.rver, p.rkey)
		c := &p.ch[p.rver][s.rchain]
		if c.gone && !p.rules.readOld {
			s.rver = 1
			emit(steps, s, "reader: chain gone")
			return
		}
		s.rtag, s.rslot, s.rpc = c.tag, 0, 2
		emit(steps, s, "reader loads meta of chain %d, version %d", s.rchain, p.rver)
	case 2:
		if p.rslot == 2 {
			s.rpc = 6
			if !p.sawAbsent {
				s.bad = badMiss
			}
			emit(steps, s, "reader misses")
			return
		}
		n := p.ch[p.rver][p.rchain].slot[p.rslot]
		if !p.rtag[p.rslot] || n == 0 {
			s.rslot++
		} else {
			s.rnode, s.rpc = n-1, 3
		}
		emit(steps, s, "reader loads slot %d", p.rslot)
	case 3:
		s.rgen, s.rpc = p.gen[p.rnode], 4
		if s.rgen%2 == 0 {
			s.rslot, s.rpc = p.rslot+1, 2
		}
		emit(steps, s, "reader loads life")
	case 4:
		s.rpc = 5
		if p.key[p.rnode] != p.rkey {
			s.rslot, s.rpc = p.rslot+1, 2
		}
		emit(steps, s, "reader compares key")
	case 5:
		if p.gen[p.rnode] != p.rgen && !p.rules.noLifeCheck {
			s.rslot, s.rpc = p.rslot+1, 2
			emit(steps, s, "reader: another life")
			return
		}
		// The Ref names life rgen. While it lasts its key is node.key.
		s.rpc, s.found = 6, true
		if !p.sawPresent || p.gen[p.rnode] == p.rgen && p.key[p.rnode] != p.rkey {
			s.bad = badFind
		}
		emit(steps, s, "reader finds node %d", p.rnode)
	}
}

// walker: 0 start; 1 load meta; 2 slots, of the whole chain; then for each 3 life,
// 4 slot again; 5 meta again. If the chain has been retired, once more for each 8
// life, 9 slot again, 10 the key, 11 life again. 6 return what was found; 7 done.
func (p proto) walker(steps *[]protoStep) {
	s := p
	slot := p.ch[p.rver][p.rchain].slot
	// on goes on to the next slot, or to the step last.
	on := func(first, last uint8) {
		s.rpc = first
		if s.rslot++; s.rslot == 2 {
			s.rpc, s.rslot = last, 0
		}
	}
	switch p.rpc {
	case 0:
		if p.rules.reseed && (p.vpc != 0 || p.vchain != 0) {
			return // settle: a walk begins in an epoch nobody is leaving
		}
		s.rpc, s.stable = 1, p.here
		emit(steps, s, "walk begins")
	case 1:
		s.rchain = p.place(p.rver, p.pos)
		c := &p.ch[p.rver][s.rchain]
		if c.gone && !p.rules.reseed {
			s.rver = 1
			emit(steps, s, "walker: chain moved")
			return
		}
		s.rtag, s.rslot, s.rpc, s.end = c.tag, 0, 2, p.last(p.rver, p.pos)
		s.rent, s.rlife = [2]uint8{}, [2]uint8{}
		emit(steps, s, "walker loads meta of chain %d", s.rchain)
	case 2:
		if p.rtag[p.rslot] {
			s.rent[p.rslot] = slot[p.rslot]
		}
		on(2, 3)
		emit(steps, s, "walker loads slot %d", p.rslot)
	case 3, 8:
		s.rlife[p.rslot] = 0
		if n := p.rent[p.rslot]; n != 0 && p.gen[n-1]%2 == 1 {
			s.rlife[p.rslot] = p.gen[n-1]
			s.rpc++
		} else if p.rpc == 3 {
			on(3, 5)
		} else {
			on(8, 6)
		}
		emit(steps, s, "walker loads life of slot %d", p.rslot)
	case 4:
		if slot[p.rslot] != p.rent[p.rslot] && !p.rules.noSlotCheck {
			s.rlife[p.rslot] = 0
		}
		on(3, 5)
		emit(steps, s, "walker loads slot %d again", p.rslot)
	case 5:
		if p.ch[p.rver][p.rchain].gone && !p.rules.noRangeCheck {
			s.rpc = 8
		} else {
			s.rpc = 6
			s.take(0)
			s.take(1)
		}
		emit(steps, s, "walker loads meta again")
	case 9:
		s.rpc = 10
		if slot[p.rslot] != p.rent[p.rslot] && !p.rules.noSlotCheck {
			on(8, 6)
		}
		emit(steps, s, "walker loads slot %d again", p.rslot)
	case 10:
		s.rpc = 11
		if k := p.key[p.rent[p.rslot]-1]; k < p.pos || k > p.end {
			on(8, 6)
		}
		emit(steps, s, "walker loads key of slot %d", p.rslot)
	case 11:
		if p.gen[p.rent[p.rslot]-1] == p.rlife[p.rslot] || p.rules.noLastCheck {
			s.take(p.rslot)
		}
		on(8, 6)
		emit(steps, s, "walker loads life of slot %d again", p.rslot)
	case 6:
		if p.nbuf > 0 { // Next, oldest first
			n, gen := p.buf[0]>>4, p.buf[0]&15
			copy(s.buf[:], p.buf[1:])
			s.nbuf--
			s.buf[s.nbuf] = 0
			if p.gen[n] == gen {
				s.give(n, gen)
			}
			emit(steps, s, "Next looks at node %d life %d", n, gen)
			return
		}
		s.pos, s.rver, s.rpc, s.rslot = p.end+1, 0, 1, 0
		if s.pos == protoKeys {
			s.rpc = 7
			for n := range uint8(protoNodes) {
				if p.gen[n]%2 == 1 && p.stable[p.key[n]] && p.lives[n]>>(p.gen[n]/2)&1 == 0 {
					s.bad = badW1
				}
			}
		}
		emit(steps, s, "walker goes on")
	}
}

// take accepts what the walker has found in a slot.
func (p *proto) take(slot uint8) {
	switch n, gen := p.rent[slot], p.rlife[slot]; {
	case gen == 0:
	case p.direct:
		p.give(n-1, gen)
	default:
		p.buf[p.nbuf] = (n-1)<<4 | gen
		p.nbuf++
	}
}

// give returns a life to the caller. A stay of a key is one life, so W2 says that
// no life comes twice.
func (p *proto) give(n, gen uint8) {
	if p.lives[n]>>(gen/2)&1 == 1 {
		p.bad = badW2
	}
	p.lives[n] |= 1 << (gen / 2)
}

// protoStarts are tables to begin with: keys of the two nodes; -1 means dead.
var protoStarts = [][protoNodes]int{{-1, -1}, {0, -1}, {2, -1}, {0, 1}, {1, 0}, {0, 2}, {2, 1}}

func exploreProto(starts [][protoNodes]int, rules protoRules, walks, direct bool, ops int) (model.Result, error) {
	var sum model.Result
	for _, start := range starts {
		p := proto{rules: rules, walks: walks, direct: direct, ops: uint8(ops)}
		for n, k := range start {
			if k < 0 {
				continue
			}
			k := uint8(k)
			c := &p.ch[0][p.place(0, k)]
			i := 0
			if c.tag[0] {
				i = 1
			}
			c.tag[i], c.slot[i] = true, uint8(n+1)
			p.gen[n], p.key[n], p.here[k] = 1, k, true
		}
		res, err := model.Explore(p, proto.next, func(s proto, end bool) error {
			if s.bad != 0 {
				return protoErrors[s.bad]
			}
			if end && s.mpc != 0 {
				return errors.New("the mutator is stuck")
			}
			return nil
		}, 3_000_000)
		sum.States += res.States
		sum.Edges += res.Edges
		sum.Ends += res.Ends
		if err != nil && !rules.labels { // once more, to see how it came about
			rules.labels = true
			return exploreProto([][protoNodes]int{start}, rules, walks, direct, ops)
		}
		if err != nil {
			return sum, err
		}
	}
	return sum, nil
}

func TestProtocolHoldsInEveryInterleaving(t *testing.T) {
	starts := [][protoNodes]int{{-1, -1}, {0, -1}, {2, 1}}
	if long {
		starts = protoStarts
	}
	for _, reseed := range []bool{false, true} {
		for _, who := range []string{"reader", "walker", "batch-walker"} {
			t.Run(fmt.Sprintf("reseed=%v/who=%s", reseed, who), func(t *testing.T) {
				t.Parallel()
				res, err := exploreProto(starts, protoRules{reseed: reseed}, who != "reader", who == "batch-walker", *protoOps)
				require.NoError(t, err)
				t.Logf("%+v", res)
			})
		}
	}
}

// One node in five lives, and chains that are left from the last to the first: what
// it takes for a life to end between the two looks of a walker at a retired chain.
func TestProtocolHoldsForOneNodeInManyLives(t *testing.T) {
	for _, direct := range []bool{false, true} {
		t.Run(fmt.Sprintf("direct=%v", direct), func(t *testing.T) {
			t.Parallel()
			rules := protoRules{reseed: true, reverse: true, oneNode: true}
			res, err := exploreProto([][protoNodes]int{{2, -1}}, rules, true, direct, 4)
			require.NoError(t, err)
			t.Logf("%+v", res)
		})
	}
}

// Each clause left out must break a claim: else it is not part of the proof.
func TestProtocolNeedsEveryClause(t *testing.T) {
	for _, c := range []struct {
		name   string
		rules  protoRules
		walks  bool
		direct bool
		start  [protoNodes]int
		ops    int
		err    int
	}{
		{"life=before-slot", protoRules{lifeEarly: true}, false, false, [protoNodes]int{-1, -1}, 1, badMiss},
		{"death=after-slot", protoRules{deathLate: true}, false, false, [protoNodes]int{0, -1}, 1, badMiss},
		{"reader-life-check=none", protoRules{noLifeCheck: true}, false, false, [protoNodes]int{0, -1}, 2, badFind},
		{"reader=retired-chain", protoRules{readOld: true}, false, false, [protoNodes]int{0, -1}, 2, badMiss},
		{"slot-check=none", protoRules{oneNode: true, noSlotCheck: true}, true, false, [protoNodes]int{0, -1}, 2, badW2},
		{"range-check=none/resize=grow", protoRules{noRangeCheck: true}, true, false, [protoNodes]int{0, -1}, 2, badW2},
		{"range-check=none/resize=reseed", protoRules{reseed: true, noRangeCheck: true}, true, false, [protoNodes]int{0, -1}, 2, badW2},
		{"last-life-check=none", protoRules{reseed: true, reverse: true, oneNode: true, noLastCheck: true}, true, true, [protoNodes]int{2, -1}, 4, badW2},
		{"old-slots=cleared", protoRules{reseed: true, clearOld: true}, true, false, [protoNodes]int{0, -1}, 1, badW1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := exploreProto([][protoNodes]int{c.start}, c.rules, c.walks, c.direct, c.ops)
			var v *model.Violation
			require.ErrorAs(t, err, &v)
			require.ErrorIs(t, err, protoErrors[c.err])
			t.Log(v)
		})
	}
}
