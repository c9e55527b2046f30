package main

import (
	"encoding/json"
	"fmt"
	"os"
)

// throughputReport is the part of a report that is real time.
type throughputReport struct {
	Machine string
	Figures []figure
}

func readThroughput(path string) (*throughput, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	t := new(throughput)
	if err := json.Unmarshal(raw, t); err != nil {
		return nil, fmt.Errorf("%s is not what fraglab throughput --json writes: %w", path, err)
	}
	return t, nil
}

// report draws what was measured of some designs.
func (t *throughput) report(designs []string) *throughputReport {
	rates := figure{Title: "Throughput", Caption: "Fragments a second, from the packet's bytes to the released datagram; the median."}
	var charts []string
	groups := make(map[string][][]bar) // by load
	for _, r := range t.Rates {
		if groups[r.Load] == nil {
			charts = append(charts, r.Load)
		}
		g := 0
		for ; g < len(rates.Keys) && rates.Keys[g].Name != psName(r.Procs); g++ {
		}
		if g == len(rates.Keys) {
			rates.Keys = append(rates.Keys, groupKey{psName(r.Procs), key(seriesGroup+g, false)})
		}
		for len(groups[r.Load]) <= g {
			groups[r.Load] = append(groups[r.Load], make([]bar, len(designs)))
		}
		for i, d := range designs {
			if d == r.Design {
				groups[r.Load][g][i] = bar{seriesGroup + g, r.Median}
			}
		}
	}
	for _, load := range charts {
		p := newChart("million fragments/s", "")
		p.X.Min = 0
		rates.Panels = append(rates.Panels, panel{load, barChart(p, designs, groups[load])})
	}

	costs := figure{Title: "Keys that collide", Caption: "CPU time of a fragment in scenario collision, making the packet included."}
	bars := make([][]bar, len(phases))
	for g, phase := range phases {
		costs.Keys = append(costs.Keys, groupKey{phase, key(seriesGroup+g, false)})
		bars[g] = make([]bar, len(designs))
		for i, d := range designs {
			bars[g][i].series = seriesGroup + g
			for _, c := range t.Collision {
				if c.Design == d {
					bars[g][i].value = c.Ns[phase] / 1000
				}
			}
		}
	}
	p := newChart("µs", "")
	p.X.Min = 0
	costs.Panels = []panel{{"calm, aimed, again", barChart(p, designs, bars)}}
	return &throughputReport{t.Machine, []figure{rates, costs}}
}

func psName(n int) string {
	if n == 1 {
		return "1 P"
	}
	return fmt.Sprintf("%d Ps", n)
}
