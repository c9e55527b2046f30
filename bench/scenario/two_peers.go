package scenario

import "corelane/reasm"

// The use case of the 2022 series: one peer hogs the memory, another suffers.
//
// The mail states neither rate nor loss, but its figures say what they must have
// been. Until 100 MB are full of dead queues nearly everything arrives; after
// that nearly nothing. So in a minute at 93.5 Mbit/s 700 MB arrived while dead
// datagrams took 100 MB as charged, 64 MB of payload: one in ten was dead, which
// takes 0.2 % of the fragments. That the average peer got more than the hog
// before and after says that the hog loses more, for they share the memory.
var twoPeers = Scenario{
	Name: "two-peers",
	From: "003",
	Ask:  "Can an average peer work beside a hog, and can the hog?",
	Load: "a hog with ten streams and a peer with one, 64 KB datagrams, packets of the hog's streams interleaved one by " +
		"one. 100MB: the thresholds of the mail, 100 and 75 MB, 0.5 Gbit/s each, 0.2 % loss for the hog and a tenth of it " +
		"for the peer, a minute from an empty cache. 4MiB: the hog fills nine tenths of a link, the peer one; 1 % loss",
	Measure: "what each peer completes of what it could; Jain's index of the two",
	Expect: "100MB: hard-limit serves both until memory is full of dead queues, then hardly anybody; a timeout that " +
		"shrinks with memory helps both, the average peer more: in the mail 42.57 and 50.93 Mbit/s became 420.65 and " +
		"624.79. 4MiB: the same timeout is too short for the hog. Least-recently-used serves both.",
	Headline: Shares,
	Variants: func(scale Scale) []Variant {
		// The timeout is 30 s at any scale, so the large cache needs its minute. (A
		// tenth of memory, timeout and time is not the same: datagrams are as large.)
		large := peersVariant("100MB", 0.5e9, 0.002, 0.5e9, 0.0002)
		large.Limits = reasm.Limits{High: 104857600, Low: 78643200}
		small := peersVariant("4MiB", 0.9*scale.rate(), 0.01, 0.1*scale.rate(), 0.01)
		var end int64
		end, small.Counted = scale.run()
		return []Variant{large.until(60 * second), small.until(end)}
	},
}

// peersVariant is a hog and an average peer, the rate and loss of each.
func peersVariant(memory string, hogRate, hogLoss, rate, loss float64) (v peers) {
	v.Name = params(param("memory", memory), param("hog_loss", hogLoss), param("loss", loss))
	v.Limits = limits(4 * mib)
	v.Groups = []string{"hog", "average"}
	v.streams = []Streams{
		{Group: 0, N: 10, From: From(Host(1)), Rate: hogRate, Path: Path{Loss: Bernoulli(hogLoss)}},
		{Group: 1, N: 1, From: From(Host(2)), Rate: rate, Path: Path{Loss: Bernoulli(loss)}},
	}
	return v
}

type peers struct {
	Variant
	streams []Streams
}

func (p peers) until(end int64) Variant {
	p.Traffic = func(m *Mix) {
		for _, s := range p.streams {
			s.Size, s.Interleave, s.End = Packets(44), 1, end
			s.Add(m)
		}
	}
	return p.Variant
}
