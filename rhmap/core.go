package rhmap

import (
	"errors"
	"math"
	"sync/atomic"
	"unsafe"

	"corelane/internal/yield"
)

// Errors of inserts that are refused.
var (
	ErrFull   = errors.New("rhmap: the table holds as many elements as it may")
	ErrBusy   = errors.New("rhmap: too many elements with like hashes, and no fresh key is to be had now")
	ErrClosed = errors.New("rhmap: the table is closed")
)

// core is what Map and Table share: arrays, locks, resizing, counting. It moves
// entries about without knowing what they are; keys are compared by the front
// end alone.
type core struct {
	// cur is the oldest version that has not been left. It moves from a version
	// to its next when every bucket has moved; readers and writers start here.
	cur atomic.Pointer[version]

	self *core // immutable: finds copies

	// hash computes the hash of an entry. It is called with the chain of the
	// entry locked.
	hash func(key *hashKey, e unsafe.Pointer) uint64
	draw func() hashKey // makes a fresh hash key

	limits  limits
	total   atomic.Int64 // elements, reserved before they are inserted; kept only if limits.max > 0
	closed  atomic.Bool  // false -> true, by Close
	weak    atomic.Bool  // an over-long chain showed while moving to the newest key; reset by the next reseed
	grows   atomic.Int64
	shrinks atomic.Int64
	reseeds atomic.Int64

	lots [lots]lot
}

// limits are immutable.
type limits struct {
	max      int64 // elements; 0 = no limit
	minBits  int
	noShrink bool
	refuse   bool // refuse inserts into over-long chains with ErrBusy
}

const (
	// A table grows when it holds more than growNum/growDen of its slots, that is
	// 3.75 per bucket, and halves below 1/shrinkDen, 1.2 per bucket: after either
	// step it is far from both. (At 4.5 per bucket one insert in three finds the
	// head full, and misses the cache once more.)
	growNum, growDen = 5, 8
	shrinkDen        = 5

	// chainLimit is the number of overflow buckets an ordinary chain may have,
	// that is 24 entries in all. At 3.75 entries per bucket one chain in 2e12
	// needs more by chance.
	chainLimit = 3

	// helpUnits is how many buckets a writer moves for the common good when it
	// meets a resize, beside its own.
	helpUnits = 8
)

const noLimit = math.MaxInt

// init makes the first version. It runs once, before anybody else sees c.
func (c *core) init(lim limits, capacity int) {
	c.self = c
	lim.minBits = max(minBits, lim.minBits, bitsFor(capacity))
	c.limits = lim
	v := newVersion(c.epoch(0), lim.minBits)
	v.ep.cur.Store(v)
	c.cur.Store(v)
}

// epoch makes epoch n, with a fresh key.
func (c *core) epoch(n int) *epoch {
	return &epoch{n: n, hashKey: c.draw()}
}

func (c *core) lot(h uint64) *lot { return &c.lots[h>>60] }

// parking is the lot where writers wait for the chain of b. It goes by the
// bucket, because in a table of less than lots buckets the keys of one chain
// belong to several lots, and whoever unlocks has another key than who waits.
func (c *core) parking(b *bucket) *lot {
	return &c.lots[uintptr(unsafe.Pointer(b))/unsafe.Sizeof(bucket{})%lots]
}

// count sums the stripes. It is exact when nobody writes, and never negative.
func (c *core) count() int {
	n := int64(0)
	for i := range c.lots {
		n += c.lots[i].count.Load()
	}
	return int(max(n, 0))
}

// after returns the version that rules a chain found moved or frozen in v.
func (c *core) after(v *version) *version {
	// ACQUIRE retire. While v is being left that is its next; once next says
	// retired, cur has advanced beyond v, for it is stored first.
	if nv := v.next.Load(); nv != retired {
		return nv
	}
	return c.cur.Load()
}

// reserve makes room for one element under the limit.
func (c *core) reserve() bool {
	if c.limits.max == 0 {
		return true
	}
	if c.total.Add(1) > c.limits.max {
		c.total.Add(-1)
		return false
	}
	return true
}

// release gives back what reserve took.
func (c *core) release() {
	if c.limits.max != 0 {
		c.total.Add(-1)
	}
}

