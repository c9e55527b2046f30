package scenario

// The second question of the 2018 patch: once the overload has ended, when does
// the cache work again? Its author killed 190 of 200 senders and still saw
// 13.72 Mbit/s of 9618.
var recovery = Scenario{
	Name: "recovery",
	From: "000",
	Ask:  "190 of 200 streams stop: how long until the rest get all they could?",
	Load: "200 streams of 64 KB datagrams from one host fill a link, then suddenly only 10 of them do; they take turns " +
		"every 44, 8 or 1 packets; 0 or 1 % of the fragments are lost (and 5 % at 8); 4 MiB",
	Measure: "milliseconds from the stop until every following 20 ms carry at least 95 % of the achievable; null if " +
		"that never happens within the run. The other figures count what can complete after the stop.",
	Expect: "designs that evict recover within the time it takes to fill memory once. hard-limit waits for the " +
		"dead queues of the overload to time out, 30 s, and with loss falls back at once.",
	Headline: Recovery,
	Variants: func(scale Scale) []Variant {
		stop, wait := scale.of(1*second, 300*ms, 1*second), scale.of(2*second, 700*ms, 2*second)
		var vs []Variant
		for _, loss := range []float64{0, 0.01} {
			for _, interleave := range []int{44, 8, 1} {
				vs = append(vs, recoveryVariant(scale, interleave, loss, stop, wait))
			}
		}
		vs = append(vs, recoveryVariant(scale, 8, 0.05, stop, wait))
		if scale == Full {
			// Long enough to see the timeout; the slow link keeps it affordable.
			for _, loss := range []float64{0, 0.01} {
				vs = append(vs, longRecovery(loss))
			}
		}
		return vs
	},
}

// longRecovery goes on for longer than the timeout.
func longRecovery(loss float64) Variant {
	v := recoveryVariant(Quick, 8, loss, 1*second, 33*second)
	v.Name = params(v.Name, "wait=33s")
	return v
}

// recoveryVariant goes on for so long after the stop.
func recoveryVariant(scale Scale, interleave int, loss float64, stop, wait int64) Variant {
	return Variant{
		Name:    params(param("streams", "200to10"), param("interleave", interleave), param("loss", loss)),
		Limits:  limits(4 * mib),
		Counted: stop,
		Stop:    stop,
		Traffic: func(m *Mix) {
			Streams{
				N: 200, From: From(Host(1)), Size: Packets(44), Interleave: interleave, Rate: scale.rate(),
				End: stop + wait, StopAt: stop, Keep: 10, Path: Path{Loss: Bernoulli(loss)},
			}.Add(m)
		},
	}
}
