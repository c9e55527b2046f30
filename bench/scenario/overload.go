package scenario

// The question of the 2018 patch: ten streams arrive at line rate, two hundred
// at almost nothing. Which part of what memory allows does a design deliver?
var overload = Scenario{
	Name: "overload",
	From: "000",
	Ask:  "Does a cache that is too small for the load still deliver what fits?",
	Load: "10 or 200 streams of 64 KB datagrams (44 fragments) from one host fill a link; they take turns every " +
		"44, 8 or 1 packets; 0, 0.5, 1 or 5 % of the fragments are lost; 4 MiB",
	Measure: "completed datagrams as a share of the bound",
	Expect: "hard-limit collapses to nothing as soon as anything is lost, because dead queues stay until they " +
		"time out. Evicting designs deliver all of it where the datagrams in flight fit into memory; with 200 " +
		"streams interleaved finely, least-recently-used delivers a few percent: every queue is pushed out " +
		"just before it goes on.",
	Variants: func(scale Scale) []Variant {
		var vs []Variant
		for _, streams := range []int{10, 200} {
			for _, interleave := range []int{44, 8, 1} {
				for _, loss := range []float64{0, 0.005, 0.01, 0.05} {
					vs = append(vs, overloadVariant(scale, streams, interleave, loss))
				}
			}
		}
		return vs
	},
}

func overloadVariant(scale Scale, streams, interleave int, loss float64) Variant {
	end, counted := scale.run()
	return Variant{
		Name:    params(param("streams", streams), param("interleave", interleave), param("loss", loss)),
		Limits:  limits(4 * mib),
		Counted: counted,
		Traffic: func(m *Mix) {
			Streams{
				N: streams, From: From(Host(1)), Size: Packets(44), Interleave: interleave, Rate: scale.rate(),
				End: end, Path: Path{Loss: Bernoulli(loss)},
			}.Add(m)
		},
	}
}
