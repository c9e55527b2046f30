package reasm

import (
	"math"
)

// reference is a slow reassembler that is obviously right: maps, lists of runs
// in order of arrival, bytes in a slice, packets built from scratch. It has no
// limit, no lock, no pool, and shares no code with the real one but the list of
// runs that the tests of holes use.
type reference struct {
	cfg    Config
	now    int64
	queues map[refKey]*refQueue
	seen   map[string]uint32 // fragments by source, for MaxDist
}

type refKey struct {
	family   int
	src, dst string
	id       uint32
	proto    byte // IPv4 only
}

type refQueue struct {
	created, last, deadline int64
	runs                    slowHoles
	bytes                   []byte // as far as any fragment reached
	held, fragments, end    int
	max, maxDF              int
	ecn                     [4]bool
	first                   *frag // at offset 0
	firstLen                int
	mark                    uint32 // seen[source] at its latest fragment
}

// refResult is what must come out of one fragment.
type refResult struct {
	verdict   Verdict
	restarted bool
	problem   *Problem
	packet    []byte // the datagram's, nil if there is none
	max       int
	fragments int
	created   int64
}

// refExpired is a queue that ran out of time.
type refExpired struct {
	key   refKey
	first []byte
	bytes int
}

func newReference(cfg Config) *reference {
	return &reference{cfg: cfg, now: math.MinInt64, queues: map[refKey]*refQueue{}, seen: map[string]uint32{}}
}

func keyOf(family int, f *frag) refKey {
	k := refKey{family: family, src: f.Src, dst: f.Dst, id: f.ID}
	if family == 4 {
		k.proto = byte(f.Proto)
	}
	return k
}

// add judges one well-formed packet.
func (r *reference) add(family int, f *frag) (res refResult, expired []refExpired) {
	packet := f.packet(family, 0)
	n := f.Len
	hdr := len(packet) - n
	if family == 4 {
		if f.Off == 0 && !f.MF {
			return refResult{verdict: Whole}, nil
		}
		if f.MF {
			n -= n % 8
		}
	} else if v, p := judge6(f, hdr-8); v != Held {
		res = refResult{verdict: v, problem: p}
		if !r.cfg.Quirks.EmptyQueue6 || v != BadLength && v != OffsetTooLarge {
			return res, nil
		}
		_, _, expired = r.find(family, f)
		return res, expired
	}
	if n == 0 && !r.has(family, f) {
		_, expired = r.stale(family, f)
		res.restarted = len(expired) > 0 || r.droppedOld(family, f)
		r.seen[f.Src]++
		res.verdict = ZeroLength
		return res, expired
	}
	q, restarted, expired := r.find(family, f)
	res.restarted = restarted
	if family == 4 {
		r.seen[f.Src]++
		distance := r.seen[f.Src] - q.mark
		q.mark = r.seen[f.Src]
		if r.cfg.MaxDist > 0 && distance > uint32(r.cfg.MaxDist) && q.fragments > 0 {
			fresh := r.fresh(family)
			fresh.mark = q.mark
			if r.cfg.Quirks.SizesSurviveRestart {
				fresh.max, fresh.maxDF = q.max, q.maxDF
			}
			*q = *fresh
			res.restarted = true
		}
	}
	res.verdict = q.insert(r, family, f, packet[hdr:hdr+n], hdr)
	switch res.verdict {
	case Overlap, BadEnd, ZeroLength, TooLong, BadECN:
		delete(r.queues, keyOf(family, f))
	case Complete:
		res.packet, res.max, res.fragments, res.created = q.build(family), q.max, q.fragments, q.created
		delete(r.queues, keyOf(family, f))
	}
	return res, expired
}

// judge6 is what IPv6 refuses without looking at the datagram; ext is where its
// Fragment header stands.
func judge6(f *frag, ext int) (Verdict, *Problem) {
	switch {
	case f.Off == 0 && !f.MF:
		return Atomic, nil
	case f.Off == 0 && f.Len == 0:
		return ShortChain, &Problem{Due: true, Code: 3}
	case f.Off+f.Len > 65535:
		return OffsetTooLarge, &Problem{Due: true, Pointer: uint32(ext + 2)}
	case f.MF && (f.Off+f.Len)%8 != 0:
		return BadLength, &Problem{Due: true, Pointer: 4}
	}
	return Held, nil
}

// has reports whether a queue can be joined.
func (r *reference) has(family int, f *frag) bool {
	q := r.queues[keyOf(family, f)]
	return q != nil && !r.tooLate(q) && !r.tooOld(q)
}

