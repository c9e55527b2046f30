package reasm

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"corelane/internal/vectors"
)

var updateTraces = flag.Bool("update", false, "write what the traces in testdata produce into them")

// TestTraces runs the readable traces in testdata/*.txt: commands, a line of
// dashes, what they print. A trace names its configuration first, and runs on
// every design, or those it lists, in both modes and with both calls.
//
//	config [family=6] [design=a,b] [timeout=1s] [max_dist=4] [max_age=1s]
//	       [high=n] [low=n] [flat] [linux]
//	add KEY off=n len=n [more] [key=value ...]    several in a row are one batch;
//	                                              family=15: length=n is the size
//	step DURATION | wait DURATION | limits high=n low=n | show | close
//
// wait lets time pass, step does so and calls Step. KEY is a letter: its place in the alphabet is the identification. A queue is
// drawn as its runs with the holes in parentheses. A datagram says which bytes
// came from which add, counted from 1.
func TestTraces(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		blocks := parseTrace(string(text))
		require.NotEmpty(t, blocks, file)
		config := parseArgs(strings.Fields(blocks[0].input)[1:])
		family := 4
		if config.has("family") {
			family = config.number("family")
		}
		for i, w := range waysOnce() {
			if ds := config["design"]; ds != "" && !slices.Contains(strings.Split(ds, ","), w.design) {
				continue
			}
			w.family = family
			t.Run("trace="+name+"/"+w.String(), func(t *testing.T) {
				tr := newTrace(t, w, config)
				for b := range blocks {
					got := tr.run(blocks[b].input)
					if *updateTraces && (i == 0 || config.has("design")) {
						blocks[b].output = got
					}
					require.Equal(t, blocks[b].output, got, "%s:%d:\n%s", file, blocks[b].line, blocks[b].input)
				}
			})
		}
		if *updateTraces {
			require.NoError(t, os.WriteFile(file, []byte(formatTrace(blocks)), 0o644))
		}
	}
}

// block is a group of commands and what they print; comment is what stands above.
type block struct {
	line                   int
	comment, input, output string
}

func parseTrace(text string) (bs []block) {
	for i, lines := 0, strings.Split(text, "\n"); i < len(lines); {
		var b block
		for ; i < len(lines) && (lines[i] == "" || lines[i][0] == '#'); i++ {
			if lines[i] != "" {
				b.comment += lines[i] + "\n"
			}
		}
		b.line = i + 1
		for ; i < len(lines) && lines[i] != "----"; i++ {
			b.input += lines[i] + "\n"
		}
		for i++; i < len(lines) && lines[i] != ""; i++ {
			b.output += lines[i] + "\n"
		}
		if b.input != "" {
			bs = append(bs, b)
		}
	}
	return bs
}

func formatTrace(bs []block) string {
	var b strings.Builder
	for i := range bs {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(bs[i].comment + bs[i].input + "----\n" + bs[i].output)
	}
	return b.String()
}

// args are the key=value words of a command; a bare word is its own value.
type args map[string]string

func parseArgs(words []string) args {
	a := args{}
	for _, w := range words {
		k, v, ok := strings.Cut(w, "=")
		if !ok {
			v = k
		}
		a[k] = v
	}
	return a
}

func (a args) has(k string) bool { _, ok := a[k]; return ok }

func (a args) number(k string) int {
	n, err := strconv.ParseInt(or(a[k], "0"), 0, 64)
	if err != nil {
		panic(err)
	}
	return int(n)
}

func (a args) duration(k string) time.Duration {
	d, err := time.ParseDuration(a[k])
	if err != nil {
		panic(err)
	}
	return d
}

func or(s, def string) string {
	if s == "" {
		return def
	}
	return s
}

// trace runs commands.
type trace struct {
	*rig
	adds    int
	flat    bool // the charge is
	expired []string
}

func newTrace(t *testing.T, w way, config args) *trace {
	tr := &trace{flat: config.has("flat")}
	tr.rig = newRig(t, w, func(c *Config) {
		if config.has("linux") {
			*c = LinuxConfig()
		}
		c.Timeout6 = c.Timeout4
		if config.has("flat") {
			flat(c)
		}
		if config.has("timeout") {
			c.Timeout4 = config.duration("timeout")
			c.Timeout6, c.TimeoutLoWPAN = c.Timeout4, c.Timeout4
		}
		if config.has("max_age") {
			c.MaxAge = config.duration("max_age")
		}
		if config.has("max_dist") {
			c.MaxDist = config.number("max_dist")
		}
		if config.has("high") {
			c.Limits = Limits{High: int64(config.number("high")), Low: int64(config.number("low"))}
		}
		c.OnExpire = func(e *Expired) {
			s := fmt.Sprintf("expired %s: %d bytes in %d fragments after %v", letter(&e.Key), e.Bytes, e.Fragments, time.Duration(e.Age))
			if e.First != nil {
				s += fmt.Sprintf(", first fragment of %d bytes", len(e.First))
			}
			tr.expired = append(tr.expired, s)
		}
	})
	return tr
}

