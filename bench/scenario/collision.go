package scenario

import (
	"sync"

	"corelane/reasm"
)

// What a keyed hash is for: somebody knows its key, or has found out which of
// their datagrams share a chain, and sends those.
//
// The attack is aimed at what reasm does with Config.Hash: chained tables take
// the low 10 bits of mix(hash ^ secret), whose first secret is 0; rhmap takes the
// high bits of mix(hash ^ seed), whose first seed follows from the hash of the
// zero key. The attacker knows both, and no later secret.
var collision = Scenario{
	Name: "collision",
	From: "ours",
	Ask:  "What do keys cost that were chosen to collide, before and after the table takes another hash key?",
	Load: "ten streams of 64 KB datagrams, 0.5 Gbit/s in bursts of 8, beside 50 kpps of lone first fragments: 200 ms with " +
		"random keys (calm), 200 ms with keys that share a chain (aimed), ten silent minutes, and the aimed keys again " +
		"(again); 4 MiB",
	Measure: "CPU time of a fragment, calm/aimed/again, in ns of this machine (in tables only: real time is in no JSON, CSV " +
		"or report); completed datagrams as a share of the bound; refused fragments",
	Expect: "least-recently-used fills memory with one chain of 1600 queues and crosses all of it for each newcomer; its " +
		"table is rehashed every ten minutes. work-queue refuses newcomers from a chain of 128 on and rehashes five " +
		"seconds later. percpu-lru and hash-clean never do; hash-clean feels it only where memory was empty before (again), for " +
		"else it evicts within that chain. Tables of rhmap take a fresh key at the first chain that is too long, so aimed " +
		"costs what calm does.",
	Headline: Cost,
	Variants: func(Scale) []Variant { return []Variant{collisionVariant(50_000, 200*ms)} },
}

// afterRehash is when every table that is ever rehashed has been: 10 minutes
// after the first step, and a second.
const afterRehash = 601 * second

// Sources whose keys collide have the addresses from attackers on.
const attackers = 172<<24 | 16<<16

func collisionVariant(pps int, length int64) Variant {
	phases := []Phase{{Name: "calm"}, {Name: "aimed", From: length}, {Name: "again", From: afterRehash}}
	for i := range phases {
		phases[i].To = phases[i].From + length
	}
	keys := int(length * int64(pps) / second)
	aim := newAim(keys)
	v := Variant{
		Name:    params(param("keys", keys), param("pps", pps)),
		Limits:  limits(4 * mib),
		Counted: length, // when the attack starts
		Traffic: func(m *Mix) {
			for i, p := range phases {
				Streams{
					N: 10, From: From(Host(1)), Size: Packets(44), Interleave: 8, Rate: 0.5e9, Start: p.From, End: p.To,
				}.Add(m)
				flood := LoneFirst
				flood.From, flood.Rate, flood.Start, flood.End = FromEach(attackers), float64(pps), p.From, p.To
				if i == 0 {
					flood.From = FromAnywhere
				}
				flood.Add(m)
			}
		},
		Config: aim.config,
	}
	for _, p := range phases {
		p.From += length / 4 // memory has filled with what the phase brings
		v.Phases = append(v.Phases, p)
	}
	return v
}

// aim finds hashes that collide under the first secret of every table.
type aim struct {
	once sync.Once
	// hashes of the attackers' keys, by number. Written under once, read after it.
	hashes []uint64
}

func newAim(keys int) *aim { return &aim{hashes: make([]uint64, keys)} }

// config gives the attackers' keys their hashes. All other keys keep theirs.
func (a *aim) config(c *reasm.Config) {
	hash := c.Hash
	a.once.Do(func() { a.search(murmur(hash(new(reasm.Key)) + 1)) })
	c.Hash = func(k *reasm.Key) uint64 {
		if i := uint32(k.SrcLo) - attackers; i < uint32(len(a.hashes)) {
			return a.hashes[i]
		}
		return hash(k)
	}
}

// search tries hashes that fall into one bucket of rhmap under its seed until
// enough of them fall into one chain too: one in 1024 does.
func (a *aim) search(seed uint64) {
	const bucket, chain = 0xc0111de << 36, 0x155
	found := 0
	for low := uint64(0); found < len(a.hashes); low++ {
		h := unmurmur(bucket|low) ^ seed
		if murmur(h)%1024 == chain {
			a.hashes[found] = h
			found++
		}
	}
}

// murmur is the finalizer of MurmurHash3 (Appleby 2011), with which reasm mixes
// secrets in; unmurmur undoes it.
func murmur(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

func unmurmur(h uint64) uint64 {
	h = (h ^ h>>33) * 0x9cb4b2f8129337db // the inverses modulo 2^64
	h = (h ^ h>>33) * 0x4f74430c22a54005
	return h ^ h>>33
}
