package scenario

// The test bench of 2013: two 10 Gbit/s cards, big or small datagrams, alone or
// beside a flood of incomplete ones on one receive queue or on all.
//
// Virtual time shows who is dropped. What the drops and locks cost on 24 CPUs,
// which is most of the mail's table, is another measurement.
var twentyGig = Scenario{
	Name: "twenty-gig",
	From: "002",
	Ask:  "Does a flood of incomplete datagrams push out 20 Gbit/s of complete ones?",
	Load: "two links of 10 Gbit/s, four streams each, of 64 KB (44 fragments, bursts of 8) or 3 fragments (bursts of 3); " +
		"beside them nothing, or 1 Mpps of lone first fragments from one host (one receive queue) or from any (all " +
		"queues); 24 queues, steered by address pair; 4 MiB",
	Measure: "completed datagrams as a share of the bound; goodput beside the mail's",
	Expect: "whoever evicts the oldest keeps everything, since the flood's queues age and the good ones do not; " +
		"whoever refuses newcomers is stopped by 1 Mpps within milliseconds. In the mail the designs differ by what their " +
		"locks cost, which virtual time does not see: for that see the cost curves.",
	Variants: func(scale Scale) []Variant {
		var vs []Variant
		for _, load := range []string{"20G64K", "20G3F"} {
			for _, dos := range []string{"none", "one-queue", "all-queues"} {
				vs = append(vs, twentyGigVariant(scale, load, dos, "first"))
			}
			if scale != Full {
				continue
			}
			for _, kind := range []string{"middle", "last", "two-of-three", "all-but-last", "half-whole"} {
				vs = append(vs, twentyGigVariant(scale, load, "all-queues", kind))
			}
		}
		return vs
	},
}

// mail002 is the table of the mail, Mbit/s: what it calls net-next, and its LRU
// list per CPU.
var mail002 = map[string]map[string]float64{
	"20G64K,none":       {"global-lru": 17417.4, "percpu-lru": 19047.0},
	"20G3F,none":        {"global-lru": 11376.5, "percpu-lru": 13503.9},
	"20G64K,one-queue":  {"global-lru": 3853.43, "percpu-lru": 10314.10},
	"20G3F,one-queue":   {"global-lru": 6170.56, "percpu-lru": 12363.20},
	"20G64K,all-queues": {"global-lru": 174.8, "percpu-lru": 1528.7},
	"20G3F,all-queues":  {"global-lru": 402.9, "percpu-lru": 2064.9},
}

// floods are the kinds by name.
var floods = map[string]Flood{
	"first": LoneFirst, "first3": LoneFirst3, "middle": LoneMiddle, "last": LoneLast, "two-of-three": TwoOfThree,
	"all-but-last": AllButLast, "half-whole": HalfWhole,
}

func twentyGigVariant(scale Scale, load, dos, kind string) Variant {
	// Goodput is compared with the mail's, so the rates are the mail's at any scale.
	end := scale.of(80*ms, 300*ms, 1*second)
	const queues = 24
	size, interleave := Packets(44), 8
	if load == "20G3F" {
		size, interleave = Packets(3), 3
	}
	v := Variant{
		Name:    params(param("load", load), param("dos", dos)),
		Limits:  limits(4 * mib),
		Lanes:   queues,
		Counted: end / 4,
		Groups:  []string{"link1", "link2"},
		Traffic: func(m *Mix) {
			steer := Steer{By: ByPair, Lanes: queues}
			for link := range 2 {
				Streams{
					Group: link, N: 4, From: FromEach(Host(1 + 10*link)), Size: size, Interleave: interleave, Rate: 10e9,
					End: end, Steer: steer,
				}.Add(m)
			}
			flood := floods[kind]
			flood.Rate, flood.Start, flood.End, flood.Steer = 1e6, end/16, end, steer
			switch dos {
			case "one-queue":
				flood.From = From(Host(666))
				flood.Add(m)
			case "all-queues":
				flood.From = FromAnywhere
				flood.Add(m)
			}
		},
	}
	if kind == "first" {
		v.Mail = mail002[load+","+dos]
	} else {
		v.Name = params(v.Name, param("flood", kind))
	}
	return v
}
