package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"corelane/bench/internal/traffic"
	"corelane/bench/scenario"
	"corelane/reasm"
)

// throughputOptions are the command line of throughput.
type throughputOptions struct {
	designs []string
	procs   []int
	every   time.Duration
	rounds  int
	json    bool
}

func newThroughputCommand() *cobra.Command {
	var o throughputOptions
	cmd := &cobra.Command{
		Use:   "throughput",
		Short: "Measure in real time what the other commands show in virtual time",
		Long: `throughput measures how many fragments a second each design takes on this
machine, with one lane for each P, and what a fragment costs when keys collide.
It is the counterpart of sim, whose time is virtual: two runs never give quite
the same. Designs take turns; the median of the rounds is shown.

Loads:
  in-order  64 KB datagrams, one after another, each lane with its own sources
  flood     lone first fragments, each of another datagram, at the limit
  mixed     a datagram of 44 fragments, then 44 of the flood, and so on`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.designs, "design", nil, "designs to measure, separated by commas (default all)")
	f.IntSliceVar(&o.procs, "procs", []int{1, 2}, "numbers of Ps, each with a lane of its own")
	f.DurationVar(&o.every, "for", 100*time.Millisecond, "how long each measurement takes")
	f.IntVar(&o.rounds, "rounds", 5, "measurements of each kind")
	f.BoolVar(&o.json, "json", false, "print a JSON object instead of tables; --throughput puts it into a report")
	return cmd
}

// throughput is the result.
type throughput struct {
	Machine   string      `json:"machine"`
	Rates     []rate      `json:"rates"`
	Collision []collision `json:"collision"`
}

