package reasm

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"corelane/lru"
	"corelane/rhmap"
)

// queue is one datagram being put together, and later the Datagram itself. It
// knows no table, clock or account; its lane does.
//
// A queue is recycled, and never given to the garbage collector while a lookup
// may hold a pointer to it: whoever finds one locks mu and checks that it lives
// and has the right key.
//
// States: idle -> live -> (delivered -> idle | idle). All transitions happen
// under mu; the one that leaves live is retirement, and whoever makes it owns
// the rest.
//
// Invariants, while live and whenever mu is free:
//
//	Q1. holes describes exactly the bytes held, in buf, cells and bufs.
//	Q2. charged is what this queue has charged to its account.
//	Q3. hdr is empty unless the byte at offset 0 is held.
//	Q4. end < 0, or no byte beyond end is held.
type queue struct {
	host  *Host // immutable
	mu    sync.Mutex
	state state // guarded by mu

	// Guarded by mu. What worth looks at in a candidate stands together, in front.
	fragments uint32
	cache     *cache
	view      worthView // but for its slot
	charged   int64
	created   int64
	holes     holes
	key       Key   // also guarded by the index while in it, where it never changes
	lane      int   // that made it, and whose wheel it is on
	last      int64 // time of the last stored fragment
	timeout   int64
	deadline  int64  // written under the wheel's lock too
	end       int32  // payload length of the datagram, -1 while not known
	maxSize   uint32 // largest fragment, header included
	maxDF     uint32 // largest with DF
	firstLen  uint32 // bytes of the datagram in the fragment at offset 0
	announced uint32 // length that its UDP header announces, or 6LoWPAN; 0 if nothing does
	nextHdrAt uint32 // of the fragment at offset 0, IPv6
	ecns      uint8  // bit n: ECN codepoint n was seen
	sorting   order  // how bufs lie
	unsummed  bool   // 6LoWPAN: the UDP checksum is still to be computed
	base      int64  // what the queue was charged before its first fragment
	peer      *peer  // nil unless the cache counts peers
	rid       uint32 // peer's fragment count at our last fragment

	hdr    []byte  // the first fragment's headers, as they arrived or decompressed; backed by hdrBuf if short
	buf    *buffer // Copy: the datagram from offset 0, prefix bytes of it
	prefix uint32
	lead   uint32   // 6LoWPAN: bytes from offset 0 that stand in hdr, not in buf or bufs
	cells  []cell   // Copy: fragments beyond the prefix
	bufs   []Buffer // Borrow: all fragments

	node  lru.Node[queue] // the design's list
	chain *queue          // chains: the next one; guarded by the chain's lock
	hash  uint64          // chains: of key; as key
	seen  atomic.Int64    // hash-clean: last touched, for the chain scan
	entry rhmap.Node[words]
	ref   rhmap.Ref[queue] // of entry; guarded by mu
	timer timer            // guarded by the wheel's lock

	dgram  Datagram
	hdrBuf [64]byte
}

type state uint8

const (
	idle      state = iota // in a pool, or being made by one goroutine
	live                   // in the table
	delivered              // a Datagram in the caller's hands
)

// order says which ways the offsets of neighbours in a list go.
type order uint8

const (
	ascends order = 1 << iota
	descends
)

// cell is a copied fragment that is not in its final place: it arrived before
// some byte that precedes it.
type cell struct {
	*buffer        // the payload behind the front
	off, n  uint32 // where it belongs, and how long it is
}

// What a record of a stored fragment pins, and a queue itself.
const (
	cellRecord   = int64(unsafe.Sizeof(cell{}))
	bufferRecord = int64(unsafe.Sizeof(Buffer{}))
	queueRecord  = int64(unsafe.Sizeof(queue{}))
)

// maxIdle bounds the records that a recycled queue keeps room for, because a
// queue in a pool is charged to nobody.
const maxIdle = 128

