package study

// flood sends parts of datagrams at a steady rate, and never the rest.
type flood struct {
	of    int   // fragments of the datagram that is pretended
	send  []int // those that are sent
	claim int   // fragments that the first one speaks of; 0 is the truth
	// claims are spoken of in turn instead, if there are any.
	claims []int
	whole  int  // one of so many datagrams is sent whole; 0 none
	back   bool // a datagram's packets keep their time exactly; else each is moved a little
	from   source
	rate   float64 // packets/s
	start  int64
	end    int64
}

// What floods send.
var (
	loneFirst  = flood{of: 44, send: []int{0}}
	loneFirst3 = flood{of: 3, send: []int{0}}
	lyingFirst = flood{of: 2, send: []int{0}}
	loneMiddle = flood{of: 3, send: []int{1}}
	loneLast   = flood{of: 3, send: []int{2}}
	twoOfThree = flood{of: 3, send: []int{0, 1}}
	allButLast = flood{of: 44, send: upTo(43), back: true}
	halfWhole  = flood{of: 2, send: []int{0}, whole: 2}
)

func upTo(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

// at returns the flood with its sources, rate and time.
func (f flood) at(from source, start, end int64) flood {
	f.from, f.rate, f.start, f.end = from, 1e6, start, end
	return f
}

func (f flood) add(t *Traffic) {
	r := t.piece()
	gap, at := 1e9/f.rate, float64(f.start)
	all := upTo(f.of)
	claim := f.claim
	if claim == 0 {
		claim = f.of
	}
	for i := 0; int64(at) < f.end; i++ {
		if f.claims != nil {
			claim = f.claims[i%len(f.claims)]
		}
		d := t.claim(f.from(i, r), f.of, claim, noise)
		send := f.send
		if f.whole > 0 && i%f.whole == 0 {
			send = all
		}
		late := r.Float64() * gap
		if f.back {
			late = 0
		}
		for _, frag := range send {
			t.send(int64(at+late), d, frag)
			at += gap
		}
	}
}

// trickle keeps n datagrams of 44 fragments alive, each with a fragment every
// period, and leaves each one short of its last.
type trickle struct {
	n      int
	period int64
	from   source
	start  int64
	end    int64
}

func (f trickle) add(t *Traffic) {
	r := t.piece()
	for i := range f.n {
		src := f.from(i, r)
		at := f.start + int64(r.Float64()*float64(f.period))
		for at < f.end {
			d := t.open(src, 44, noise)
			for frag := 0; frag < 43 && at < f.end; frag++ {
				t.send(at, d, frag)
				at += f.period
			}
		}
	}
}

// sybil is n real hosts. Each completes datagrams of two fragments, one after
// the other and a gap apart, so that it has a record, and a slow one; from lone
// on it sends a first fragment every period besides, and never the other.
type sybil struct {
	n      int
	first  uint32
	gap    int64
	period int64
	start  int64
	lone   int64
	end    int64
}

func (f sybil) add(t *Traffic) {
	r := t.piece()
	for i := range f.n {
		src := f.first + uint32(i)
		start := f.start + r.Int64N(50*ms)
		for at := start; at+f.gap < f.end; at += f.gap {
			d := t.open(src, 2, noise)
			t.send(at, d, 0)
			t.send(at+f.gap, d, 1)
		}
		for at := start + f.lone; at < f.end; at += f.period {
			t.send(at, t.open(src, 2, noise), 0)
		}
	}
}

// whole completes datagrams of some fragments, one after the other at a steady
// rate: cheap ones, to look like somebody.
type whole struct {
	frags   int
	gap     int64 // between the fragments of one
	reverse bool  // the last fragment first
	from    source
	rate    float64 // datagrams/s
	start   int64
	end     int64
}

func (f whole) add(t *Traffic) {
	r := t.piece()
	at := float64(f.start)
	for i := 0; int64(at) < f.end; i++ {
		d := t.open(f.from(i, r), f.frags, noise)
		for k := range f.frags {
			frag := k
			if f.reverse {
				frag = f.frags - 1 - k
			}
			t.send(int64(at)+int64(k)*f.gap, d, frag)
		}
		at += 1e9 / f.rate
	}
}

// forger knows what names a sender's next datagrams will bear, and sends a
// fragment under each of them some time before.
type forger struct {
	ahead int64
	share float64 // of the victim's datagrams
	group uint8   // the victim
	frag  int
}

func (f forger) add(t *Traffic) {
	r := t.piece()
	begins := make(map[uint32]int64)
	var order []uint32
	for _, e := range t.events {
		if t.dgrams[e.dgram].group == f.group {
			if _, ok := begins[e.dgram]; !ok {
				order = append(order, e.dgram)
				begins[e.dgram] = e.at
			}
			begins[e.dgram] = min(begins[e.dgram], e.at)
		}
	}
	for _, d := range order {
		if at := begins[d] - f.ahead; at > 0 && r.Float64() < f.share {
			v := t.dgrams[d]
			forged := t.open(v.src, int(v.frags), noise)
			t.dgrams[forged].key = d
			t.send(at, forged, f.frag)
		}
	}
}
