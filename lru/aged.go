package lru

import (
	"math/bits"

	"corelane/internal/invariant"
)

// aged files nodes by tick and finds the smallest, in constant time per move: a
// radix heap (Ahuja, Mehlhorn, Orlin, Tarjan 1990) with chains for buckets. It
// holds the nodes of a lane that a search found touched since they were filed;
// nodes never touched stay in list.fresh and cost nothing here.
//
// A tick is eleven digits of six bits. A node stands at the level of the highest
// digit in which its tick differs from base, in the slot of that digit:
//
//	base = .. 3 0 5     level 0: .. 3 0 [0-63]   slots hold one tick each
//	                    level 1: .. 3 [0-63] x   64 ticks a slot
//	                    level 2: .. [0-63] x x   4096 ticks a slot
//
// So the first used slot of the first used level has the smallest ticks. When
// that is at level 1 or above, base moves to the start of its range and its
// nodes are placed anew, each at a lower level than before: a node moves at
// most eleven times in all, in practice as often as the span between oldest and
// newest has digits, and a slot with one node is not spread. Each move is a
// cache miss when nodes are many, hence six bits: 131072 nodes, nine of ten
// touched at ticks of their own, take 3.1 moves an eviction, and took 4.4 with
// four bits. It is sequential; the lane's lock guards it.
//
// Invariants, whenever the lock is free:
//
//	A1. base only grows, and no node has pos below it.
//	A2. A node stands in slot where(pos), unless that slot is spilling.
//	A3. used and levels have a bit set for exactly the chains that hold a node.
type aged[T any] struct {
	base     uint64 // key of the smallest tick that can be told apart
	spilling uint16 // the slot being emptied after base moved into its range; 0 = none
	levels   uint16 // bit l: used[l] != 0
	used     [tickDigits]uint64
	slots    [tickDigits][1 << digitBits]chain[T]
}

const (
	digitBits  = 6
	tickDigits = (64 + digitBits - 1) / digitBits
)

// A key is a tick with the sign bit turned, so that keys order as ticks do.
func key(tick int64) uint64      { return uint64(tick) ^ 1<<63 }
func unkey(key uint64) (t int64) { return int64(key ^ 1<<63) }

// where returns the level and the digit of a key, which is not below base.
func (a *aged[T]) where(k uint64) (level, digit uint16) {
	level = uint16(bits.Len64((k^a.base)>>digitBits)+digitBits-1) / digitBits
	return level, uint16(k>>(digitBits*level)) % (1 << digitBits)
}

// slotNumber and its inverse name a slot in Node.slot; 0 is inFresh.
func slotNumber(level, digit uint16) uint16 { return 1 + level<<digitBits + digit }
func slotPlace(slot uint16) (level, digit uint16) {
	return (slot - 1) >> digitBits, (slot - 1) % (1 << digitBits)
}

func (a *aged[T]) chain(level, digit uint16) *chain[T] { return &a.slots[level][digit] }

// start returns the first key of a slot's range.
func (a *aged[T]) start(level, digit uint16) uint64 {
	low := digitBits * level
	return a.base>>low>>digitBits<<digitBits<<low | uint64(digit)<<low
}

// place files n under the tick. One below base counts as base.
func (a *aged[T]) place(n *Node[T], tick int64) {
	k := max(key(tick), a.base)
	level, digit := a.where(k)
	n.pos, n.slot = unkey(k), slotNumber(level, digit)
	a.chain(level, digit).push(n)
	a.used[level] |= 1 << digit
	a.levels |= 1 << level
}

// unlink takes n, which is in a, out of it.
func (a *aged[T]) unlink(n *Node[T]) {
	level, digit := slotPlace(n.slot)
	c := a.chain(level, digit)
	c.unlink(n)
	if c.oldest != nil {
		return
	}
	if a.used[level] &^= 1 << digit; a.used[level] == 0 {
		a.levels &^= 1 << level
	}
	if a.spilling == n.slot {
		a.spilling = 0
	}
}

// next returns the node to look at next and a tick that no node of a is filed
// under an earlier one of. exact says that it is filed under just that tick; if
// not, it must be placed anew. n is nil if a is empty.
func (a *aged[T]) next() (n *Node[T], atLeast int64, exact bool) {
	if a.levels == 0 {
		return nil, 0, false
	}
	if a.spilling != 0 {
		level, digit := slotPlace(a.spilling)
		return a.chain(level, digit).oldest, unkey(a.base), false
	}
	level := uint16(bits.TrailingZeros16(a.levels))
	digit := uint16(bits.TrailingZeros64(a.used[level]))
	n = a.chain(level, digit).oldest
	if n.next == n {
		return n, n.pos, true // alone in its slot: no need to spread it
	}
	return n, unkey(a.start(level, digit)), level == 0
}

// spill moves base to the start of the slot that n, from next, is in, so that
// placing its nodes anew spreads them over lower levels.
func (a *aged[T]) spill(n *Node[T]) {
	if a.spilling == n.slot {
		return
	}
	level, digit := slotPlace(n.slot)
	base := a.start(level, digit)
	if invariant.Enabled {
		invariant.Check(a.spilling == 0 && base >= a.base, "lru A1: base moves from %#x to %#x", a.base, base)
	}
	a.base, a.spilling = base, n.slot
}

// appendTo appends a Ref of every node, in slot order.
func (a *aged[T]) appendTo(refs []Ref[T]) []Ref[T] {
	for levels := a.levels; levels != 0; levels &= levels - 1 {
		level := uint16(bits.TrailingZeros16(levels))
		for used := a.used[level]; used != 0; used &= used - 1 {
			refs = a.chain(level, uint16(bits.TrailingZeros64(used))).appendTo(refs)
		}
	}
	return refs
}
