package study

import (
	"embed"
	"fmt"
	"math/rand/v2"
	"strings"

	"corelane/bench/scenario"
)

//go:embed testdata/kernel-links.txt testdata/kernel-mixed.txt testdata/kernel-cpus.txt testdata/captures.txt
var recordings embed.FS

// recording is the order in which fragments once arrived somewhere.
type recording struct {
	dgrams  []recordedDatagram
	packets []recordedPacket
	long    int64 // nanoseconds
}

type recordedDatagram struct{ source, frags int }

type recordedPacket struct {
	after int64 // the one before, nanoseconds
	dgram int
	frag  int
}

// openRecording reads a recording of testdata. It panics if it is broken, which a
// test would have seen.
func openRecording(name string) *recording {
	b, err := recordings.ReadFile("testdata/" + name + ".txt")
	if err != nil {
		panic("study: " + err.Error())
	}
	var r recording
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var d recordedDatagram
		var p recordedPacket
		if _, err := fmt.Sscanf(line, "d %d %d", &d.source, &d.frags); err == nil {
			r.dgrams = append(r.dgrams, d)
			continue
		}
		if _, err := fmt.Sscanf(line, "%d %d %d", &p.after, &p.dgram, &p.frag); err != nil {
			panic(fmt.Sprintf("study: %s: %q: %v", name, line, err))
		}
		r.packets = append(r.packets, p)
		r.long += p.after
	}
	return &r
}

// replayed plays a recording over and over, in some copies at once, each with
// sources of its own and somewhere in the middle at the start.
type replayed struct {
	name   string
	copies int
	rate   float64 // packets/s of all copies together: time is stretched to that
	start  int64
	end    int64
	loss   scenario.Loss
}

func (s replayed) add(t *Traffic) {
	r := t.piece()
	rec := openRecording(s.name)
	stretch := float64(s.copies*len(rec.packets)) / s.rate * 1e9 / float64(rec.long)
	for c := range s.copies {
		s.play(t, r, rec, host(c<<10), stretch)
	}
}

func (s replayed) play(t *Traffic, r *rand.Rand, rec *recording, first uint32, stretch float64) {
	at := float64(s.start) - r.Float64()*float64(rec.long)*stretch
	now := make([]uint32, len(rec.dgrams))
	for int64(at) < s.end {
		for i, d := range rec.dgrams {
			now[i] = t.open(first+uint32(d.source), d.frags, 0)
		}
		for _, p := range rec.packets {
			at += float64(p.after) * stretch
			if int64(at) < s.start || int64(at) >= s.end || s.loss != nil && s.loss(r) {
				continue
			}
			t.send(int64(at), now[p.dgram], p.frag)
		}
	}
}