func (r *reference) tooLate(q *refQueue) bool { return r.now > q.created && r.now >= q.deadline }
func (r *reference) tooOld(q *refQueue) bool {
	return r.cfg.MaxAge > 0 && r.now-q.created > int64(r.cfg.MaxAge)
}

// stale drops the queue of f if its time is over.
func (r *reference) stale(family int, f *frag) (dropped bool, expired []refExpired) {
	k := keyOf(family, f)
	if q := r.queues[k]; q != nil && r.tooLate(q) {
		delete(r.queues, k)
		return true, []refExpired{q.expire(k)}
	}
	return false, nil
}

// droppedOld drops the queue of f if it is too old to be joined.
func (r *reference) droppedOld(family int, f *frag) bool {
	k := keyOf(family, f)
	if q := r.queues[k]; q != nil && r.tooOld(q) {
		delete(r.queues, k)
		return true
	}
	return false
}

// find returns the queue of f, a new one if need be.
func (r *reference) find(family int, f *frag) (q *refQueue, restarted bool, expired []refExpired) {
	restarted, expired = r.stale(family, f)
	restarted = r.droppedOld(family, f) || restarted
	k := keyOf(family, f)
	if q = r.queues[k]; q == nil {
		q = r.fresh(family)
		q.mark = r.seen[f.Src]
		r.queues[k] = q
	}
	return q, restarted, expired
}

func (r *reference) fresh(family int) *refQueue {
	timeout := int64(r.cfg.Timeout4)
	if family == 6 {
		timeout = int64(r.cfg.Timeout6)
	}
	return &refQueue{created: r.now, last: r.now, deadline: r.now + timeout, end: -1}
}

func (q *refQueue) insert(r *reference, family int, f *frag, payload []byte, hdr int) Verdict {
	off, end := f.Off, f.Off+len(payload)
	top, _ := q.runs.top()
	switch {
	case f.MF && q.end >= 0 && end > q.end,
		!f.MF && q.end >= 0 && end != q.end,
		!f.MF && end < int(top):
		return BadEnd
	case off == end:
		return ZeroLength
	}
	fit := q.runs.classify(uint32(off), uint32(end))
	if !f.MF && (fit == fits || r.cfg.Quirks.EndFromDuplicate) {
		q.end = end
	}
	switch fit {
	case duplicate:
		return Duplicate
	case overlaps:
		return Overlap
	}
	q.runs.add(uint32(off), uint32(end))
	q.bytes = append(q.bytes, make([]byte, max(0, end-len(q.bytes)))...)
	copy(q.bytes[off:], payload)
	q.held += len(payload)
	q.fragments++
	q.last = r.now
	size := hdr + len(payload)
	if size > q.max {
		q.max = size
		if r.cfg.Quirks.MaxSize16 {
			q.max = size % 65536
		}
	}
	if f.DF && family == 4 {
		q.maxDF = max(q.maxDF, size)
	}
	q.ecn[f.TOS&3] = true
	if off == 0 {
		first := *f
		q.first, q.firstLen = &first, len(payload)
	}
	if q.held != q.end {
		return Held
	}
	limit := 65535
	if family == 4 {
		limit -= 20 + len(q.first.Opt)/2
	} else {
		for _, e := range q.first.Pre {
			limit -= len(e.Hex) / 2
		}
	}
	switch {
	case q.ecn[0] && (q.ecn[1] || q.ecn[2] || q.ecn[3]):
		return BadECN
	case q.end > limit:
		return TooLong
	}
	return Complete
}

// build makes the packet as its sender would have, had it not fragmented it.
func (q *refQueue) build(family int) []byte {
	f := *q.first
	f.MF, f.Off, f.Len, f.Plain = false, 0, q.end, true
	f.DF = family == 4 && q.maxDF == q.max
	if q.ecn[3] {
		f.TOS |= 3
	}
	b := f.packet(family, 0)
	copy(b[len(b)-q.end:], q.bytes)
	return b
}

func (q *refQueue) expire(k refKey) refExpired {
	e := refExpired{key: k, bytes: q.held}
	if q.first != nil {
		b := q.first.packet(k.family, 0)
		e.first = b[:len(b)-q.first.Len+q.firstLen]
	}
	return e
}

// step lets what is due expire.
func (r *reference) step() (expired []refExpired) {
	for k, q := range r.queues {
		if q.deadline <= r.now {
			delete(r.queues, k)
			expired = append(expired, q.expire(k))
		}
	}
	return expired
}
