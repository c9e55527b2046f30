package main

import (
	"fmt"
	"html/template"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
)

// figures draws what a scenario is about. One that has no figure of its own gets
// bars.
func (r *results) figures() []figure {
	switch r.scenario.Name {
	case "overload":
		return []figure{r.goodputAgainstLoss(), r.memory("interleave=8,loss=0.01")}
	case "recovery":
		return []figure{r.recovery(), r.memory("interleave=8,loss=0.01", "interleave=1,loss=0")}
	case "oversubscribed":
		return []figure{r.goodputAgainstStreams()}
	case "two-peers":
		return []figure{r.fairness(), r.memory("memory=100MB")}
	case "lossy-nic":
		return []figure{r.fairness()}
	case "twenty-gig":
		return []figure{r.besideMail()}
	}
	return []figure{r.bars()}
}

// param returns the value of a key in a variant's name.
func param(variant, key string) string {
	for kv := range strings.SplitSeq(variant, ",") {
		if k, v, _ := strings.Cut(kv, "="); k == key {
			return v
		}
	}
	return ""
}

// spread is a set of line charts: the share of the bound along one parameter, a
// chart for each value of the others.
func (r *results) spread(along, label string, title func(variant string) string) []panel {
	var order []string
	charts := make(map[string][]line)
	ticks := make(map[string]plot.ConstantTicks)
	for i, v := range r.variants {
		t := title(v.Name)
		if charts[t] == nil {
			order = append(order, t)
			charts[t] = make([]line, len(r.plan.Designs)+1)
		}
		lines := charts[t]
		x := float64(len(ticks[t]))
		ticks[t] = append(ticks[t], plot.Tick{Value: x, Label: axisLabel(along, param(v.Name, along))})
		for d, row := range r.rows[i] {
			if s := share(row); s >= 0 {
				lines[d].series = d
				lines[d].points = append(lines[d].points, plotter.XY{X: x, Y: 100 * s})
			}
		}
		if row := r.rows[i][0]; row.BoundNominal > 0 {
			last := &lines[len(lines)-1]
			last.series = seriesLimit
			last.points = append(last.points, plotter.XY{X: x, Y: 100 * float64(row.Clairvoyant) / float64(row.BoundNominal)})
		}
	}
	var panels []panel
	for _, t := range order {
		p := newChart(label, "% of the bound")
		p.X.Tick.Marker, p.Y.Tick.Marker = ticks[t], percentTicks
		p.Y.Min, p.Y.Max = -1, 102
		panels = append(panels, panel{t, lineChart(p, charts[t], true)})
	}
	return panels
}

func axisLabel(key, value string) string {
	var loss float64
	if _, err := fmt.Sscan(value, &loss); key == "loss" && err == nil {
		return fmt.Sprintf("%g", 100*loss)
	}
	return value
}

var clairvoyantKey = groupKey{"a clairvoyant heuristic: the best possible is above it", key(seriesLimit, false)}

func (r *results) goodputAgainstLoss() figure {
	return figure{
		Title:   "Goodput against loss",
		Caption: "Payload of completed datagrams, as a share of what any cache could deliver, also one that knows the future.",
		Keys:    []groupKey{clairvoyantKey},
		Panels: r.spread("loss", "fragments lost, %", func(v string) string {
			return param(v, "streams") + " streams, " + inARow(param(v, "interleave"))
		}),
	}
}

func inARow(interleave string) string {
	if interleave == "1" {
		return "packet by packet"
	}
	return interleave + " packets in a row"
}

func (r *results) goodputAgainstStreams() figure {
	return figure{
		Title:   "Goodput against datagrams in flight",
		Caption: "Each stream has one datagram under way; 4 MiB hold about 40 whole ones.",
		Keys:    []groupKey{clairvoyantKey},
		Panels: r.spread("streams", "streams", func(v string) string {
			from := "a host for each stream"
			if param(v, "peers") == "1" {
				from = "one host"
			}
			return axisLabel("loss", param(v, "loss")) + " % lost, " + from
		}),
	}
}

// recovery shows goodput around the stop of the load.
func (r *results) recovery() figure {
	const window, before = 50e6, 200e6 // nanoseconds
	f := figure{
		Title:   "Recovery",
		Caption: "190 of 200 streams stop at 0. Goodput as a share of what could complete, each 50 ms.",
	}
	for i, v := range r.variants {
		var lines []line
		for d, row := range r.rows[i] {
			l := line{series: d}
			n := max(int(window/row.TimelineStep), 1)
			for from := max(int((v.Stop-before)/row.TimelineStep), 0); from+n <= len(row.Timeline); from += n {
				var got, could int64
				for _, p := range row.Timeline[from : from+n] {
					got += p.Delivered
					could += p.Achievable
				}
				if could > 0 {
					at := float64(int64(from+n)*row.TimelineStep-v.Stop) / 1e9
					l.points = append(l.points, plotter.XY{X: at, Y: min(100*float64(got)/float64(could), 120)})
				}
			}
			lines = append(lines, l)
		}
		p := newChart("seconds after the stop", "% of the achievable")
		p.Y.Tick.Marker, p.Y.Min, p.Y.Max = percentTicks, -1, 105
		f.Panels = append(f.Panels, panel{variantTitle(v.Name, "streams"), lineChart(p, lines, false)})
	}
	return f
}

