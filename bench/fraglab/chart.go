package main

import (
	"bytes"
	"fmt"
	"html/template"
	"image/color"
	"math"
	"regexp"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Charts are drawn with gonum/plot and put into the page as SVG. A page is light
// or dark, so a chart has no colours of its own: each series has a number, and the
// style sheet says what colour that is.

// line is one series of a chart.
type line struct {
	series int
	points plotter.XYs
}

// bar is one bar of a bar chart, in the row of a label.
type bar struct {
	series int
	value  float64
}

// Series numbers: designs count from 0.
const (
	seriesLimit = 90 + iota // a limit, the mail's figure, what is possible
	seriesGroup             // and the following: groups of senders
)

// The size of a chart, in points: as many pixels where one column is shown.
const (
	chartWidth  = 340
	chartHeight = 210
)

func init() { plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"} }

func newChart(x, y string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	p.X.Label.Text, p.Y.Label.Text = x, y
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Label.TextStyle.Font.Size = 11
		a.Tick.Label.Font.Size = 10
		a.Tick.Length = 3
		a.Padding = 2
		a.Tick.Marker = roundTicks{}
	}
	return p
}

// lineChart draws lines. Those of the designs that come first are wider, so that
// of several on top of each other all are seen.
func lineChart(p *plot.Plot, lines []line, marks bool) template.HTML {
	grid := plotter.NewGrid()
	p.Add(grid)
	for _, l := range lines {
		if len(l.points) == 0 {
			continue
		}
		style := lineStyle(l.series)
		p.Add(&plotter.Line{XYs: l.points, LineStyle: style})
		if marks && l.series < seriesLimit {
			s := &plotter.Scatter{XYs: l.points}
			s.GlyphStyle = draw.GlyphStyle{Color: style.Color, Radius: 3, Shape: glyph(l.series)}
			p.Add(s)
		}
	}
	return render(p, chartWidth, chartHeight)
}

// barChart draws a horizontal bar for each label and group of bars; the first
// label is on top.
func barChart(p *plot.Plot, labels []string, groups [][]bar) template.HTML {
	const room = 20.0 // of a label, in points
	width := vg.Length(room * 0.8 / float64(len(groups)))
	n := len(labels)
	names := make([]string, n)
	for i, l := range labels {
		names[n-1-i] = l
	}
	for g, bars := range groups {
		for i, b := range bars {
			c := &plotter.BarChart{Values: plotter.Values{b.value}, Width: width, Horizontal: true}
			c.Color, c.XMin = seriesColor(b.series), float64(n-1-i)
			c.Offset = width * vg.Length(float64(len(groups)-1)/2-float64(g))
			p.Add(c)
		}
	}
	if len(groups) == 1 {
		p.Add(shortBars(groups[0], p.X.Max))
	}
	p.NominalY(names...)
	p.Y.Padding = 12
	return render(p, chartWidth, vg.Length(room*float64(n))+60)
}

// shortBars writes the value behind bars that are less than half as long as the
// axis, so that nothing is not mistaken for missing.
func shortBars(bars []bar, axis float64) *plotter.Labels {
	var l plotter.XYLabels
	for i, b := range bars {
		if b.value < axis/2 {
			l.XYs = append(l.XYs, plotter.XY{X: b.value, Y: float64(len(bars) - 1 - i)})
			l.Labels = append(l.Labels, strconv.FormatFloat(b.value, 'f', 1, 64))
		}
	}
	labels, err := plotter.NewLabels(l)
	if err != nil {
		panic(err) // a value is not a number
	}
	for i := range labels.TextStyle {
		labels.TextStyle[i].Font.Size = 9
		labels.TextStyle[i].YAlign = text.YCenter
	}
	labels.Offset = vg.Point{X: 4}
	return labels
}

// key draws a line and mark as they are in charts.
func key(series int, marks bool) template.HTML {
	const width, height = 34, 14
	c := vgsvg.NewWith(vgsvg.UseWH(width, height))
	area := draw.New(c)
	style := lineStyle(series)
	if series > seriesLimit {
		style.Width = 9
	}
	area.StrokeLine2(style, 1, height/2, width-1, height/2)
	if marks {
		area.DrawGlyph(draw.GlyphStyle{Color: style.Color, Radius: 3.5, Shape: glyph(series)}, vg.Point{X: width / 2, Y: height / 2})
	}
	return page(c, width, height)
}

// seriesColor stands for a series until colors replaces it.
func seriesColor(series int) color.Color { return color.RGBA{R: 1, G: uint8(series), B: 7, A: 255} }

func lineStyle(series int) draw.LineStyle {
	s := draw.LineStyle{Color: seriesColor(series), Width: vg.Length(max(3.2-0.25*float64(series), 1.2))}
	switch {
	case series == seriesLimit:
		s.Width, s.Dashes = 1.2, []vg.Length{5, 3}
	case series > seriesLimit:
		s.Width = 2
	case series%2 == 1:
		s.Dashes = []vg.Length{6, 2}
	}
	return s
}

// glyph is the mark of a series. Ten are told apart without their colour.
func glyph(series int) draw.GlyphDrawer {
	all := []draw.GlyphDrawer{
		draw.RingGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.CrossGlyph{}, draw.PlusGlyph{}, draw.BoxGlyph{},
		draw.PyramidGlyph{}, diamond{}, draw.CircleGlyph{}, filledDiamond{},
	}
	return all[series%len(all)]
}

// diamond is a square on its corner, filledDiamond the same filled.
type (
	diamond       struct{}
	filledDiamond struct{}
)

func (diamond) DrawGlyph(c *draw.Canvas, s draw.GlyphStyle, at vg.Point) {
	c.SetLineStyle(draw.LineStyle{Color: s.Color, Width: 0.5})
	c.Stroke(diamondAt(at, s.Radius))
}

func (filledDiamond) DrawGlyph(c *draw.Canvas, s draw.GlyphStyle, at vg.Point) {
	c.SetColor(s.Color)
	c.Fill(diamondAt(at, s.Radius))
}

func diamondAt(at vg.Point, r vg.Length) (p vg.Path) {
	p.Move(vg.Point{X: at.X, Y: at.Y + r})
	p.Line(vg.Point{X: at.X + r, Y: at.Y})
	p.Line(vg.Point{X: at.X, Y: at.Y - r})
	p.Line(vg.Point{X: at.X - r, Y: at.Y})
	p.Close()
	return p
}

// roundTicks are a few multiples of 1, 2 or 5 times a power of ten.
type roundTicks struct{}

func (roundTicks) Ticks(from, to float64) (ticks []plot.Tick) {
	step := math.Pow(10, math.Floor(math.Log10(to-from)))
	for _, part := range []float64{0.2, 0.5, 1, 2} {
		if (to-from)/(step*part) <= 5 {
			step *= part
			break
		}
	}
	for n := int(math.Ceil(from/step - 1e-9)); float64(n) <= to/step+1e-9; n++ {
		at := float64(n) * step
		ticks = append(ticks, plot.Tick{Value: at, Label: strconv.FormatFloat(at, 'g', 6, 64)})
	}
	return ticks
}

func render(p *plot.Plot, width, height vg.Length) template.HTML {
	c := vgsvg.NewWith(vgsvg.UseWH(width, height))
	p.Draw(draw.New(c))
	return page(c, width, height)
}

var (
	svgStart = regexp.MustCompile(`(?s)^.*<svg[^>]*>`)
	svgText  = regexp.MustCompile(`font-family:[^"]*;font-size:`)
	svgColor = regexp.MustCompile(`#01([0-9A-F]{2})07`)
)

// page makes an SVG document part of a page: its colours are those of the style
// sheet, its width that of its place.
func page(c *vgsvg.Canvas, width, height vg.Length) template.HTML {
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		panic(err) // a bytes.Buffer takes everything
	}
	s := svgStart.ReplaceAllString(b.String(), fmt.Sprintf(`<svg viewBox="0 0 %g %g" role="img">`, width, height))
	s = svgText.ReplaceAllString(s, "font-size:")
	s = svgColor.ReplaceAllStringFunc(s, func(m string) string {
		n, _ := strconv.ParseUint(m[3:5], 16, 8) // two digits, as svgColor says
		return fmt.Sprintf("var(--s%d)", n)
	})
	s = strings.NewReplacer("#000000", "var(--axis)", "#808080", "var(--grid)").Replace(s)
	return template.HTML(s)
}

// percentTicks marks 0 to 100 %.
var percentTicks = plot.ConstantTicks{{Value: 0, Label: "0"}, {Value: 25}, {Value: 50, Label: "50"}, {Value: 75},
	{Value: 100, Label: "100"}}
