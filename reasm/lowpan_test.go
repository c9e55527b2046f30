package reasm

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What 6LoWPAN does in its own way, on every design, mode and call.

// forEachLinkWay is forEachWay for frames of 6LoWPAN.
func forEachLinkWay(t *testing.T, adapt func(*Config), test func(*testing.T, *rig)) {
	t.Helper()
	for _, w := range waysOnce() {
		w.family = loWPAN
		t.Run(w.String(), func(t *testing.T) { test(t, newRig(t, w, adapt)) })
	}
}

// RE-L22: Linux takes fragments of 6LoWPAN in order only.
func TestLoWPANCompletesInEveryOrder(t *testing.T) {
	const size = 300
	parts := []frag{link(7, 0, 96, size), link(7, 96, 104, size), link(7, 200, 8, size), link(7, 208, 92, size)}
	forEachLinkWay(t, nil, func(t *testing.T, r *rig) {
		permute(parts, func(order []frag) {
			r.now++
			d := r.verdicts([]Verdict{Held, Held, Held, Complete}, order...)[3].Datagram
			require.Equal(t, KeyLoWPAN(linkA, linkB, 7, size, 0), d.Key())
			require.Equal(t, 4, d.Fragments())
			require.Equal(t, 5+104, d.MaxFragment())
			require.Equal(t, r.now, d.Created())
			require.Equal(t, linkIPv6(size, 253, 0)[:40], d.Header())
			require.Equal(t, size, d.Len())
			r.payload(d, [3]int{0, 0, size - 40})
			r.held(0)
		})
	})
}

// The same with a compressed first fragment, of which the frame holds some bytes
// behind the headers, or none.
func TestLoWPANCompressedFirstFragmentCompletes(t *testing.T) {
	forEachLinkWay(t, nil, func(t *testing.T, r *rig) {
		choose := rand.New(rand.NewPCG(9, 9)).IntN
		for _, size := range []int{48, 49, 127, 300, 301, 2047} {
			for _, behind := range []int{0, 8, 40} {
				packet := linkUDP(size, linkA, linkB, choose)
				head, lead, _ := compress(packet, linkA, linkB, choose)
				d := linkDatagram{packet, uint16(size)}
				frames := d.cut(head, lead, []byte{byte((lead+behind)/8 - 1), 11, 0, 20})
				for _, backwards := range []bool{false, true} {
					fs := make([][]byte, len(frames))
					for i := range frames {
						fs[i] = slices.Clone(frames[i])
					}
					if backwards {
						slices.Reverse(fs)
					}
					rs := r.sendPackets(fs...)
					last := rs[len(rs)-1]
					require.Equal(t, Complete, last.Verdict)
					require.Len(t, last.Datagram.Header(), lead)
					require.Equal(t, packet, last.Datagram.Bytes())
					require.Equal(t, packet, last.Datagram.AppendTo(nil))
					require.Equal(t, packet, last.Datagram.Prepend(14)[14:])
					r.release(last.Datagram)
				}
			}
		}
		r.held(0)
	})
}

// A UDP checksum that was left out is computed, odd lengths included.
func TestLoWPANChecksumThatWasLeftOutIsComputed(t *testing.T) {
	always := func(n int) int { return n - 1 } // compress all there is
	forEachLinkWay(t, nil, func(t *testing.T, r *rig) {
		for size := 48; size < 400; size += 7 {
			packet := linkIPv6(size, 17, size)
			copy(packet[40:], []byte{0xf0, 0xb1, 0xf0, 0xb2, 0, byte(size - 40), 0, 0})
			packet[44] = byte((size - 40) >> 8)
			sum := slowUDPSum(packet)
			packet[46], packet[47] = byte(sum>>8), byte(sum)
			head, lead, nhc := compress(packet, linkA, linkB, always)
			require.Equal(t, byte(0xf7), nhc)
			frames := linkDatagram{packet, 1}.cut(head, lead, nil)
			slices.Reverse(frames)
			rs := r.sendPackets(frames...)
			d := rs[len(rs)-1].Datagram
			require.NotNil(t, d)
			require.Equal(t, packet, d.Bytes())
			r.release(d)
		}
	})
}

