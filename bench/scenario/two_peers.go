package scenario

import "corelane/reasm"

// The use case of the 2022 series: one peer hogs the memory, another suffers.
//
// The mail states neither rate nor loss, but its figures say what they must have
// been. With hard-limit nearly everything arrives until 100 MB are full of dead
// queues, and then nearly nothing, for what expires makes room for a piece of a
// datagram here and there. So what arrived in the minute is what was sent while
// dead datagrams took 100 MB: at 0.5 Gbit/s from each host, 42.57 and 50.93 Mbit/s
// come out if 0.4 % of the hog's fragments are lost, and a twentieth of that of
// the average peer's. A datagram's fragments leave a host in a row.
//
// With that load hard-limit delivers 43.5 and 51.7, the mail's figures within 3 %,
// and the average peer gains 9.5 times from adaptive (in the mail 12.3). The hog
// gains 5.9 times, in the mail 9.9. It is refused while its queues take 75 MB, and
// the queues of the first seconds, when memory was empty, live for up to 30 s: for
// that time no other figure of the mail leaves room. Losing less, the hog gains
// less, for it had more before; losing more, too, for it is refused more; and an
// average peer that loses more pushes memory to 100 MB, where both are refused.
// A minute that follows another gives it 68 % of what it could get instead of 63.
var twoPeers = Scenario{
	Name: "two-peers",
	From: "003",
	Ask:  "Can an average peer work beside a hog, and can the hog?",
	Load: "a hog with ten streams and a peer with one, 64 KB datagrams. 100MB: the thresholds of the mail, 100 and 75 MB, 0.5 " +
		"Gbit/s each, datagram after datagram, 0.4 % loss for the hog and 0.02 % for the peer, a minute from an empty " +
		"cache. 4MiB: the hog fills nine tenths of a link, its streams interleaved packet by packet, the peer one; 1 % loss",
	Measure: "what each peer completes of what it could; Jain's index of the two",
	Expect: "100MB: hard-limit serves both until memory is full of dead queues, then hardly anybody; a timeout that " +
		"shrinks with memory helps both, the average peer more: in the mail 42.57 and 50.93 Mbit/s became 420.65 and " +
		"624.79. Here the hog gains 5.9 times, not the mail's 9.9: it is refused while its queues take 75 MB, and those of " +
		"the first seconds, when memory was empty, live for up to 30 s; no loss or rate that the mail's other figures " +
		"allow gives it more. 4MiB: the same timeout is too short for the hog. Least-recently-used serves both.",
	Headline: Shares,
	Variants: func(scale Scale) []Variant {
		// The timeout is 30 s at any scale, so the large cache needs its minute. (A
		// tenth of memory, timeout and time is not the same: datagrams are as large.)
		large := peersVariant("100MB", 44, 0.5e9, 0.004, 0.5e9, 0.0002)
		large.Limits = reasm.Limits{High: 104857600, Low: 78643200}
		small := peersVariant("4MiB", 1, 0.9*scale.rate(), 0.01, 0.1*scale.rate(), 0.01)
		var end int64
		end, small.Counted = scale.run()
		return []Variant{large.until(60 * second), small.until(end)}
	},
}

// peersVariant is a hog and an average peer, the rate and loss of each.
func peersVariant(memory string, interleave int, hogRate, hogLoss, rate, loss float64) (v peers) {
	v.Name = params(param("memory", memory), param("hog_loss", hogLoss), param("loss", loss))
	v.Limits = limits(4 * mib)
	v.Groups = []string{"hog", "average"}
	v.streams = []Streams{
		{Group: 0, N: 10, From: From(Host(1)), Interleave: interleave, Rate: hogRate, Path: Path{Loss: Bernoulli(hogLoss)}},
		{Group: 1, N: 1, From: From(Host(2)), Interleave: interleave, Rate: rate, Path: Path{Loss: Bernoulli(loss)}},
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
			s.Size, s.End = Packets(44), end
			s.Add(m)
		}
	}
	return p.Variant
}
