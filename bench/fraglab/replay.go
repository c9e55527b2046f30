package main

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"

	"github.com/jedib0t/go-pretty/v6/progress"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"corelane/bench/capture"
	"corelane/reasm"
)

// replayOptions are the command line of replay.
type replayOptions struct {
	in, out  string
	design   string
	checksum bool
	json     bool
}

func newReplayCommand() *cobra.Command {
	var o replayOptions
	var names []string
	for _, d := range reasm.Designs() {
		names = append(names, d.Name)
	}
	cmd := &cobra.Command{
		Use:   "replay IN.pcap[ng][.gz]",
		Short: "Reassemble the fragments in a capture",
		Long: `replay puts the IP packets of a capture through a fragment cache, in the
capture's own time, and says what became of them. IN may be pcap or pcapng,
plain or gzip; - is standard input. Link types: Ethernet with VLAN tags, raw IP,
PPP, Linux cooked (SLL, SLL2) and loopback, also mixed. Only the outermost IP
packet counts: tunnels are not entered.

With -o it writes a capture in which each whole datagram stands where its last
fragment stood, behind that fragment's link header. Other packets are unchanged.
Fragments that make no whole datagram are left out, as a host would never see
them. OUT has the format of IN (mixed link types need pcapng); a name with
.pcapng asks for pcapng, one that ends in .gz for gzip.

Fragments are joined as a Linux host joins them. Datagrams on different VLANs
are kept apart. Where capture time steps back by more than a second, time goes
on from there.

A damaged capture is replayed up to the damage; then replay fails.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.in = args[0]
			return o.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.out, "output", "o", "", "write a capture with whole datagrams to this file")
	f.StringVar(&o.design, "design", reasm.Default, "fragment cache to use: "+strings.Join(names, ", "))
	f.BoolVar(&o.checksum, "verify-checksum", false, "take IPv4 packets with a wrong header checksum for malformed")
	f.BoolVar(&o.json, "json", false, "print one JSON object instead of a table")
	return cmd
}

// run replays o.in. The report goes to stdout whenever the file could be opened,
// however little of it was good.
func (o *replayOptions) run(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error {
	file, size, err := o.open(stdin)
	if err != nil {
		return err
	}
	defer file.Close()
	r, err := newReplayer(o.design, reasm.DefaultConfig(), reasm.Parser{VerifyChecksum: o.checksum}, nil)
	if err != nil {
		return err
	}
	bar := newReadBar(file, size, o.in, stderr)
	report, err := o.replay(ctx, r, bar)
	bar.stop(err)
	if err != nil {
		err = fmt.Errorf("%s: %w", o.in, err)
	}
	if n := report.Unknown; n > 0 {
		fmt.Fprintf(stderr, "fraglab: %s: %d frames of a link type that is not understood were passed unchanged\n", o.in, n)
	}
	if o.json {
		enc := json.NewEncoder(stdout)
		enc.SetIndent("", "  ")
		return errors.Join(err, enc.Encode(report))
	}
	_, werr := fmt.Fprintln(stdout, report.table())
	return errors.Join(err, werr)
}

// open opens the input and returns its size, 0 if nobody knows.
func (o *replayOptions) open(stdin io.Reader) (io.ReadCloser, int64, error) {
	if o.in == "-" {
		return io.NopCloser(stdin), 0, nil
	}
	f, err := os.Open(o.in)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.IsDir():
		err = fmt.Errorf("%s is a directory", o.in)
	case o.out != "":
		if out, oerr := os.Stat(o.out); oerr == nil && os.SameFile(info, out) {
			err = fmt.Errorf("%s and %s are the same file", o.in, o.out)
		}
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// replay runs r over the capture, and writes the output if there is one. The
// output is finished also after an error.
func (o *replayOptions) replay(ctx context.Context, r *replayer, bar *readBar) (*replayReport, error) {
	in, err := capture.NewReader(bar)
	if err != nil {
		r.conclude()
		return &r.report, err
	}
	if o.out == "" {
		return r.run(ctx, in, bar.tick)
	}
	f, err := os.Create(o.out)
	if err != nil {
		return &r.report, err
	}
	var w io.WriteCloser = f
	name := o.out
	if strings.HasSuffix(name, ".gz") {
		name = strings.TrimSuffix(name, ".gz")
		w = gzip.NewWriter(f)
	}
	r.out = capture.NewWriter(w, in, strings.HasSuffix(name, ".pcapng"))
	report, err := r.run(ctx, in, bar.tick)
	errs := []error{err, r.out.Close()}
	if w != f {
		errs = append(errs, w.Close())
	}
	return report, errors.Join(append(errs, f.Close())...)
}

// table lays the report out for people.
func (r *replayReport) table() string {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = text.FormatDefault
	t.AppendHeader(table.Row{"", "IPv4", "IPv6", "all"})
	num := table.ColumnConfig{Align: text.AlignRight, AlignHeader: text.AlignRight}
	var columns []table.ColumnConfig
	for i := 2; i <= 4; i++ {
		num.Number = i
		columns = append(columns, num)
	}
	t.SetColumnConfigs(columns)
	t.AppendRows([]table.Row{
		{"frames", "", "", r.Frames},
		{"fragments", r.FragmentsV4, r.FragmentsV6, r.FragmentsV4 + r.FragmentsV6},
		{"  atomic", "", r.AtomicV6, r.AtomicV6},
		{"whole datagrams", r.DatagramsV4, r.DatagramsV6, r.DatagramsV4 + r.DatagramsV6},
	})
	t.AppendSeparator()
	t.AppendRows([]table.Row{
		{"malformed packets", "", "", r.Malformed},
		{"  cut short by the capture", "", "", r.CutShort},
		{"duplicates", "", "", r.Duplicates},
		{"overlaps (datagram discarded)", "", "", r.Overlaps},
		{"refused fragments (no memory)", "", "", r.Refused},
		{"incomplete datagrams", "", "", r.Incomplete},
		{"  expired", "", "", r.Expired},
		{"  evicted", "", "", r.Evicted},
	})
	t.AppendSeparator()
	t.AppendRows([]table.Row{
		{"frames passed unchanged", "", "", r.Passed},
		{"  without an IP packet", "", "", r.NoIP},
		{"fragments made whole", "", "", r.Merged},
		{"fragments left out", "", "", r.LeftOut},
	})
	return t.Render()
}

// readBar reads a file and shows how far it is, if there is a terminal to show
// it on.
type readBar struct {
	io.Reader
	read    atomic.Int64
	tracker *progress.Tracker // nil: no bar
	done    chan struct{}     // closed when the bar is no longer drawn
}

// worthABar is a size below which a replay takes no time.
const worthABar = 16 << 20

func newReadBar(file io.Reader, size int64, name string, stderr io.Writer) *readBar {
	b := &readBar{Reader: file}
	if size < worthABar || !isTerminal(stderr) {
		return b
	}
	pw := progress.NewWriter()
	pw.SetOutputWriter(stderr)
	pw.SetAutoStop(true)
	b.tracker = &progress.Tracker{Message: name, Total: size, Units: progress.UnitsBytes}
	pw.AppendTracker(b.tracker)
	b.done = make(chan struct{})
	go func() {
		pw.Render()
		close(b.done)
	}()
	return b
}

func (b *readBar) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.read.Add(int64(n))
	return n, err
}

func (b *readBar) tick() {
	if b.tracker != nil {
		b.tracker.SetValue(b.read.Load())
	}
}

// stop draws the bar for the last time.
func (b *readBar) stop(err error) {
	if b.tracker == nil {
		return
	}
	b.tick()
	if err != nil {
		b.tracker.MarkAsErrored()
	} else {
		b.tracker.MarkAsDone()
	}
	<-b.done
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