// A sum that comes out as 0 is sent as all ones (RFC 768).
func TestLoWPANChecksumIsNeverZero(t *testing.T) {
	packet := linkIPv6(64, 17, 1)
	copy(packet[40:], []byte{0xf0, 0xb1, 0xf0, 0xb2, 0, 24, 0, 0})
	packet[62], packet[63] = 0, 0
	sum := slowUDPSum(packet)
	packet[62], packet[63] = byte(sum>>8), byte(sum) // now all adds up
	require.Equal(t, uint16(0xffff), slowUDPSum(packet))
	packet[46], packet[47] = 0xff, 0xff
	head, lead, _ := compress(packet, linkA, linkB, func(n int) int { return n - 1 })
	forEachLinkWay(t, nil, func(t *testing.T, r *rig) {
		rs := r.sendPackets(linkDatagram{packet, 1}.cut(head, lead, []byte{0})...)
		require.Equal(t, packet, rs[1].Datagram.Bytes())
		r.release(rs[1].Datagram)
	})
}

// Q2: what cannot be right, or cannot be undone, leaves nothing behind, not even
// with the kernel's quirks.
func TestLoWPANRefusedFragmentsCostNoState(t *testing.T) {
	good := linkDatagram{linkIPv6(200, 59, 0), 1}
	first := func(head string) []byte { return append([]byte{0xc0, 200, 0, 1}, unhex(head)...) }
	version := good.first(good.plain(), 0, 96)
	version[5] = 0x45
	for _, tt := range []struct {
		name string
		want Verdict
		b    []byte
	}{
		{"empty", Truncated, nil},
		{"size-39", BadHeader, resize(good.next(96, 104), 39)},
		{"first-cut", Truncated, []byte{0xc0, 200, 0}},
		{"next-cut", Truncated, []byte{0xe0, 200, 0, 1}},
		{"next-empty", BadLength, good.next(96, 96)},
		{"next-odd", BadLength, good.next(96, 103)},
		{"next-beyond-size", OffsetTooLarge, resize(good.next(96, 200), 199)},
		{"next-far-beyond", OffsetTooLarge, resize(good.next(96, 200), 96)},
		{"next-at-0", BadHeader, good.next(0, 96)},
		{"next-in-header", BadHeader, good.next(32, 96)},
		{"first-without-dispatch", Truncated, first("")},
		{"first-with-part-of-header", ShortChain, good.first(good.plain(), 0, 32)},
		{"first-odd", BadLength, good.first(good.plain(), 0, 95)},
		{"first-beyond-size", OffsetTooLarge, append(good.first(good.plain(), 0, 200), 0)},
		{"first-not-IPv6", BadHeader, version},
		{"first-with-another-length", BadHeader, resize(good.first(good.plain(), 0, 96), 208)},
		{"hc1", Unsupported, first("42 fb 0000")},
		{"iphc-cut", Truncated, first("7b")},
		{"iphc-source-context", Unsupported, first("7b53 3a 0000000000000000 00000000")},
		{"iphc-destination-context", Unsupported, first("7b35 3a 0000000000000000 0000")},
		{"iphc-multicast-context", Unsupported, first("7b3c 3a 000000000000 0000")},
		{"iphc-reserved-destination", BadHeader, first("7b34 3a 0000")},
		{"iphc-reserved-multicast", BadHeader, first("7b3d 3a 0000")},
		{"iphc-extension-header", Unsupported, first("7f33 e0 3a 04 000000000000")},
		{"iphc-no-next-header", Truncated, first("7f33")},
		{"iphc-udp-larger-than-size", BadHeader, append([]byte{0xc0, 47, 0, 1}, unhex("7f33f012341234123400000000")...)},
		{"mesh-cut", Truncated, []byte{0xbf, 1, 0, 1, 0}},
		{"broadcast-only", Truncated, []byte{0x50, 1}},
		{"not-a-frame", Whole, []byte{0x00, 1, 2, 3}},
		{"whole", Whole, good.packet},
		{"whole-compressed", Whole, unhex("7b333a8000")},
		{"recoverable-fragment", Whole, unhex("e80100600000000000")},
	} {
		b := tt.b
		t.Run("case="+tt.name, func(t *testing.T) {
			for _, adapt := range []func(*Config){nil, func(c *Config) { *c = LinuxConfig() }} {
				forEachLinkWay(t, adapt, func(t *testing.T, r *rig) {
					rs := r.sendPackets(slices.Clone(b))
					require.Equal(t, tt.want.String(), rs[0].Verdict.String())
					require.False(t, rs[0].Problem.Due)
					require.Zero(t, r.held(0).Bytes)
				})
			}
		})
	}
	var f Fragment
	elided := first("7b33 3a 8000")
	require.Equal(t, BadHeader, Parser{}.LoWPAN(elided, linkA, LinkAddr{}, 0, &f), "made of an address that is not there")
}