// judge decides whether a fragment may be stored: Held, Duplicate, or what
// discards the queue. It changes nothing but, with the quirk, the known end.
//
// The order of the tests is the kernel's: it decides which cause is counted.
func (q *queue) judge(f *Fragment, quirks *Quirks) Verdict {
	off, end := f.Offset, f.end()
	if f.More {
		if q.end >= 0 && end > uint32(q.end) {
			return BadEnd
		}
	} else if q.end >= 0 && end != uint32(q.end) || end < q.holes.top {
		return BadEnd
	}
	if end == off {
		return ZeroLength
	}
	fit := q.holes.classify(off, end)
	if !f.More && (fit == fits || quirks.EndFromDuplicate) {
		q.end = int32(end)
	}
	switch fit {
	case duplicate:
		return Duplicate
	case overlaps:
		return Overlap
	}
	return Held
}

// note records a fragment that fits, all but its bytes. It returns what the holes
// newly pin in bitmaps.
func (q *queue) note(f *Fragment, now int64, quirks *Quirks) (pinned int64) {
	size := uint32(len(f.Packet))
	q.last = now
	q.fragments++
	q.ecns |= 1 << f.ECN
	if size > q.maxSize {
		if q.maxSize = size; quirks.MaxSize16 {
			q.maxSize = uint32(uint16(size))
		}
	}
	if f.DF {
		q.maxDF = max(q.maxDF, size)
	}
	if f.Key.Family() == LoWPAN {
		return q.noteLink(f)
	}
	if f.Offset == 0 {
		q.hdr = append(q.hdrBuf[:0], f.Packet[:f.HeaderLen]...)
		q.firstLen = f.end()
		q.announced = f.udpLength()
		q.nextHdrAt = f.nextHeaderAt
	}
	if q.holes.add(f.Offset, f.end()) {
		return unitMapBytes
	}
	return 0
}

// complete reports whether every byte up to the known end is held.
func (q *queue) complete() bool { return q.end > 0 && q.holes.bytes == uint32(q.end) }

// keep stores the caller's buffer itself. It returns the bytes newly pinned.
func (q *queue) keep(f *Fragment) (pinned int64) {
	if n := len(q.bufs); n > 0 {
		if q.bufs[n-1].off > f.Offset {
			q.sorting |= descends
		} else {
			q.sorting |= ascends
		}
	}
	// Field by field: a literal is built on the stack first and copied in wider
	// pieces than it was written in, which stalls for some 5 ns.
	q.bufs = append(q.bufs, Buffer{})
	b := &q.bufs[len(q.bufs)-1]
	b.Packet, b.Ref, b.off, b.payload = f.Packet, f.Ref, f.Offset, f.HeaderLen
	return int64(cap(f.Packet)) + bufferRecord
}

// copyIn copies the payload: to its place in the datagram if all that precedes
// it is there, else to a cell of its own. guess is how large the datagram may
// become. It returns the bytes newly pinned.
func (q *queue) copyIn(f *Fragment, pool *bufferPool, guess int) (pinned int64) {
	data := f.Payload()
	if f.Offset != q.prefix {
		c := cell{pool.get(len(data)), f.Offset, uint32(len(data))}
		copy(c.b[pool.front:], data)
		q.cells = append(q.cells, c)
		return c.pins()
	}
	at := q.prefix + f.lead
	pinned = q.grow(int(at)+len(data), guess, pool)
	copy(q.buf.b[pool.front+int(at):], data)
	q.prefix = at + uint32(len(data))
	return pinned
}

// grows reports whether copyIn has to make room in buf.
func (q *queue) grows(f *Fragment) bool {
	return f.Offset == q.prefix && (q.buf == nil || int(f.end()) > q.buf.room())
}

// grow makes room for n bytes of payload in buf, and for guess bytes if it has to
// act at all.
func (q *queue) grow(n, guess int, pool *bufferPool) (pinned int64) {
	old := q.buf
	if old != nil && n <= old.room() {
		return 0
	}
	q.buf = pool.get(max(n, guess))
	pinned = int64(len(q.buf.b))
	if old != nil {
		copy(q.buf.b[pool.front:], old.b[pool.front:pool.front+int(q.prefix)])
		pinned -= int64(len(old.b))
		pool.put(old)
	}
	return pinned
}

