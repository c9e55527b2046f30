package main

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"github.com/stretchr/testify/require"
)

// datagram4 is a whole IPv4 packet with a right checksum and n random bytes.
func datagram4(rng *rand.Rand, id uint16, n int) []byte {
	b := make([]byte, 20+n)
	b[0], b[1], b[8], b[9] = 0x45, 0x10, 64, 17
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	binary.BigEndian.PutUint16(b[4:], id)
	copy(b[12:], []byte{10, 0, 0, 1, 10, 0, 0, 2})
	for i := range n {
		b[20+i] = byte(rng.Uint32())
	}
	checksum4(b)
	return b
}

// checksum4 sets the header checksum of an IPv4 packet without options.
func checksum4(b []byte) {
	b[10], b[11] = 0, 0
	binary.BigEndian.PutUint16(b[10:], ^sum4(b))
}

// sum4 is the ones' complement sum of a header, 0xffff if its checksum is right.
func sum4(b []byte) uint16 {
	var s uint32
	for i := 0; i < 20; i += 2 {
		s += uint32(b[i])<<8 | uint32(b[i+1])
	}
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return uint16(s)
}

// fragments4 cuts an IPv4 packet into fragments with size payload bytes each.
func fragments4(d []byte, size int) (fs [][]byte) {
	for off := 0; off < len(d)-20; off += size {
		end := min(off+size, len(d)-20)
		f := append(append([]byte{}, d[:20]...), d[20+off:20+end]...)
		word := uint16(off / 8)
		if end < len(d)-20 {
			word |= 0x2000
		}
		binary.BigEndian.PutUint16(f[2:], uint16(len(f)))
		binary.BigEndian.PutUint16(f[6:], word)
		checksum4(f)
		fs = append(fs, f)
	}
	return fs
}

// datagram6 is a whole IPv6 packet with a hop-by-hop header and n random bytes.
func datagram6(rng *rand.Rand, n int) []byte {
	b := make([]byte, 48+n)
	b[0], b[6], b[7] = 0x60, 0, 64
	binary.BigEndian.PutUint16(b[4:], uint16(8+n))
	b[8], b[23], b[24], b[39] = 0x20, 1, 0x20, 2
	copy(b[40:], []byte{59, 0, 1, 4, 0, 0, 0, 0}) // then no next header, PadN
	for i := range n {
		b[48+i] = byte(rng.Uint32())
	}
	return b
}

// fragments6 cuts a packet of datagram6 behind its hop-by-hop header.
func fragments6(d []byte, id uint32, size int) (fs [][]byte) {
	for off := 0; off < len(d)-48; off += size {
		end := min(off+size, len(d)-48)
		f := append([]byte{}, d[:48]...)
		f = append(f, d[40], 0, 0, 0, 0, 0, 0, 0)
		f = append(f, d[48+off:48+end]...)
		word := uint16(off)
		if end < len(d)-48 {
			word |= 1
		}
		f[40] = 44
		binary.BigEndian.PutUint16(f[4:], uint16(len(f)-40))
		binary.BigEndian.PutUint16(f[50:], word)
		binary.BigEndian.PutUint32(f[52:], id)
		fs = append(fs, f)
	}
	return fs
}

// sent is one frame of a capture that a test makes.
type sent struct {
	at    time.Duration // since the capture's start
	frame []byte
	iface int
}

// began is when captures made by tests start.
var began = time.Unix(1_700_000_000, 0)

// writePcap writes a capture of one link type.
func writePcap(t testing.TB, path string, link layers.LinkType, frames ...sent) {
	var b bytes.Buffer
	w := pcapgo.NewWriterNanos(&b)
	require.NoError(t, w.WriteFileHeader(2048, link))
	for _, s := range frames {
		require.NoError(t, w.WritePacket(s.info(), s.frame))
	}
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o600))
}

// writePcapNG writes a capture with an interface for each link type.
func writePcapNG(t testing.TB, path string, links []layers.LinkType, frames ...sent) {
	var b bytes.Buffer
	w, err := pcapgo.NewNgWriter(&b, links[0])
	require.NoError(t, err)
	for _, l := range links[1:] {
		_, err := w.AddInterface(pcapgo.NgInterface{LinkType: l})
		require.NoError(t, err)
	}
	for _, s := range frames {
		require.NoError(t, w.WritePacket(s.info(), s.frame))
	}
	require.NoError(t, w.Flush())
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o600))
}

func (s sent) info() gopacket.CaptureInfo {
	return gopacket.CaptureInfo{
		Timestamp: began.Add(s.at), CaptureLength: len(s.frame), Length: len(s.frame), InterfaceIndex: s.iface,
	}
}

// join concatenates a link header and a packet.
func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

var (
	macs   = []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2}
	ether4 = join(macs, []byte{0x08, 0x00})
	ether6 = join(macs, []byte{0x86, 0xdd})
)

// vlan is an Ethernet header with an 802.1ad and an 802.1Q tag in front of IPv4.
func vlan(outer, inner uint16) []byte {
	b := join(macs, []byte{0x88, 0xa8, 0, 0, 0x81, 0x00, 0, 0, 0x08, 0x00})
	binary.BigEndian.PutUint16(b[14:], outer)
	binary.BigEndian.PutUint16(b[18:], inner)
	return b
}

// repoPath resolves a path that is given relative to the top of the repository.
func repoPath(t testing.TB, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	dir, err := os.Getwd()
	require.NoError(t, err)
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return filepath.Join(dir, path)
		}
		up := filepath.Dir(dir)
		require.NotEqual(t, dir, up, "no go.work above the test")
		dir = up
	}
}
