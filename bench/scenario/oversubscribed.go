package scenario

// More datagrams are under way than memory holds: something must be given up,
// and the question is whether the rest is worth anything.
var oversubscribed = Scenario{
	Name: "oversubscribed",
	From: "ours",
	Ask:  "What is left when more datagrams are in flight than memory holds?",
	Load: "200, 400 and 1000 streams of 64 KB datagrams, interleaved packet by packet, from one host or from as many; " +
		"0 or 1 % loss; 4 MiB hold about 40 whole datagrams",
	Measure: "completed datagrams as a share of the bound",
	Expect: "least-recently-used falls to nothing, because each queue waits its turn and is the oldest just before " +
		"it comes. A design that decides for some and against others can come to half the bound and more.",
	Variants: func(scale Scale) []Variant {
		var vs []Variant
		for _, streams := range []int{200, 400, 1000} {
			for _, loss := range []float64{0, 0.01} {
				for _, peers := range []int{1, streams} {
					vs = append(vs, oversubscribedVariant(scale, streams, peers, loss))
				}
			}
		}
		return vs
	},
}

func oversubscribedVariant(scale Scale, streams, peers int, loss float64) Variant {
	end, counted := scale.run()
	return Variant{
		Name:    params(param("streams", streams), param("interleave", 1), param("loss", loss), param("peers", peers)),
		Limits:  limits(4 * mib),
		Counted: counted,
		Traffic: func(m *Mix) {
			Streams{
				N: streams, From: FromPool(Host(1), peers), Size: Packets(44), Interleave: 1, Rate: scale.rate(), End: end,
				Path: Path{Loss: Bernoulli(loss)},
			}.Add(m)
		},
	}
}
