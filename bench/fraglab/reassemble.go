package main

import (
	"context"
	"encoding/binary"
	"io"
	"time"

	"corelane/bench/capture"
	"corelane/reasm"
)

// replayReport is what replay prints. Every frame is either passed, or left out,
// or merged into a datagram: Frames = Passed + Merged + LeftOut. An output has
// Passed + DatagramsV4 + DatagramsV6 packets.
//
// What counts is the outermost IP layer; fragments inside tunnels are none here.
type replayReport struct {
	Frames uint64 `json:"frames"`

	// Fragments are packets whose header says that they are one, also if they are
	// Truncated. FragmentsV6 includes AtomicV6, which are whole in spite of their
	// Fragment header and are passed.
	FragmentsV4 uint64 `json:"fragments_v4"`
	FragmentsV6 uint64 `json:"fragments_v6"`
	AtomicV6    uint64 `json:"atomic_v6"`

	// Datagrams are those put together from two or more fragments.
	DatagramsV4 uint64 `json:"datagrams_v4"`
	DatagramsV6 uint64 `json:"datagrams_v6"`

	// Malformed packets cannot be parsed, or are fragments that break a rule all
	// by themselves. CutShort of them are so because the capture kept only their
	// beginning.
	Malformed uint64 `json:"malformed"`
	CutShort  uint64 `json:"cut_short"`

	Overlaps   uint64 `json:"overlaps"`   // fragments that discarded their datagram
	Duplicates uint64 `json:"duplicates"` // fragments that were there already

	// Incomplete are datagrams some of whose fragments never came: Expired,
	// Evicted, restarted because too old, or still held at the end.
	Incomplete uint64 `json:"incomplete"`
	Expired    uint64 `json:"expired"`
	Evicted    uint64 `json:"evicted"`

	Refused uint64 `json:"refused"` // fragments for which there was no memory

	Passed  uint64 `json:"passed"`   // frames that go through unchanged
	Merged  uint64 `json:"merged"`   // fragments that became datagrams
	LeftOut uint64 `json:"left_out"` // fragments that did not
	NoIP    uint64 `json:"no_ip"`    // of the passed: frames without an IP packet
	Unknown uint64 `json:"unknown"`  // of those: frames of a link type not understood

	// Verdicts counts packets by what the cache said; see reasm.Verdict.
	Verdicts map[string]uint64 `json:"verdicts"`

	Design string `json:"design"`
}

// replayer puts one capture through one cache.
type replayer struct {
	cache  reasm.Cache
	lane   reasm.Lane
	parser reasm.Parser
	out    *capture.Writer // nil: only count
	report replayReport

	clock   captureClock
	stepped int64 // when the cache was stepped last
	frag    reasm.Fragment
}

// newReplayer makes a cache of the design. It copies what it holds, so that the
// reader's buffer can be used again, and the link header fits in front of a
// datagram.
func newReplayer(design string, cfg reasm.Config, parser reasm.Parser, out *capture.Writer) (*replayer, error) {
	cfg.Lanes, cfg.Mode = 1, reasm.Copy
	cache, err := reasm.New(design, cfg)
	if err != nil {
		return nil, err
	}
	return &replayer{cache: cache, lane: cache.Lane(0), parser: parser, out: out, report: replayReport{Design: design}}, nil
}

// run replays in to its end, and returns the report of what was good, also with
// an error. A replayer runs once. tick is called every few hundred packets.
func (r *replayer) run(ctx context.Context, in *capture.Reader, tick func()) (*replayReport, error) {
	err := r.packets(ctx, in, tick)
	if cerr := r.cache.Close(); err == nil {
		err = cerr
	}
	r.conclude()
	return &r.report, err
}