// placed says where put left an entry.
type placed struct {
	meta   uint64 // the meta word of the head, to be given to unlock
	depth  int    // overflow buckets in front of it, counting its own
	linked bool   // the chain became longer by a bucket
}

// put links e in the slot that tryLockFor reserved, or in the first free slot of a
// chain that is locked, and holds no entry with that key. It fails, changing
// nothing, when the slot would lie deeper than limit.
//
// The tag is published before the slot, so the store to the slot is the instant
// from which every reader finds e: one that comes through a stale tag sees e no
// sooner than one that comes after.
func (c *core) put(v *version, b *bucket, h, m uint64, slot int, e unsafe.Pointer, limit int) (p placed, ok bool) {
	if slot < 0 {
		f := free(m)
		if f == 0 {
			return c.putOver(v, b, h, m, e, limit)
		}
		slot = first(f)
		tag := (h&0x7f | 0x80) << (8 * slot)
		b.meta.Or(tag)
		m |= tag
	}
	yield.Point("rhmap.put")
	// PUBLISH slot: the entry's key and value were stored before.
	atomic.StorePointer(b.at(slot), e)
	return placed{meta: m}, true
}

func (c *core) putOver(v *version, b *bucket, h, m uint64, e unsafe.Pointer, limit int) (p placed, ok bool) {
	p = placed{meta: m}
	for prev := b; ; {
		if p.depth++; p.depth > limit {
			return p, false
		}
		o := prev.next.Load()
		if o == nil {
			o = c.lot(h).take()
			v.lengthen(p.depth)
			prev.next.Store(o)
			p.linked = true
		}
		if f := free(o.meta.Load()); f != 0 {
			i := first(f)
			o.meta.Or((h&0x7f | 0x80) << (8 * i))
			yield.Point("rhmap.put")
			atomic.StorePointer(o.at(i), e)
			return p, true
		}
		prev = o
	}
}

// lengthen notes that a chain is about to have n overflow buckets.
func (v *version) lengthen(n int) {
	for l := v.longest.Load(); int(l) < n; l = v.longest.Load() {
		v.longest.CompareAndSwap(l, int32(n))
	}
}

// drop unlinks the entry in slot i of o, a bucket of the locked chain b, and
// returns the meta word to be given to unlock. The entry has been marked dead
// before.
func (c *core) drop(b *bucket, h, m uint64, o *bucket, i int) uint64 {
	atomic.StorePointer(o.at(i), nil)
	tag := uint64(0xff) << (8 * i)
	c.lot(h).count.Add(-1)
	c.release()
	if o == b {
		return m &^ tag
	}
	if left := o.meta.And(^tag) &^ tag; used(left) == 0 {
		c.trim(b, h)
	}
	return m
}

// trim unlinks the empty tail of a locked chain (B4). A bucket that is empty
// but not last stays: the entries behind it must stay reachable through it.
func (c *core) trim(b *bucket, h uint64) {
	end := b
	for o := b.next.Load(); o != nil; o = o.next.Load() {
		if used(o.meta.Load()) != 0 {
			end = o
		}
	}
	o := end.next.Load()
	end.next.Store(nil)
	for o != nil {
		rest := o.next.Load()
		c.lot(h).keep(o)
		o = rest
	}
}

// find returns the place of entry e in a locked chain.
func (b *bucket) find(m uint64, e unsafe.Pointer) (o *bucket, i int) {
	for o = b; o != nil; o = o.next.Load() {
		if o != b {
			m = o.meta.Load()
		}
		for u := used(m); u != 0; u &= u - 1 {
			if i = first(u); o.entry(i) == e {
				return o, i
			}
		}
	}
	return nil, 0
}

// fence returns when every write that held a lock at the call has given it up.
// Versions made later are locked only by writers that look at closed later.
func (c *core) fence() {
	for v := c.cur.Load(); v != nil; v = c.after(v) {
		for i := range v.buckets() {
			h := v.start(i)
			b := v.bucket(h)
			if b == nil {
				continue
			}
			if m, ok := c.lock(b); ok {
				c.unlock(b, m)
			}
		}
	}
}
