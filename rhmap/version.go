package rhmap

import (
	"math/bits"
	"sync/atomic"
	"unsafe"

	"corelane/internal/cacheline"
)

// A version is one array of buckets, in the order of the high hash bits: bucket
// i of 2^b holds the hashes from i<<(64-b) on. So bucket i splits into 2i and
// 2i+1 of an array twice as long, and a position in hash space means the same in
// every array with the same hash key.
//
// The array comes in segments of 64 KiB, made when a bucket of theirs is first
// written, so growing needs no big allocation.
type version struct {
	// Immutable after newVersion, but for the segments.
	base    unsafe.Pointer   // of segs: the index of a hash is in range, but the compiler cannot know
	segs    []unsafe.Pointer // -> [buckets of a segment]bucket; nil -> segment once, by CAS
	shift   uint             // 64 - b; 1..63
	hashKey                  // that of ep, at hand for lookups
	ep      *epoch

	_ [cacheline.Size]byte // the words below are written during a resize

	// longest is the greatest number of overflow buckets any chain here has ever
	// had. It only grows, and is stored before the bucket that makes it true is
	// linked. A reader follows at most that many links: an element present
	// during the whole read has an immovable chain in front of it (B3, B4), no
	// longer than this. The reader may stray only behind that point, where an
	// unlinked bucket is used again in another chain, and nothing it could miss
	// there was present throughout.
	longest atomic.Int32

	// next is the version this one moves to: nil -> it, by the CAS that starts
	// the resize -> retired, once every bucket here is moved or frozen. It does
	// not keep the chain of later versions alive for those who hold this one.
	next  atomic.Pointer[version]
	claim atomic.Int64 // next unit of work to be given to a helper
	done  atomic.Int64 // units finished
}

// retired marks the next of a version that has been left for good.
var retired = new(version)

// An epoch is the time one hash key rules. Walkers hold on to an epoch, not to
// a version: all its versions have the same order.
type epoch struct {
	n int // 0, 1, 2 ...: how many keys came before
	hashKey

	// cur is the oldest version of this epoch that has not been left, and after
	// a reseed its last, frozen, one.
	cur atomic.Pointer[version]

	// overrun is how many buckets inserts into over-long chains have crossed:
	// what an attack has cost so far, and so what a reseed may cost.
	overrun atomic.Int64
}

const (
	segBits    = 10
	segBuckets = 1 << segBits // 64 KiB
	minBits    = 1            // two buckets: a shift by 64 would cost every lookup a branch
	maxBits    = 26 + 14*int(^uint(0)>>63)
)

func newVersion(ep *epoch, b int) *version {
	b = min(max(b, minBits), maxBits)
	segs := make([]unsafe.Pointer, max(1, 1<<b>>segBits))
	return &version{
		base:    unsafe.Pointer(unsafe.SliceData(segs)),
		segs:    segs,
		shift:   uint(64 - b),
		hashKey: ep.hashKey,
		ep:      ep,
	}
}

// buckets is the length of the array.
func (v *version) buckets() int { return 1 << (64 - v.shift) }

// bits is the logarithm of the length.
func (v *version) bits() int { return int(64 - v.shift) }

// index is the bucket of a hash.
func (v *version) index(h uint64) int { return int(h >> (v.shift & 63)) }

// start is the first hash of bucket i.
func (v *version) start(i int) uint64 { return uint64(i) << (v.shift & 63) }

// last is the last hash of the bucket that holds h.
func (v *version) last(h uint64) uint64 { return h | (1<<(v.shift&63) - 1) }

// bucket returns the head of the chain of a hash, or nil while the segment has
// never been written: then the chain is empty.
func (v *version) bucket(h uint64) *bucket {
	i := h >> (v.shift & 63)
	// ACQUIRE segment.
	seg := atomic.LoadPointer((*unsafe.Pointer)(unsafe.Add(v.base, uintptr(i>>segBits)*unsafe.Sizeof(v.base))))
	if seg == nil {
		return nil
	}
	return (*bucket)(unsafe.Add(seg, uintptr(i&(segBuckets-1))*unsafe.Sizeof(bucket{})))
}

// bucketMade returns the head of the chain of a hash, making its segment.
func (v *version) bucketMade(h uint64) *bucket {
	if b := v.bucket(h); b != nil {
		return b
	}
	return v.makeBucket(h)
}

func (v *version) makeBucket(h uint64) *bucket {
	seg := newSegment(min(v.buckets(), segBuckets))
	// PUBLISH segment: zeroed buckets. When two race, one array is dropped.
	atomic.CompareAndSwapPointer(&v.segs[v.index(h)>>segBits], nil, seg)
	return v.bucket(h)
}

// segmentLast is the last hash of the segment that holds h.
func (v *version) segmentLast(h uint64) uint64 {
	if v.shift+segBits >= 64 {
		return ^uint64(0)
	}
	return h | (1<<(v.shift+segBits) - 1)
}

// newSegment allocates n buckets, a power of two up to segBuckets, at a multiple
// of 64 bytes where a bucket is 64 bytes.
//
// Arrays with pointers of more than 512 bytes and up to 32 KiB stand behind an
// 8 byte header of the allocator (Go 1.22 on), so make([]bucket, 16) would put
// every bucket across two lines. A prefix of 56 bytes makes it one line; the
// size classes concerned are multiples of 64 (TestSegmentsAreAligned).
func newSegment(n int) unsafe.Pointer {
	const pad = 64 - 8
	switch n {
	case 16:
		return unsafe.Pointer(&new(struct {
			_ [pad]byte
			b [16]bucket
		}).b)
	case 32:
		return unsafe.Pointer(&new(struct {
			_ [pad]byte
			b [32]bucket
		}).b)
	case 64:
		return unsafe.Pointer(&new(struct {
			_ [pad]byte
			b [64]bucket
		}).b)
	case 128:
		return unsafe.Pointer(&new(struct {
			_ [pad]byte
			b [128]bucket
		}).b)
	case 256:
		return unsafe.Pointer(&new(struct {
			_ [pad]byte
			b [256]bucket
		}).b)
	case segBuckets:
		return unsafe.Pointer(new([segBuckets]bucket))
	default:
		return unsafe.Pointer(unsafe.SliceData(make([]bucket, n)))
	}
}

// bitsFor returns the size of an array that holds n elements without growing.
func bitsFor(n int) int {
	want := uint64(max(n, 1)) * growDen / (slotsPer * growNum)
	return bits.Len64(want)
}