// gather moves the cells of a complete datagram into buf. It returns the bytes
// newly pinned, usually less than 0.
func (q *queue) gather(pool *bufferPool) (pinned int64) {
	if len(q.cells) == 0 {
		return 0
	}
	pinned = q.grow(int(q.end), 0, pool)
	for _, c := range q.cells {
		copy(q.buf.b[pool.front+int(c.off):], c.b[pool.front:pool.front+int(c.n)])
		pinned -= c.pins()
	}
	q.freeCells(pool)
	return pinned
}

// pins is what a cell pins, its record included.
func (c cell) pins() int64 { return int64(len(c.b)) + cellRecord }

func (q *queue) freeCells(pool *bufferPool) {
	for _, c := range q.cells {
		pool.put(c.buffer)
	}
	clear(q.cells)
	if q.cells = q.cells[:0]; cap(q.cells) > maxIdle {
		q.cells = nil
	}
}

func (q *queue) dropBufs() {
	clear(q.bufs)
	if q.bufs = q.bufs[:0]; cap(q.bufs) > maxIdle {
		q.bufs = nil
	}
}

// sort puts borrowed buffers in order of offset. Most datagrams arrive in order,
// and most others backwards.
func (q *queue) sort() {
	switch q.sorting {
	case descends:
		slices.Reverse(q.bufs)
	case ascends | descends:
		if len(q.bufs) < placeFrom {
			slices.SortFunc(q.bufs, func(a, b Buffer) int { return cmp.Compare(a.off, b.off) })
		} else {
			place(q.bufs)
		}
	}
	q.sorting = 0
}

// placeFrom is how many buffers make it worth to look at every unit of a datagram.
const placeFrom = 256

var placeTables = sync.Pool{New: func() any { return new([maxPayload / unit]uint16) }}

// maxPayload is where no fragment starts any more.
const maxPayload = 1 << 16

// place sorts in linear time what no attacker should be able to make us compare:
// the buffers of a datagram in thousands of pieces. Each starts at a unit of its
// own, so a table of the units says in which order they belong.
func place(bufs []Buffer) {
	from := placeTables.Get().(*[maxPayload / unit]uint16)
	for i := range bufs {
		from[bufs[i].off/unit] = uint16(i) + 1
	}
	// Closed up, from[i] is where the buffer stands that belongs at i.
	n := 0
	for _, at := range from {
		if at != 0 {
			from[n] = at - 1
			n++
		}
	}
	for i := range bufs {
		first := bufs[i]
		at := i
		for from[at] != uint16(i) { // along the cycle that i is on
			next := int(from[at])
			bufs[at], from[at] = bufs[next], uint16(at)
			at = next
		}
		bufs[at], from[at] = first, uint16(at)
	}
	clear(from[:])
	placeTables.Put(from)
}

// forget empties the queue of everything it learned from fragments. Its buffers
// must have been taken away.
func (q *queue) forget() {
	q.holes.reset()
	q.end = -1
	q.maxSize, q.maxDF, q.firstLen, q.announced, q.nextHdrAt = 0, 0, 0, 0, 0
	q.fragments, q.ecns, q.sorting = 0, 0, 0
	q.hdr, q.prefix, q.lead, q.unsummed = nil, 0, 0, false
}

// firstPacket returns the fragment at offset 0 as it arrived, in 6LoWPAN what it
// decompresses to, nil if it is not held. Only for a retired queue that has not
// been freed.
func (q *queue) firstPacket() []byte {
	if len(q.hdr) == 0 {
		return nil
	}
	for _, b := range q.bufs {
		switch {
		case b.off == 0 && q.lead > 0:
			return append(slices.Clip(q.hdr), b.Packet[b.payload:]...)
		case b.off == 0:
			return b.Packet
		}
	}
	end := q.host.buffers.front + int(q.firstLen)
	data := q.host.buffers.front + int(q.lead)
	at := data - len(q.hdr)
	if at < 0 {
		return append(slices.Clip(q.hdr), q.buf.b[data:end]...)
	}
	copy(q.buf.b[at:], q.hdr)
	return q.buf.b[at:end]
}

// info describes the queue for Walk.
func (q *queue) info() QueueInfo {
	return QueueInfo{
		Key: q.key.public(), Created: q.created, Last: q.last, Bytes: int(q.holes.bytes), Charged: q.charged,
		Fragments: int(q.fragments), Holes: q.holes.gaps(), End: int(q.end),
	}
}