func letter(k *Key) string { return string(rune('a' + uint16(k.ID()) - 1)) }

func (tr *trace) run(input string) string {
	var out strings.Builder
	var frags []frag
	flush := func() {
		if len(frags) > 0 {
			for _, r := range tr.send(frags...) {
				out.WriteString(tr.describe(&r) + "\n")
			}
			frags = nil
		}
	}
	for line := range strings.Lines(input) {
		words := strings.Fields(line)
		if words[0] != "add" {
			flush()
		}
		switch a := parseArgs(words[1:]); words[0] {
		case "config":
			out.WriteString("ok\n")
		case "add":
			frags = append(frags, tr.frag(words[1], a))
		case "step":
			d, err := time.ParseDuration(words[1])
			require.NoError(tr.t, err)
			tr.step(d)
		case "wait":
			d, err := time.ParseDuration(words[1])
			require.NoError(tr.t, err)
			tr.now += int64(d)
		case "limits":
			if err := tr.cache.SetLimits(Limits{High: int64(a.number("high")), Low: int64(a.number("low"))}); err != nil {
				out.WriteString(err.Error() + "\n")
			}
		case "show":
			s := tr.cache.Stats()
			fmt.Fprintf(&out, "%d queues", s.Queues)
			if tr.flat { // else it depends on the mode
				fmt.Fprintf(&out, ", %d bytes charged", s.Bytes)
			}
			out.WriteByte('\n')
			for _, d := range tr.drawn() {
				out.WriteString(d + "\n")
			}
		case "close":
			require.NoError(tr.t, tr.cache.Close())
			fmt.Fprintf(&out, "flushed %d\n", tr.cache.Stats().Flushed)
		default:
			tr.t.Fatalf("no command %q", words[0])
		}
	}
	flush()
	slices.Sort(tr.expired)
	for _, s := range tr.expired {
		out.WriteString(s + "\n")
	}
	tr.expired = nil
	return out.String()
}

// frag makes the fragment of an add command.
func (tr *trace) frag(key string, a args) frag {
	tr.adds++
	f := frag{
		ID: uint32(key[0]-'a') + 1, Off: a.number("off"), Len: a.number("len"), MF: a.has("more"), DF: a.has("df"),
		TOS: a.number("ecn"), Proto: a.number("proto"), Cut: a.number("cut"), Trail: a.number("trail"), Length: a.number("length"),
		Src: a["src"],
	}
	if a.has("options") {
		f.Opt = strings.Repeat("01", a.number("options"))
	}
	if a.has("ext") {
		f.Pre = vecPad(a.number("ext"))
	}
	return f.of(tr.adds)
}

// describe says what became of a fragment.
func (tr *trace) describe(r *Result) string {
	s := r.Verdict.String()
	if r.Restarted {
		s += " restarted"
	}
	if r.Evicted > 0 {
		s += fmt.Sprintf(" evicted=%d", r.Evicted)
	}
	if r.Problem.Due {
		s += fmt.Sprintf(" problem code=%d pointer=%d", r.Problem.Code, r.Problem.Pointer)
	}
	d := r.Datagram
	if d == nil {
		return s
	}
	h := d.Header()
	ecn := h[1] & 3
	if tr.family != 4 {
		ecn = h[1] >> 4 & 3
	}
	s += fmt.Sprintf(": %d bytes of %s, largest fragment %d, ecn %d", d.Len()-len(h), tr.origin(d.Bytes()[len(h):]), d.MaxFragment(), ecn)
	if tr.family == 4 && h[6]&0x40 != 0 {
		s += ", df"
	}
	tr.release(d)
	return s
}

// origin says which add each byte came from.
func (tr *trace) origin(b []byte) string {
	var runs []string
	for at := 0; at < len(b); {
		fill, n := 0, 0
		for k := 1; k <= tr.adds; k++ {
			m := at
			for m < len(b) && b[m] == vectors.PatternByte(k, m) {
				m++
			}
			if m-at > n {
				fill, n = k, m-at
			}
		}
		if n == 0 {
			return "unknown origin"
		}
		runs = append(runs, fmt.Sprintf("#%d", fill))
		at += n
	}
	return strings.Join(runs, " ")
}

// drawn draws every queue held, by key.
func (tr *trace) drawn() (lines []string) {
	for qs := range tr.cache.(*cache).host.index.batches() {
		for _, q := range qs {
			end := ""
			if q.end >= 0 {
				end = fmt.Sprintf(" of %d", q.end)
			}
			lines = append(lines, fmt.Sprintf("%s %v%s", letter(&q.key), &q.holes, end))
		}
	}
	slices.Sort(lines)
	return lines
}
