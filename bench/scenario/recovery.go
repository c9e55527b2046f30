package scenario

import "fmt"

// The second question of the 2018 patch: once the overload has ended, when does
// the cache work again? Its author killed 190 of 200 senders and still saw
// 13.72 Mbit/s of 9618.
var recovery = Scenario{
	Name: "recovery",
	From: "000",
	Ask:  "190 of 200 streams stop: how long until the rest get all they could?",
	Load: "200 streams of 64 KB datagrams from one host fill a link for 1 s, then 10 of them do; they take turns " +
		"every 44, 8 or 1 packets; 0 or 1 % of the fragments are lost (and 5 % at 8); 4 MiB",
	Measure: "milliseconds from the stop until every following 20 ms carry at least 95 % of the achievable; null if " +
		"that never happens within the run. The other figures count what can complete after the stop.",
	Expect: "designs that evict recover within the time it takes to fill memory once. hard-limit waits for the " +
		"dead queues of the overload to time out, 30 s, and with loss falls back at once.",
	Headline: Recovery,
	Variants: func(scale Scale) []Variant {
		var vs []Variant
		for _, loss := range []float64{0, 0.01} {
			for _, interleave := range []int{44, 8, 1} {
				vs = append(vs, recoveryVariant(scale, interleave, loss, 2*second))
			}
		}
		vs = append(vs, recoveryVariant(scale, 8, 0.05, 2*second))
		if scale == Full {
			// Long enough to see the timeout; the slow link keeps it affordable.
			vs = append(vs, recoveryVariant(Quick, 8, 0, 33*second), recoveryVariant(Quick, 8, 0.01, 33*second))
		}
		return vs
	},
}

// recoveryVariant goes on for so long after the stop.
func recoveryVariant(scale Scale, interleave int, loss float64, wait int64) Variant {
	const stop = 1 * second
	name := params(param("streams", "200to10"), param("interleave", interleave), param("loss", loss))
	if wait != 2*second {
		name = params(name, fmt.Sprintf("wait=%ds", wait/second))
	}
	return Variant{
		Name:    name,
		Limits:  limits(4 * mib),
		Counted: stop,
		Stop:    stop,
		Traffic: func(m *Mix) {
			Streams{
				N: 200, From: From(Host(1)), Fragments: Always(44), Interleave: interleave, Rate: scale.rate(),
				End: stop + wait, StopAt: stop, Keep: 10, Path: Path{Loss: Bernoulli(loss)},
			}.Add(m)
		},
	}
}
