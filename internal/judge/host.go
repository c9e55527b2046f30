// Package judge replays what a kernel did with fragments (package vectors) on a
// cache of package reasm, and says where the two differ.
//
// Between the two stands a model of the host that the cache is part of: what it
// refuses before reassembly, what it does with the result, and what it answers.
// The model decides nothing about fragments; that is the cache's.
package judge

import (
	"slices"
	"time"

	"corelane/reasm"
)

// host is the model. Two addresses of each family are local, so are multicast
// and broadcast ones; sockets listen to the protocols 253, 254 and 17.
type host struct {
	family int
	nf     bool // defragment before options and routes are looked at, as conntrack does
	parser reasm.Parser
	cache  reasm.Cache
	now    int64
	out    *outcome // of the step at hand
}

// outcome is what the host did in one step.
type outcome struct {
	datagrams []datagram
	icmp      []icmp
	other     map[string]int // counters of IP that are not reassembly's
}

type datagram struct {
	proto   int
	payload []byte
	max     int
	header  []byte // IPv6: with the extension headers, which hbh, dopt and rt repeat

	hbh, dopt, rt []byte
}

type icmp struct {
	typ, code, ptr int
	quote          []byte
}

// arrival is one packet on its way through the host: enter takes it up to the
// cache, leave goes on behind it.
type arrival struct {
	f       reasm.Fragment
	offered bool // the cache must see f
	refused bool // whatever the cache says, nothing follows

	at, prev int // IPv6: where the Fragment header stands, and what announces it
}

// enter takes in a packet from an interface.
func (h *host) enter(b []byte, iface int, a *arrival) {
	*a = arrival{}
	switch {
	case len(b) == 0 || b[0]>>4 != 4 && b[0]>>4 != 6:
		h.count("DeviceRefused")
	case h.family == 4:
		h.enter4(b, a)
	default:
		h.enter6(b, iface, a)
	}
}

// leave goes on with the cache's verdict about an offered packet.
func (h *host) leave(a *arrival, r reasm.Result) {
	switch {
	case a.refused:
	case h.family == 4:
		h.leave4(a, r)
	default:
		h.leave6(a, r)
	}
}

// pause lets time pass.
func (h *host) pause(d time.Duration) {
	h.now += int64(d)
	for h.cache.Step(h.now, 1000) {
	}
}

// expired answers time exceeded, if a host must.
func (h *host) expired(e *reasm.Expired) {
	switch {
	case e.First == nil:
	case h.family == 4 && answerable4(e.First) && local4(e.Key.Dst()):
		h.answer(11, 1, 0, e.First)
	case h.family == 6 && answerable6(e.First, 3, 1):
		h.answer(3, 1, 0, e.First)
	}
}

func (h *host) count(counter string) {
	if h.out.other == nil {
		h.out.other = make(map[string]int)
	}
	h.out.other[counter]++
}

func (h *host) answer(typ, code, ptr int, quote []byte) {
	limit := 576 - 20 - 8
	if h.family == 6 {
		limit = 1280 - 40 - 8
	}
	h.out.icmp = append(h.out.icmp, icmp{typ, code, ptr, slices.Clone(quote[:min(len(quote), limit)])})
}

// malformed counts what the parser refused; header says whether the packet has
// its whole IP header.
func (h *host) malformed(v reasm.Verdict, header bool) bool {
	switch {
	case v == reasm.Truncated && header:
		h.count("InTruncatedPkts")
	case v == reasm.Truncated, v == reasm.BadHeader, v == reasm.BadChecksum:
		h.count("InHdrErrors")
	default:
		return false
	}
	return true
}

// The charges of the kernel that recorded the vectors, which its limit is about.

// queueCharge is the size of Linux 6.18's queues.
func queueCharge(f *reasm.Fragment) int64 {
	if f.Key.Family() == reasm.IPv4 {
		return 200
	}
	return 184
}

// packetCharge is the true size of a packet from a TUN device: a 256-byte
// descriptor and a power of two that holds 64 bytes in front, the packet as it
// arrived (padding included, so capacity, not length) and 320 behind it; beyond
// a page the rest stands in whole pages.
func packetCharge(f *reasm.Fragment) int64 {
	const page, around = 4096, 64 + 320
	n := cap(f.Packet)
	if n > page-around {
		return 256 + page + int64((n-(page-around)+page-1)/page*page)
	}
	for _, size := range []int{576, 1024, 2048, page} {
		if n+around <= size {
			return 256 + int64(size)
		}
	}
	panic("unreachable")
}
