package scenario

// Arrival is one packet of traffic that was made outside of this package.
type Arrival struct {
	At       int64 // nanoseconds; arrivals are in order of time
	Datagram uint32
	Fragment uint16
}

// Ceiling is the bound of bound.go for such traffic.
type Ceiling struct{ c *ceiling }

// NewCeiling finds good prices for a memory of so many bytes. Datagram d has
// frags[d] fragments, 64 at most, and is worth value[d] to whoever completes it
// at the time counted or later.
func NewCeiling(arrivals []Arrival, frags []int, value []float64, charge Charge, memory, counted int64) *Ceiling {
	m := &Mix{events: make([]event, len(arrivals)), dgrams: make([]datagram, len(frags))}
	for i, a := range arrivals {
		m.events[i] = event{at: a.At, dgram: a.Datagram, frag: a.Fragment}
	}
	for d, n := range frags {
		m.dgrams[d].bytes = uint32(n) * mtuPayload // only the number counts
	}
	b := newBounder(m.trace(), charge, counted)
	worth := make([]float64, len(b.dgrams))
	for i, d := range b.dgrams {
		worth[i] = value[d]
	}
	return &Ceiling{b.ceiling(worth, memory)}
}

// At returns the most value that any cache can deliver that never holds more
// than that.
func (c *Ceiling) At(memory int64) float64 { return c.c.at(memory) }