// memory shows what is charged over time, in variants whose name has one of the
// given parts.
func (r *results) memory(parts ...string) figure {
	const points = 150
	f := figure{
		Title:   "Memory over time",
		Caption: "Bytes charged, at their highest in each step.",
		Keys:    []groupKey{{"the limit", key(seriesLimit, false)}},
	}
	for i, v := range r.variants {
		if !containsAny(v.Name, parts) {
			continue
		}
		var lines []line
		end := 0.0
		for d, row := range r.rows[i] {
			l := line{series: d}
			n := (len(row.Timeline) + points - 1) / points
			for from := 0; from < len(row.Timeline); from += n {
				most := int64(0)
				for _, p := range row.Timeline[from:min(from+n, len(row.Timeline))] {
					most = max(most, p.Charged)
				}
				end = float64(int64(from)*row.TimelineStep) / 1e9
				l.points = append(l.points, plotter.XY{X: end, Y: float64(most) / (1 << 20)})
			}
			lines = append(lines, l)
		}
		limit := float64(v.Limits.High) / (1 << 20)
		lines = append(lines, line{seriesLimit, plotter.XYs{{X: 0, Y: limit}, {X: end, Y: limit}}})
		p := newChart("seconds", "MiB")
		p.Y.Min = 0
		f.Panels = append(f.Panels, panel{variantTitle(v.Name), lineChart(p, lines, false)})
	}
	return f
}

func containsAny(s string, parts []string) bool {
	for _, p := range parts {
		if strings.Contains(s, p) {
			return true
		}
	}
	return false
}

// fairness shows what each group of senders completed of what it could.
func (r *results) fairness() figure {
	f := figure{
		Title:   "Fairness",
		Caption: "What each group of senders completed of what it could. Behind a design's name: Jain's index of the shares.",
	}
	for g, name := range r.variants[0].Groups {
		f.Keys = append(f.Keys, groupKey{name, key(seriesGroup+g, false)})
	}
	for i, v := range r.variants {
		var labels []string
		groups := make([][]bar, len(v.Groups))
		for _, row := range r.rows[i] {
			label := row.Design
			if row.Jain != nil {
				label += fmt.Sprintf(" %.2f", *row.Jain)
			}
			labels = append(labels, label)
			for g, group := range row.Groups {
				groups[g] = append(groups[g], bar{seriesGroup + g, 100 * float64(group.Completed) / float64(max(group.Completable, 1))})
			}
		}
		f.Panels = append(f.Panels, panel{variantTitle(v.Name), percentBars("% of its completable", labels, groups)})
	}
	return f
}

// bars shows the share of the bound of each design, a chart for each variant.
func (r *results) bars() figure {
	f := figure{Title: "Goodput", Caption: "Payload of completed datagrams, as a share of the bound."}
	for i, v := range r.variants {
		bars := make([]bar, len(r.plan.Designs))
		for d, row := range r.rows[i] {
			bars[d] = bar{d, 100 * max(share(row), 0)}
		}
		f.Panels = append(f.Panels, panel{variantTitle(v.Name), percentBars("% of the bound", r.plan.Designs, [][]bar{bars})})
	}
	return f
}

// besideMail shows goodput, and what the mail measured on its machines.
func (r *results) besideMail() figure {
	f := figure{
		Title: "Goodput beside the mail's table",
		Caption: "The mail's figures are from real machines, and most of what they show is the cost of locks on 24 CPUs, " +
			"which virtual time does not see.",
		Keys: []groupKey{{"as the mail has it", key(seriesGroup+3, false)}},
	}
	for i, v := range r.variants {
		ours, mail := make([]bar, len(r.plan.Designs)), []bar(nil)
		for d, row := range r.rows[i] {
			ours[d] = bar{d, row.GoodputMbps / 1000}
			b := bar{series: seriesGroup + 3}
			if row.MailMbps != nil {
				b.value = *row.MailMbps / 1000
			}
			mail = append(mail, b)
		}
		p := newChart("Gbit/s", "")
		p.X.Min, p.X.Max = 0, 20
		f.Panels = append(f.Panels, panel{variantTitle(v.Name), barChart(p, r.plan.Designs, [][]bar{ours, mail})})
	}
	return f
}

func percentBars(label string, labels []string, groups [][]bar) template.HTML {
	p := newChart(label, "")
	p.X.Tick.Marker, p.X.Min, p.X.Max = percentTicks, 0, 100
	return barChart(p, labels, groups)
}

// variantTitle is a variant's name for people, without the keys that all have.
func variantTitle(name string, without ...string) string {
	var parts []string
	for kv := range strings.SplitSeq(name, ",") {
		if k, _, _ := strings.Cut(kv, "="); !containsAny(k, without) || len(without) == 0 {
			parts = append(parts, strings.ReplaceAll(kv, "=", " "))
		}
	}
	return strings.Join(parts, ", ")
}
