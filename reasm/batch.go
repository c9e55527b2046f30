package reasm

func (l *lane) AddBatch(now int64, fs []Fragment, rs []Result) int {
	n := min(len(fs), len(rs))
	l.now = max(l.now, now)
	for i := 0; i < n; {
		rs[i] = Result{}
		first := &rs[i]
		fs[i].Key.enter(l.c.number)
		if q := l.admit(&fs[i], first); q != nil {
			took := l.takeRun(q, fs[i:n], rs[i:n])
			q.mu.Unlock()
			if took > 1 {
				l.count.verdict(Held, uint64(took-1))
			}
			i += took
		} else {
			i++
		}
		l.count.verdict(rs[i-1].Verdict, 1)
		if rs[i-1].Verdict == Held && l.c.after != nil && l.c.room() < 0 {
			l.full = !l.c.after.after(l)
		}
		first.Evicted, l.evicted = l.evicted, 0
		l.settle()
	}
	return n
}

// takeRun is take for the fragments of one datagram that stand in front of fs,
// the first of which was admitted: one lock, one charge and one touch for all.
// It stops behind the first that is not Held, and where the design would have to
// act; it returns how many it took.
func (l *lane) takeRun(q *queue, fs []Fragment, rs []Result) (n int) {
	var pinned int64
	room := l.c.design.room(l)
	if by := l.c.bySource; by != nil {
		room = by.roomOf(q)
	}
	for {
		f, r := &fs[n], &rs[n]
		if pinned != 0 && l.c.cfg.Mode == Copy && q.grows(f) {
			l.c.charge(q, pinned) // how far it grows depends on what is charged
			room, pinned = room-pinned, 0
		}
		p := l.store(q, f, r)
		n++
		if r.Restarted {
			pinned = 0 // what was stored before is gone, and was not charged yet
		}
		pinned += p
		if r.Verdict != Held {
			break
		}
		if q.complete() {
			l.c.charge(q, pinned)
			l.finish(q, r)
			return n
		}
		if next := l.stretch(q, fs[n:], rs[n:], room-pinned); next.n > 0 {
			n, pinned = n+next.n, pinned+next.pinned
		}
		if n == len(fs) || fs[n].Verdict != Held || pinned > room {
			break
		}
		if fs[n].Key.enter(l.c.number); !fs[n].Key.equal(&q.key) {
			break
		}
		rs[n] = Result{}
	}
	if q.state == live && (n > 1 || rs[0].Verdict == Held) {
		l.c.charge(q, pinned)
		l.c.design.touch(l, q) // not for a mere duplicate
	}
	return n
}

// stretched is what stretch took, and the bytes it pinned.
type stretched struct {
	n      int
	pinned int64
}

// stretch takes the fragments in front of fs that each begin where q's bytes end,
// and are not the last: what a batch mostly holds, and where nothing has to be
// judged. For them it does what store does, in one loop that calls nothing. It
// stops where it has pinned more than room.
func (l *lane) stretch(q *queue, fs []Fragment, rs []Result, room int64) (s stretched) {
	c := l.c
	distant := q.peer != nil && c.cfg.MaxDist > 0
	if c.cfg.Mode != Borrow || c.cfg.Charge.Fragment != nil || q.end >= 0 || distant || q.key.Family() == LoWPAN {
		return stretched{} // a buffer of ours, a hook, an end or a distance to be heeded
	}
	var (
		top, largest, largestDF = q.holes.top, q.maxSize, q.maxDF
		ecns                    = q.ecns
		bufs                    = q.bufs
	)
	for s.n < min(len(fs), len(rs)) && s.pinned <= room {
		f := &fs[s.n]
		f.Key.enter(c.number)
		size, end := uint32(len(f.Packet)), f.end()
		if f.Verdict != Held || !f.More || f.Offset != top || end <= top || size > maxLen16 || !f.Key.equal(&q.key) {
			break
		}
		rs[s.n] = Result{}
		top, largest, ecns = end, max(largest, size), ecns|1<<f.ECN
		if f.DF {
			largestDF = max(largestDF, size)
		}
		bufs = append(bufs, Buffer{}) // filled field by field: see keep
		b := &bufs[len(bufs)-1]
		b.Packet, b.Ref, b.off, b.payload = f.Packet, f.Ref, f.Offset, f.HeaderLen
		s.pinned += int64(cap(f.Packet)) + bufferRecord
		s.n++
	}
	if s.n > 0 {
		q.holes.bytes += top - q.holes.top
		q.holes.top, q.maxSize, q.maxDF, q.ecns = top, largest, largestDF, ecns
		q.fragments += uint32(s.n)
		q.bufs = bufs
		q.sorting |= ascends // there is one before them
	}
	return s
}

// maxLen16 is the longest packet whose length needs no second look.
const maxLen16 = 1<<16 - 1