// rate is how fast one design was under one load.
type rate struct {
	Load   string  `json:"load"`
	Procs  int     `json:"procs"`
	Design string  `json:"design"`
	Median float64 `json:"mfragments_per_s"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// collision is what a fragment of scenario collision took, CPU time.
type collision struct {
	Design string             `json:"design"`
	Ns     map[string]float64 `json:"ns"` // by phase
}

func (o *throughputOptions) run(ctx context.Context, stdout, stderr io.Writer) error {
	designs, err := scenario.FindDesigns(o.designs)
	if err != nil {
		return err
	}
	if o.rounds < 1 || o.every <= 0 || slices.ContainsFunc(o.procs, func(n int) bool { return n < 1 || n > 64 }) {
		return fmt.Errorf("rounds must be 1 or more, for above 0, and procs 1 to 64, got %d, %v and %v", o.rounds, o.every, o.procs)
	}
	t := &throughput{Machine: thisMachine()}
	for _, load := range loads {
		for _, procs := range o.procs {
			fmt.Fprintf(stderr, "fraglab: %s on %d Ps\n", load.name, procs)
			samples := make([][]float64, len(designs))
			for range o.rounds {
				for i, d := range designs {
					r, err := measure(ctx, d, load.feed, procs, o.every)
					if err != nil {
						return fmt.Errorf("%s %s: %w", load.name, d, err)
					}
					samples[i] = append(samples[i], r/1e6)
				}
			}
			for i, d := range designs {
				s := samples[i]
				slices.Sort(s)
				t.Rates = append(t.Rates, rate{load.name, procs, d, s[len(s)/2], s[0], s[len(s)-1]})
			}
		}
	}
	if t.Collision, err = collide(ctx, designs, stderr); err != nil {
		return err
	}
	if o.json {
		enc := json.NewEncoder(stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(t)
	}
	return t.write(stdout, designs, o.procs)
}

// collide runs the scenario for its costs, one design at a time.
func collide(ctx context.Context, designs []string, stderr io.Writer) ([]collision, error) {
	fmt.Fprintln(stderr, "fraglab: keys that collide")
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	plan := scenario.Plan{Designs: designs, Scale: scenario.Normal, Seed: 1}
	var err error
	if plan.Scenarios, err = scenario.Find([]string{"collision"}); err != nil {
		return nil, err
	}
	rows, err := plan.Run(ctx)
	if err != nil {
		return nil, err
	}
	var all []collision
	for i, r := range rows {
		c := collision{r.Design, make(map[string]float64)}
		for p, ns := range r.CostNs {
			c.Ns[plan.Scenarios[0].Variants(plan.Scale)[i/len(designs)].Phases[p].Name] = ns
		}
		all = append(all, c)
	}
	return all, nil
}

// A feed adds the packets of one lane, some fragments at a time.
type feed func(lane int) (next func(add func(packet []byte)) (fragments int))

var loads = []struct {
	name string
	feed feed
}{{"in-order", inOrder}, {"flood", flood}, {"mixed", mixed}}

func inOrder(lane int) func(func([]byte)) int {
	packets := traffic.Datagram{Family: 4, ID: 1, Size: 64000, MTU: 1500}.Packets()
	for _, p := range packets {
		p[15] = byte(lane) // source
	}
	return func(add func([]byte)) int {
		for _, p := range packets {
			add(p)
		}
		return len(packets)
	}
}

func flood(lane int) func(func([]byte)) int {
	packet := traffic.Datagram{Family: 4, Size: 64000, MTU: 1500}.Packets()[0]
	source := uint32(lane+1) << 24
	return func(add func([]byte)) int {
		for range 44 {
			source++
			binary.BigEndian.PutUint32(packet[12:], source)
			add(packet)
		}
		return 44
	}
}

func mixed(lane int) func(func([]byte)) int {
	good, bad := inOrder(lane), flood(lane)
	return func(add func([]byte)) int { return good(add) + bad(add) }
}

// measure returns how many fragments a second a design takes, from the packet's
// bytes to the released datagram, with its worker and timers running.
func measure(ctx context.Context, design string, load feed, procs int, length time.Duration) (float64, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
	cfg := reasm.DefaultConfig()
	cfg.Lanes = procs
	cfg.Mode = reasm.Borrow
	cfg.Free = func([]reasm.Buffer) {}
	c, err := reasm.New(design, cfg)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	clock := func() int64 { return int64(time.Since(start)) }
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		worker, lanes sync.WaitGroup
		counts        = make([]int, procs)
	)
	worker.Go(func() { reasm.Run(ctx, c, clock, time.Millisecond) })
	for i := range procs {
		lanes.Go(func() {
			var (
				lane   = c.Lane(i)
				next   = load(i)
				parser reasm.Parser
				f      reasm.Fragment
				n      int
			)
			for now := clock(); now < int64(length) && ctx.Err() == nil; now = clock() {
				n += next(func(packet []byte) {
					parser.Parse(packet, 0, &f)
					if r := lane.Add(now, &f); r.Datagram != nil {
						r.Datagram.Release()
					}
				})
			}
			counts[i] = n
		})
	}
	lanes.Wait()
	took := time.Since(start)
	interrupted := ctx.Err()
	cancel()
	worker.Wait()
	if err := c.Close(); err != nil {
		return 0, err
	}
	sum := 0
	for _, n := range counts {
		sum += n
	}
	return float64(sum) / took.Seconds(), interrupted
}

// write prints a table for each load, and one for colliding keys.
func (t *throughput) write(w io.Writer, designs []string, procs []int) error {
	tables := table.NewWriter()
	tables.SetStyle(table.StyleLight)
	tables.Style().Format.Header = text.FormatDefault
	header := table.Row{"M fragments/s"}
	for _, d := range designs {
		header = append(header, d)
	}
	tables.AppendHeader(header)
	for i := 0; i < len(t.Rates); i += len(designs) {
		line := table.Row{fmt.Sprintf("%s, %d Ps", t.Rates[i].Load, t.Rates[i].Procs)}
		for _, r := range t.Rates[i : i+len(designs)] {
			line = append(line, fmt.Sprintf("%.2f", r.Median))
		}
		tables.AppendRow(line)
	}
	for _, phase := range phases {
		line := table.Row{"collision, " + phase + ", ns"}
		for _, c := range t.Collision {
			line = append(line, fmt.Sprintf("%.0f", c.Ns[phase]))
		}
		tables.AppendRow(line)
	}
	_, err := fmt.Fprintf(w, "Real time on %s\n%s\n", t.Machine, tables.Render())
	return err
}

// phases of scenario collision.
var phases = []string{"calm", "aimed", "again"}

// thisMachine names this machine.
func thisMachine() string {
	cpu := runtime.GOARCH
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
				cpu = strings.TrimSpace(v)
				break
			}
		}
	}
	return fmt.Sprintf("%s, %d CPUs, %s, %s", cpu, runtime.NumCPU(), runtime.GOOS, runtime.Version())
}
