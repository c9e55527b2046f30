package rhmap

import (
	"math/bits"
	"runtime"
	"sync/atomic"
	"unsafe"

	"corelane/internal/invariant"
	"corelane/internal/yield"
)

// A bucket is one cache line:
//
//	 0        8       16       24       32       40       48       56      64
//	+--------+--------+--------+--------+--------+--------+--------+--------+
//	|  meta  | slot 0 | slot 1 | slot 2 | slot 3 | slot 4 | slot 5 |  next  |
//	+--------+--------+--------+--------+--------+--------+--------+--------+
//
//	meta  bits  0..47  six tags, one byte per slot: 0 = free, 0x80 | 7 hash bits = used
//	      bit   48     moved: the next table of the same key order rules (resize)
//	      bit   49     frozen: a table with a fresh hash key rules (reseed)
//	      bit   61     user code runs under the lock (Compute)
//	      bit   62     somebody is parked on the lock
//	      bit   63     the lock
//
// Bits 48 and up are used in the head of a chain only. A chain is the head in
// the array and the overflow buckets behind next.
//
// Invariants of a chain, whenever its lock is free:
//
//	B1. A slot holds an entry exactly where its tag is set.
//	B2. An entry stands in at most one slot of all chains that rule.
//	B3. An entry never changes its slot; it leaves by removal only.
//	B4. The last bucket of the chain is the head, or is not empty.
//	B5. Once moved or frozen, tags, slots and next never change again.
//
// B3 and B4 make the part of a chain in front of an entry immovable while the
// entry is present: only empty tails are unlinked. B5 lets readers that came
// late, and walkers, read a retired chain.
type bucket struct {
	meta atomic.Uint64            // written under the lock, but for the lock and parked bits (CAS, by anyone)
	slot [slotsPer]unsafe.Pointer // atomic; nil -> entry -> nil under the lock; read by anyone
	next atomic.Pointer[bucket]   // written under the lock of the head; read by anyone
}

const slotsPer = 6

const (
	tagBits uint64 = 1<<48 - 1
	tagLow  uint64 = 0x0000_0101_0101_0101
	tagHigh uint64 = 0x0000_8080_8080_8080
	moved   uint64 = 1 << 48
	frozen  uint64 = 1 << 49
	gone           = moved | frozen
	parked  uint64 = 1 << 62
	locked  uint64 = 1 << 63
)

// tagOf spreads the tag of a hash over six bytes.
func tagOf(h uint64) uint64 { return (h&0x7f | 0x80) * tagLow }

// match marks the high bit of each byte of m that equals the tag. A byte above
// a match may be marked as well: a caller compares keys anyway.
func match(m, tag uint64) uint64 {
	x := m&tagBits ^ tag
	return (x - tagLow) &^ x & tagHigh
}

// used and free mark the high bit of each byte of a used and of a free slot.
func used(m uint64) uint64 { return m & tagHigh }
func free(m uint64) uint64 { return ^m & tagHigh }

// first returns the slot of the lowest mark, 8 if there is none.
func first(marks uint64) int { return bits.TrailingZeros64(marks) >> 3 }

// at returns the place of slot i, which must be below slotsPer.
func (b *bucket) at(i int) *unsafe.Pointer {
	return (*unsafe.Pointer)(unsafe.Add(unsafe.Pointer(&b.slot), uintptr(i)*unsafe.Sizeof(b.slot[0])))
}

// entry loads slot i.
func (b *bucket) entry(i int) unsafe.Pointer { return atomic.LoadPointer(b.at(i)) }

// tryLock takes the lock of a chain and returns the meta word without it, unless
// the chain is locked or retired.
func (b *bucket) tryLock() (m uint64, ok bool) {
	m = b.meta.Load()
	// ACQUIRE chain.
	return m, m&(locked|gone) == 0 && b.meta.CompareAndSwap(m, m|locked)
}

// lock takes the lock of a chain and returns the meta word without it. It fails
// when the chain has been retired, and then takes nothing.
func (c *core) lock(b *bucket) (m uint64, ok bool) {
	if m, ok = b.tryLock(); ok {
		return m, true
	}
	return c.lockSlow(b)
}

// tryLockFor is tryLock for one who means to insert: it succeeds only if the head
// has a free slot, and sets its tag by the same CAS. Readers find nothing in the
// slot yet. m is the meta word with that tag.
func (b *bucket) tryLockFor(h uint64) (m uint64, slot int, ok bool) {
	m = b.meta.Load()
	slot = first(free(m))
	with := m | (h&0x7f|0x80)<<(8*slot&63)
	// ACQUIRE chain.
	return with, slot, m&(locked|gone) == 0 && slot < slotsPer && b.meta.CompareAndSwap(m, with|locked)
}

// unreserve takes back the tag that tryLockFor set.
func unreserve(m uint64, slot int) uint64 {
	if slot < 0 {
		return m
	}
	return m &^ (0xff << (8 * slot))
}

// unlock publishes m, the new meta word, and releases the chain.
func (c *core) unlock(b *bucket, m uint64) {
	if invariant.Enabled {
		b.check()
	}
	// PUBLISH chain: everything written to the chain under the lock.
	if b.meta.Swap(m&^(locked|parked))&parked != 0 {
		c.wake(b)
	}
}

// check verifies that a locked chain does not lead in a circle, and B4.
func (b *bucket) check() {
	slow, last := b, b
	for n := 0; last.next.Load() != nil; n++ {
		last = last.next.Load()
		if n%2 == 1 {
			slow = slow.next.Load()
		}
		invariant.Check(slow != last, "rhmap: a chain leads in a circle")
	}
	invariant.Check(last == b || used(last.meta.Load()) != 0, "rhmap: a chain ends in an empty bucket")
}

// wake is not inlined so that unlock can be.
//
//go:noinline
func (c *core) wake(b *bucket) { c.parking(b).wake() }

// Patience of a writer that finds a chain locked. Critical sections last some
// ten nanoseconds, unless their owner has been descheduled: then spinning on
// burns the CPU the owner needs.
const (
	spins  = 64
	giveUp = 4 // calls of Gosched before parking
)

func (c *core) lockSlow(b *bucket) (m uint64, ok bool) {
	for range giveUp {
		for range spins {
			m = b.meta.Load()
			switch {
			case m&gone != 0:
				return m, false
			case m&locked == 0:
				if b.meta.CompareAndSwap(m, m|locked) {
					return m, true
				}
			}
		}
		runtime.Gosched()
	}
	refuseReentry()
	yield.Point("rhmap.park")
	return c.parking(b).park(b)
}