// The largest datagram, the smallest, and those of one fragment.
func TestLoWPANSizes(t *testing.T) {
	forEachLinkWay(t, nil, func(t *testing.T, r *rig) {
		for _, size := range []int{40, 41, 48, 104, 1280, 1281, 2040, 2047} { // Linux ends at 1280
			for _, n := range []int{8, 96, 1024, 2048} {
				frags := []frag{link(1, 0, min(max(n, 40), size), size)}
				for off := max(n, 40); off < size; off += n {
					frags = append(frags, link(1, off, min(n, size-off), size))
				}
				rs := r.send(frags...)
				last := rs[len(rs)-1]
				require.Equal(t, Complete, last.Verdict, "size %d, %d bytes each", size, n)
				require.Equal(t, len(frags), last.Datagram.Fragments())
				require.Equal(t, linkIPv6(size, 253, 0), last.Datagram.Bytes())
				r.release(last.Datagram)
			}
		}
		r.held(0)
	})
}

// RFC 4944 5.2: the addresses of a mesh header are those of the datagram.
func TestLoWPANMeshAddressesNameTheDatagram(t *testing.T) {
	forEachLinkWay(t, nil, func(t *testing.T, r *rig) {
		packet := linkIPv6(120, 59, 0)
		copy(packet[8:], unhex("fe80000000000000000000fffe001122"))
		copy(packet[24:], unhex("fe800000000000003302030405060708"))
		d := linkDatagram{packet, 5}
		first := d.first(unhex("7833 3b 3d"), 40, 96) // both addresses left out
		for _, mesh := range []string{"a5 1122 3102030405060708", "af0f 1122 3102030405060708", "a5 1122 3102030405060708 5077"} {
			rs := r.sendPackets(append(unhex(mesh), first...), append(unhex(mesh), d.next(96, 120)...))
			require.Equal(t, Complete, rs[1].Verdict)
			k := rs[1].Datagram.Key()
			require.Equal(t, ShortAddr(0x1122), k.LinkSrc())
			require.Equal(t, ExtendedAddr([8]byte{0x31, 2, 3, 4, 5, 6, 7, 8}), k.LinkDst())
			require.Equal(t, packet, rs[1].Datagram.Bytes())
			r.release(rs[1].Datagram)
		}
	})
}

// RFC 4944 5.3: 60 s from the first fragment that came. What is told is the
// beginning of the datagram, decompressed.
func TestLoWPANTimeout(t *testing.T) {
	const size = 200
	var first [][]byte
	adapt := func(c *Config) {
		c.MaxAge = 0
		c.OnExpire = func(e *Expired) { first = append(first, slices.Clone(e.First)) }
	}
	forEachLinkWay(t, adapt, func(t *testing.T, r *rig) {
		first = nil
		packet := linkIPv6(size, 59, 0)
		d := linkDatagram{packet, 1}
		head, _, _ := compress(packet, linkA, linkB, func(n int) int { return n - 1 })
		r.sendPackets(d.next(96, 104))
		r.now += int64(20 * time.Second)
		r.sendPackets(d.first(head, 40, 96))
		r.one(Held, link(2, 0, 96, size))
		r.one(Held, link(3, 96, 96, size))
		if r.design == "adaptive" {
			r.step(time.Hour) // its timeouts depend on memory
		} else {
			r.step(40*time.Second - 1)
			require.Empty(t, first)
			r.held(3)
			r.step(1)
			require.Equal(t, [][]byte{packet[:96]}, first)
			r.held(2)
			r.step(20 * time.Second)
		}
		require.Len(t, first, 3)
		require.Contains(t, first, linkIPv6(size, 253, 0)[:96])
		require.Contains(t, first, []byte(nil))
		require.EqualValues(t, 3, r.held(0).Expired)
	})
}

func TestLoWPANKeyPrints(t *testing.T) {
	k := KeyLoWPAN(linkA, linkB, 7, 1280, 0xabcd)
	require.Equal(t, "020000fffe00000a > 0b0b tag 7 size 1280 domain 0xabcd", k.String())
	require.Equal(t, LoWPAN, k.Family())
	require.Equal(t, "none", k.link(0, 0).String())
	require.False(t, k.Src().IsValid())
	ip := Key4([4]byte{1, 2, 3, 4}, [4]byte{5, 6, 7, 8}, 9, 17, 0)
	require.Equal(t, LinkAddr{}, ip.LinkSrc())
	require.Equal(t, "1.2.3.4 > 5.6.7.8 id 9 proto 17", ip.String())
	ip = Key6([16]byte{15: 1}, [16]byte{15: 2}, 9, 0)
	require.Equal(t, "::1 > ::2 id 9", ip.String())
}
