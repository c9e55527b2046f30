package scenario

import "corelane/reasm"

// The bench of the 2014 series, which moved eviction to a worker: netperf with
// 64000-byte messages, bound to a CPU or not. Its other test is the stress of a
// timeout of 0 and a low mark of one byte.
var streams = Scenario{
	Name: "streams",
	From: "001",
	Ask:  "What does an eviction worker do for ordinary senders, and what does max_dist?",
	Load: "64000-byte messages from one host fill a link; 1 % of the fragments are lost (0 in the last two). bound: one " +
		"stream, in order. unbound: the sender moves between CPUs, so packets less than 100 µs apart change places. " +
		"ten: ten streams, bursts of 8, with max_dist off and 64. stress: ten streams of 4000 bytes, timeout 0, low mark " +
		"one byte; 4 MiB",
	Measure: "completed datagrams as a share of the bound; evictions, worker steps",
	Expect: "evicting designs deliver everything, with a worker or inline: the mail's gain of 17 to 37 % is service " +
		"cost, which virtual time does not show. max_dist 64 kills ten streams of one host: between two fragments of " +
		"a datagram there are more than 64 of others. A timeout of 0 delivers what completes between two steps.",
	Variants: func(scale Scale) []Variant {
		return []Variant{
			streamsVariant(scale, "bound", 1, Path{Loss: Bernoulli(0.01)}),
			streamsVariant(scale, "unbound", 1, Path{Loss: Bernoulli(0.01), Jitter: 100_000}),
			streamsVariant(scale, "ten", 10, Path{Loss: Bernoulli(0.01)}).with("max_dist=0", nil),
			streamsVariant(scale, "ten", 10, Path{Loss: Bernoulli(0.01)}).with("max_dist=64", func(c *reasm.Config) { c.MaxDist = 64 }),
			streamsVariant(scale, "ten", 10, Path{}).with("max_dist=64", func(c *reasm.Config) { c.MaxDist = 64 }),
			streamsVariant(scale, "stress", 10, Path{}).with("timeout=0", func(c *reasm.Config) {
				c.Timeout4, c.Limits.Low = 0, 1
			}),
		}
	},
}

func streamsVariant(scale Scale, senders string, n int, p Path) Variant {
	end, counted := scale.run()
	loss := 0.01
	if p.Loss == nil {
		loss = 0
	}
	size := Messages(64000)
	if senders == "stress" {
		size = Messages(4000) // 3 fragments
	}
	return Variant{
		Name:    params(param("senders", senders), param("loss", loss)),
		Limits:  limits(4 * mib),
		Counted: counted,
		Traffic: func(m *Mix) {
			Streams{
				N: n, From: From(Host(1)), Size: size, Interleave: 8, Rate: scale.rate(), End: end, Path: p,
			}.Add(m)
		},
	}
}

// with returns the variant under a configuration that differs.
func (v Variant) with(name string, change func(*reasm.Config)) Variant {
	v.Name = params(v.Name, name)
	v.Config = change
	return v
}
