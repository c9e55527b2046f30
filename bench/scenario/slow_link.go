package scenario

import "fmt"

// The mail's defence of the LRU list: a sender on a 512 kbit/s link lives beside
// a flood of 1 Mpps, if memory holds what the flood brings between two of its
// packets.
var slowLink = Scenario{
	Name: "slow-link",
	From: "002",
	Ask:  "Does a sender on a 512 kbit/s link still get through beside a flood?",
	Load: "datagrams of 3 fragments, a packet each 23.4 ms, beside 1 Mpps of lone first fragments from any source; " +
		"4, 24 and 240 MiB (quick: a tenth of both)",
	Measure: "share of the slow sender's datagrams that complete",
	Expect: "least-recently-used needs memory for 23.4 ms of the flood as it is charged: 2560 bytes a fragment, " +
		"60 MB. With 240 MiB all complete, with 24 (the mail's figure for 1 Gbit/s, uncharged) and 4 none.",
	Variants: func(scale Scale) []Variant {
		pps, share := 1_000_000, 1.0
		if scale.slow() {
			pps, share = 100_000, 0.1
		}
		end := scale.of(2*second, 2*second, 4*second)
		var vs []Variant
		for _, memory := range []float64{4, 24, 240} {
			vs = append(vs, slowLinkVariant(memory*share, pps, end))
		}
		return vs
	},
}

// slowGap is the time of 1500 bytes at 512 kbit/s.
const slowGap = 1500 * 8 * second / 512_000

func slowLinkVariant(memory float64, pps int, end int64) Variant {
	return Variant{
		Name:    params(fmt.Sprintf("memory=%.3gMiB", memory), param("pps", pps)),
		Limits:  limits(int64(memory * float64(mib))),
		Counted: 200 * ms, // 240 MiB are full after 98 ms
		Traffic: func(m *Mix) {
			Paced{From: Host(1), Fragments: 3, Gap: slowGap, End: end}.Add(m)
			flood := LoneFirst
			flood.From, flood.Rate, flood.End = FromAnywhere, float64(pps), end+3*slowGap
			flood.Add(m)
		},
	}
}
