package scenario

// Flood sends parts of datagrams at a steady rate, and never the rest.
type Flood struct {
	// Of is the datagram that is pretended, in fragments; Send are the ones of
	// it that are sent, in this order.
	Of   int
	Send []int
	// Claim is the number of fragments that the first one's UDP header speaks
	// of; 0 tells the truth.
	Claim int
	// Whole sends every so many datagrams whole, so that the sender seems worth
	// something; 0 none.
	Whole      int
	From       Sources
	Rate       float64 // packets/s
	Start, End int64
	Steer      Steer
}

// What floods send.
var (
	LoneFirst  = Flood{Of: 44, Send: []int{0}}
	LoneFirst3 = Flood{Of: 3, Send: []int{0}}
	LoneMiddle = Flood{Of: 3, Send: []int{1}}
	LoneLast   = Flood{Of: 3, Send: []int{2}}
	TwoOfThree = Flood{Of: 3, Send: []int{0, 1}}
	AllButLast = Flood{Of: 44, Send: upTo(43)}
	HalfWhole  = Flood{Of: 2, Send: []int{0}, Whole: 2}
)

func upTo(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

// Add mixes the flood in, as noise.
func (f Flood) Add(m *Mix) {
	r, way := m.piece()
	gap, at := 1e9/f.Rate, float64(f.Start)
	all := upTo(f.Of)
	for i := 0; int64(at) < f.End; i++ {
		d := m.open(datagram{
			src: f.From(i, r), dst: receiver, bytes: uint32(f.Of) * mtuPayload, id: uint16(r.Uint32()),
			port: uint16(r.Uint32()), claim: uint16(f.Claim * mtuPayload), group: Noise,
		})
		send := f.Send
		if f.Whole > 0 && i%f.Whole == 0 {
			send = all
		}
		for _, frag := range send {
			m.send(int64(at+r.Float64()*gap), d, frag, f.Steer, &Path{}, way)
			at += gap
		}
	}
}
