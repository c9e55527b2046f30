package scenario

// The objection to lists per CPU: interrupts may be balanced over all CPUs, and
// then fragments of one datagram are serviced on different ones.
var crossCPU = Scenario{
	Name: "cross-cpu",
	From: "002",
	Ask:  "What if fragments of one datagram arrive on different CPUs?",
	Load: "20 hosts fill a link, a stream of 64 KB datagrams each, packets interleaved one by one, 1 % lost; 4 lanes, " +
		"steered by address pair, by flow (first fragments elsewhere), by identification, and packet by packet; 4 MiB",
	Measure: "completed datagrams as a share of the bound; fragments that touch a queue of another lane",
	Expect: "with one table for all lanes goodput does not depend on steering, but three of four fragments touch " +
		"another lane's queue when packets are balanced. Limits per lane depend on it.",
	Variants: func(scale Scale) []Variant {
		var vs []Variant
		for _, by := range []struct {
			name string
			Steering
		}{{"pair", ByPair}, {"flow", ByFlow}, {"id", ByID}, {"packet", ByPacket}} {
			vs = append(vs, crossVariant(scale, by.name, by.Steering))
		}
		return vs
	},
}

func crossVariant(scale Scale, name string, by Steering) Variant {
	end, counted := scale.run()
	const lanes = 4
	return Variant{
		Name:    params(param("steer", name), param("lanes", lanes)),
		Limits:  limits(4 * mib),
		Lanes:   lanes,
		Counted: counted,
		Traffic: func(m *Mix) {
			Streams{
				N: 20, From: FromEach(Host(1)), Size: Packets(44), Interleave: 1, Rate: scale.rate(), End: end,
				Path: Path{Loss: Bernoulli(0.01)}, Steer: Steer{By: by, Lanes: lanes},
			}.Add(m)
		},
	}
}
