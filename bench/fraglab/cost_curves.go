package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"

	"corelane/bench/scale"
)

// costCurves draws what fraglab scale run predicted: what was written to path, or
// what is committed. Designs keep their colours.
func costCurves(path string, designs []string) ([]figure, error) {
	curves, err := scale.Curves()
	if path != "" {
		curves, err = readCurves(path)
	}
	if err != nil {
		return nil, err
	}
	f := figure{
		Title:   "Fragments of completed datagrams against CPUs",
		Caption: "Million fragments a second. +DoS: a flood on one receive queue; +MQ: on all of them.",
	}
	var loads []string
	for _, c := range curves {
		if !slices.Contains(loads, c.Load) {
			loads = append(loads, c.Load)
		}
	}
	for _, load := range loads {
		var lines []line
		var ticks plot.ConstantTicks
		for _, c := range curves {
			d := slices.Index(designs, c.Design)
			if c.Load != load || d < 0 {
				continue
			}
			l := line{series: d}
			for i, n := range c.CPUs {
				x := math.Log2(float64(n))
				l.points = append(l.points, plotter.XY{X: x, Y: c.Rate[i] / 1e6})
				if !slices.ContainsFunc(ticks, func(t plot.Tick) bool { return t.Value == x }) {
					ticks = append(ticks, plot.Tick{Value: x, Label: fmt.Sprint(n)})
				}
			}
			lines = append(lines, l)
		}
		if len(lines) == 0 {
			continue
		}
		p := newChart("CPUs", "M fragments/s")
		p.X.Tick.Marker, p.Y.Min = ticks, 0
		f.Panels = append(f.Panels, panel{load, lineChart(p, lines, true)})
	}
	if len(f.Panels) == 0 {
		return nil, nil
	}
	return []figure{f}, nil
}

func readCurves(path string) ([]scale.Curve, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p := new(scale.Prediction)
	if err := json.Unmarshal(raw, p); err != nil {
		return nil, fmt.Errorf("%s is not what fraglab scale run --json writes: %w", path, err)
	}
	return p.Curves(), nil
}