func (r *replayer) packets(ctx context.Context, in *capture.Reader, tick func()) error {
	var p capture.Packet
	for {
		switch err := in.Next(&p); {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		if err := r.packet(&p); err != nil {
			return err
		}
		if r.report.Frames%512 == 0 {
			tick()
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
}

// stepEvery is how often, in capture time, the cache's timers and worker run.
const stepEvery = 5 * time.Millisecond

// packet takes one packet in, and writes what comes out.
func (r *replayer) packet(p *capture.Packet) error {
	r.report.Frames++
	now := r.clock.at(p.Time)
	if now-r.stepped >= int64(stepEvery) {
		for r.cache.Step(now, 1024) {
		}
		r.stepped = now
	}
	ip, ok := p.FindIP()
	if !ok {
		r.report.NoIP++
		if !capture.CanFindIP(p.Link) {
			r.report.Unknown++
		}
		return r.pass(p)
	}
	fragments, datagrams := &r.report.FragmentsV4, &r.report.DatagramsV4
	if ip.Version == 6 {
		fragments, datagrams = &r.report.FragmentsV6, &r.report.DatagramsV6
		r.parser.IPv6(p.Frame[ip.Start:], ip.Domain, &r.frag)
	} else {
		r.parser.IPv4(p.Frame[ip.Start:], ip.Domain, &r.frag)
	}
	res := r.lane.Add(now, &r.frag)
	switch {
	case res.Verdict == reasm.Whole:
		return r.pass(p)
	case res.Verdict.Malformed():
		if res.Verdict == reasm.Truncated && len(p.Frame) < p.Length {
			r.report.CutShort++
		}
		if res.Verdict != reasm.BadHeader && saysFragment(p.Frame[ip.Start:]) {
			*fragments++
		}
		return r.pass(p)
	}
	*fragments++
	switch res.Verdict {
	case reasm.Atomic:
		return r.pass(p)
	case reasm.Complete:
		*datagrams++
		return r.merge(p, ip.Start, res.Datagram)
	}
	return nil
}

// saysFragment reports whether the header of a packet that is not all there makes
// it a fragment. In IPv6 it looks at the first next header only: the others may
// be missing.
func saysFragment(packet []byte) bool {
	if len(packet) < 8 {
		return false
	}
	if packet[0]>>4 == 6 {
		return packet[6] == 44
	}
	const moreOrOffset = 0x3fff
	return binary.BigEndian.Uint16(packet[6:])&moreOrOffset != 0
}

// pass lets a packet through as it is.
func (r *replayer) pass(p *capture.Packet) error {
	r.report.Passed++
	if r.out == nil {
		return nil
	}
	return r.out.Write(p)
}

// merge writes d in the place of its last fragment p, behind p's link header.
func (r *replayer) merge(p *capture.Packet, linkHeader int, d *reasm.Datagram) error {
	defer d.Release()
	r.report.Merged += uint64(d.Fragments())
	if r.out == nil {
		return nil
	}
	whole := *p
	whole.Frame = d.Prepend(linkHeader)
	copy(whole.Frame, p.Frame[:linkHeader])
	whole.Length = len(whole.Frame)
	return r.out.Write(&whole)
}

// conclude completes the report from the counters of the closed cache.
func (r *replayer) conclude() {
	s, p := r.cache.Stats(), &r.report
	v := &s.Verdicts
	p.AtomicV6 = v[reasm.Atomic]
	p.Overlaps, p.Duplicates, p.Refused = v[reasm.Overlap], v[reasm.Duplicate], v[reasm.Refused]
	p.Malformed = v[reasm.BadLength] + v[reasm.OffsetTooLarge] + v[reasm.ShortChain] + v[reasm.NoRoom] +
		v[reasm.Truncated] + v[reasm.BadHeader] + v[reasm.BadChecksum]
	p.Expired, p.Evicted = s.Expired, s.Evicted
	p.Incomplete = s.Expired + s.Evicted + s.TooFar + s.TooOld + s.Flushed
	p.LeftOut = p.Frames - p.Passed - p.Merged
	p.Verdicts = make(map[string]uint64)
	for verdict, n := range v {
		if n > 0 {
			p.Verdicts[reasm.Verdict(verdict).String()] = n
		}
	}
}

// captureClock makes a clock that never steps back out of the times in a
// capture, which do: packets of several receive queues stand a little out of
// order, clocks are set, and captures are put behind each other in one file. It
// starts at 0.
type captureClock struct {
	now     int64
	latest  int64 // capture time that now stands for
	started bool
}

const (
	// disorder is how far back a time may be and still belong to the same clock:
	// time waits then. Beyond it time goes on from the new time; waiting for the
	// old one would keep everything from expiring.
	disorder = int64(time.Second)
	// longestJump is enough to expire everything, and small enough that no number
	// of broken times makes the clock overflow.
	longestJump = int64(time.Hour)
)

// at returns the time of a packet that was captured at t.
func (c *captureClock) at(t time.Time) int64 {
	ns, ok := capture.Nanoseconds(t)
	switch {
	case !ok:
	case !c.started:
		c.latest, c.started = ns, true
	case ns > c.latest:
		c.now += min(ns-c.latest, longestJump)
		c.latest = ns
	case ns < c.latest-disorder:
		c.latest = ns
	}
	return c.now
}
