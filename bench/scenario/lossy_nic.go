package scenario

// The cheap way to a flood of 2012: switch flow control off on one interface of
// three, so that it drops packets, and see what that does to the other two.
var lossyNIC = Scenario{
	Name: "lossy-nic",
	From: "004",
	Ask:  "Do two clean interfaces get their datagrams through beside one that drops packets?",
	Load: "three links of equal rate on a lane each, ten streams of 64 KB datagrams on each, bursts of 8; the third " +
		"loses 10 % of its packets, one by one or ten in a row; 4 MiB",
	Measure: "what each interface completes of what it could",
	Expect: "evicting the oldest, the two others still get packets through, as the mail says: no zero throughput. " +
		"Refusing stops all three.",
	Headline: Shares,
	Variants: func(scale Scale) []Variant {
		// The mean loss of the second is 10 % too: a tenth of the time is bad, for
		// ten packets on average.
		return []Variant{
			lossyVariant(scale, "single", func() Loss { return Bernoulli(0.1) }),
			lossyVariant(scale, "bursts", func() Loss { return GilbertElliott(0.1/9, 0.1, 0, 1) }),
		}
	},
}

func lossyVariant(scale Scale, kind string, loss func() Loss) Variant {
	end, counted := scale.run()
	end, counted = end/2, counted/2 // for three links
	return Variant{
		Name:    params(param("loss", 0.1), param("kind", kind)),
		Limits:  limits(4 * mib),
		Lanes:   3,
		Counted: counted,
		Groups:  []string{"clean1", "clean2", "lossy"},
		Traffic: func(m *Mix) {
			for i := range 3 {
				s := Streams{
					Group: i, N: 10, From: From(Host(1 + i)), Size: Packets(44), Interleave: 8, Rate: scale.rate(), End: end,
					Steer: Steer{First: i},
				}
				if i == 2 {
					s.Path.Loss = loss()
				}
				s.Add(m)
			}
		},
	}
}
