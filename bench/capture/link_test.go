package capture

import (
	"encoding/binary"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/stretchr/testify/require"
)

// unhex reads hexadecimal with blanks between fields.
func unhex(t testing.TB, s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	require.NoError(t, err)
	return b
}

const macs = "020000000001 020000000002 "

// linkCases are link headers and what stands behind them; version 0 is no IP.
var linkCases = []struct {
	name    string
	link    layers.LinkType
	header  string
	version int
	domain  uint64
}{
	{"ethernet", 1, macs + "0800", 4, 0},
	{"ethernet-v6", 1, macs + "86dd", 6, 0},
	{"ethernet-arp", 1, macs + "0806", 0, 0},
	{"ethernet-llc", 1, macs + "0026 424203", 0, 0},
	{"ethernet-pppoe", 1, macs + "8864 110000010016 0021", 0, 0},
	{"ethernet-mpls", 1, macs + "8847 000011ff", 0, 0},
	{"vlan", 1, macs + "8100 0064 0800", 4, 100},
	{"vlan-priority-bits", 1, macs + "8100 f064 86dd", 6, 100},
	{"vlan-priority-tag", 1, macs + "8100 e000 0800", 4, 0},
	{"qinq", 1, macs + "88a8 0001 8100 0002 0800", 4, 1<<12 | 2},
	{"qinq-old", 1, macs + "9100 0001 8100 0002 0800", 4, 1<<12 | 2},
	{"qinq-priority-tag-outside", 1, macs + "88a8 0000 8100 0002 0800", 4, 2},
	{"qinqinq", 1, macs + "88a8 0001 88a8 0002 8100 0003 0800", 4, 1<<24 | 2<<12 | 3},
	{"four-tags", 1, macs + "8100 0fff 8100 0fff 8100 0fff 8100 0fff 86dd", 6, 1<<48 - 1},
	{"five-tags", 1, macs + "8100 0001 8100 0001 8100 0001 8100 0001 8100 0001 0800", 0, 0},
	{"raw-12", 12, "", 4, 0},
	{"raw-14", 14, "", 6, 0},
	{"raw-101", 101, "", 4, 0},
	{"raw-101-v6", 101, "", 6, 0},
	{"ipv4", 228, "", 4, 0},
	{"ipv6", 229, "", 6, 0},
	{"ppp", 9, "0021", 4, 0},
	{"ppp-v6", 9, "0057", 6, 0},
	{"ppp-hdlc", 9, "ff03 0021", 4, 0},
	{"ppp-50", 50, "ff03 0057", 6, 0},
	{"ppp-compressed", 9, "21", 4, 0},
	{"ppp-hdlc-compressed", 9, "ff03 57", 6, 0},
	{"ppp-lcp", 9, "ff03 c021", 0, 0},
	{"sll", 113, "0000 0001 0006 020000000001 0000 0800", 4, 0},
	{"sll-v6", 113, "0004 0001 0006 020000000001 0000 86dd", 6, 0},
	{"sll-vlan", 113, "0000 0001 0006 020000000001 0000 8100 0007 0800", 4, 7},
	{"sll-arp", 113, "0000 0001 0006 020000000001 0000 0806", 0, 0},
	{"sll2", 276, "0800 0000 00000003 0001 00 06 020000000001 0000", 4, 0},
	{"sll2-v6", 276, "86dd 0000 00000003 0001 00 06 020000000001 0000", 6, 0},
	{"sll2-vlan", 276, "8100 0000 00000003 0001 00 06 020000000001 0000 0007 0800", 4, 7},
	{"null-little", 0, "02000000", 4, 0},
	{"null-big", 0, "00000002", 4, 0},
	{"null-v6-linux", 0, "0a000000", 6, 0},
	{"null-v6-openbsd", 0, "18000000", 6, 0},
	{"null-v6-freebsd", 0, "1c000000", 6, 0},
	{"null-v6-macos", 0, "1e000000", 6, 0},
	{"null-v6-macos-big", 0, "0000001e", 6, 0},
	{"null-v6-windows", 0, "17000000", 6, 0},
	{"null-unix", 0, "01000000", 0, 0},
	{"loop", 108, "00000002", 4, 0},
	{"loop-v6", 108, "0000001c", 6, 0},
	{"wifi", 105, "0800", 0, 0},
}

// payload is the beginning of an IP packet to a global address.
func payload(version int) []byte {
	b := make([]byte, 48)
	b[0] = byte(version)<<4 | 5
	b[24] = 0x20
	return b
}

func TestFindIPByLinkType(t *testing.T) {
	for _, c := range linkCases {
		t.Run("link="+c.name, func(t *testing.T) {
			header := unhex(t, c.header)
			p := Packet{Link: c.link, Frame: append(header, payload(c.version)...), Interface: 3}
			ip, ok := p.FindIP()
			if c.version == 0 {
				require.False(t, ok, "%+v", ip)
				return
			}
			require.True(t, ok)
			require.Equal(t, IP{Start: len(header), Version: c.version, Domain: c.domain}, ip)
			require.True(t, CanFindIP(c.link))

			// A header that is cut off anywhere says nothing.
			for n := range header {
				p.Frame = header[:n]
				_, ok := p.FindIP()
				require.False(t, ok, "cut at %d", n)
			}
		})
	}
}

func TestFindIPKeepsLinkScopeOfInterfacesApart(t *testing.T) {
	domain := func(link layers.LinkType, header, dst string, iface int) uint64 {
		packet := payload(6)
		copy(packet[24:], unhex(t, dst))
		p := Packet{Link: link, Frame: append(unhex(t, header), packet...), Interface: iface}
		ip, ok := p.FindIP()
		require.True(t, ok)
		return ip.Domain
	}
	const (
		vlan5  = macs + "8100 0005 86dd"
		linkif = "86dd 0000 %s 0001 00 06 020000000001 0000"
	)
	sll2 := func(ifindex string) string { return strings.Replace(linkif, "%s", ifindex, 1) }
	for _, dst := range []string{"fe80", "febf", "ff02", "ff0e"} {
		require.NotEqual(t, domain(1, vlan5, dst, 0), domain(1, vlan5, dst, 1), dst)
		require.Equal(t, uint64(5), domain(1, vlan5, dst, 1)&0xfff, dst)
		require.NotEqual(t, domain(276, sll2("00000001"), dst, 0), domain(276, sll2("00000002"), dst, 0), dst)
	}
	for _, dst := range []string{"2001", "fec0", "fd00", "fe00"} {
		require.Equal(t, domain(1, vlan5, dst, 0), domain(1, vlan5, dst, 1), dst)
		require.Equal(t, domain(276, sll2("00000001"), dst, 0), domain(276, sll2("00000002"), dst, 0), dst)
	}
}

// gopacketFinds decodes a frame with gopacket and returns where the IP packet
// begins, if nothing but one link header and VLAN tags stands in front of it. It
// leaves out what only gopacket takes for IPv4: the Ethernet type 0xffff.
func gopacketFinds(link layers.LinkType, frame []byte) (ip IP, tags int, ok bool) {
	packet := gopacket.NewPacket(frame, link, gopacket.DecodeOptions{Lazy: true, NoCopy: true})
	for i, l := range packet.Layers() {
		if len(l.LayerContents()) == 0 {
			return IP{}, 0, false // it could not be decoded
		}
		ip.Start = cap(frame) - cap(l.LayerContents()) // both are parts of frame
		switch l := l.(type) {
		case *layers.IPv4:
			ip.Version = 4
			typeAt := ip.Start - 2
			if link == layers.LinkTypeLinuxSLL2 && tags == 0 {
				typeAt = 0
			}
			return ip, tags, typeAt < 0 || binary.BigEndian.Uint16(frame[typeAt:]) != 0xffff
		case *layers.IPv6:
			ip.Version = 6
			return ip, tags, true
		case *layers.Dot1Q:
			tags++
			if l.VLANIdentifier != 0 {
				ip.Domain = ip.Domain<<vlanBits | uint64(l.VLANIdentifier)
			}
		default:
			if i > 0 {
				return IP{}, 0, false
			}
		}
	}
	return IP{}, 0, false
}

// FuzzLink decodes any frame of any link type, and compares with gopacket where
// gopacket finds an IP packet behind the same headers.
func FuzzLink(f *testing.F) {
	for _, c := range linkCases {
		f.Add(uint16(c.link), append(unhex(f, c.header), payload(c.version)...))
	}
	f.Fuzz(func(t *testing.T, link uint16, frame []byte) {
		p := Packet{Link: layers.LinkType(link), Frame: frame}
		ip, ok := p.FindIP()
		if ok {
			require.True(t, CanFindIP(p.Link))
			require.LessOrEqual(t, ip.Start, len(frame))
			require.Contains(t, []int{4, 6}, ip.Version)
			// Nothing behind the IP header matters.
			q := p
			q.Frame = frame[:min(len(frame), ip.Start+40)]
			again, ok := q.FindIP()
			require.True(t, ok)
			require.Equal(t, ip, again)
		} else {
			require.Zero(t, ip)
		}
		if !CanFindIP(p.Link) {
			return
		}
		ip.Domain &= 1<<48 - 1
		if theirs, tags, found := gopacketFinds(p.Link, frame); found && tags <= maxTags {
			require.True(t, ok, "gopacket finds %+v", theirs)
			require.Equal(t, theirs, ip)
		}
	})
}

// Every frame that gopacket encodes with these layers is found.
func TestFindIPInFramesThatGopacketEncodes(t *testing.T) {
	udp := func(et layers.EthernetType) []gopacket.SerializableLayer {
		if et == layers.EthernetTypeIPv6 {
			return []gopacket.SerializableLayer{&layers.IPv6{
				Version: 6, NextHeader: layers.IPProtocolNoNextHeader, SrcIP: make([]byte, 16), DstIP: make([]byte, 16),
			}}
		}
		return []gopacket.SerializableLayer{&layers.IPv4{Version: 4, Protocol: 17, SrcIP: make([]byte, 4), DstIP: make([]byte, 4)}}
	}
	for _, et := range []layers.EthernetType{layers.EthernetTypeIPv4, layers.EthernetTypeIPv6} {
		for tags := range 4 {
			mac := make([]byte, 6)
			eth := &layers.Ethernet{SrcMAC: mac, DstMAC: mac, EthernetType: et}
			frame := []gopacket.SerializableLayer{eth}
			domain := uint64(0)
			for i := range tags {
				eth.EthernetType = layers.EthernetTypeDot1Q
				next := layers.EthernetTypeDot1Q
				if i == tags-1 {
					next = et
				}
				frame = append(frame, &layers.Dot1Q{VLANIdentifier: uint16(100 + i), Type: next})
				domain = domain<<12 | uint64(100+i)
			}
			buf := gopacket.NewSerializeBuffer()
			require.NoError(t, gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true}, append(frame, udp(et)...)...))
			p := Packet{Link: layers.LinkTypeEthernet, Frame: buf.Bytes()}
			ip, ok := p.FindIP()
			require.True(t, ok)
			require.Equal(t, 14+4*tags, ip.Start)
			require.Equal(t, domain, ip.Domain)
			theirs, _, ok := gopacketFinds(p.Link, p.Frame)
			require.True(t, ok)
			require.Equal(t, theirs, ip)
		}
	}
}

// The families that NULL may carry never read the same in the other byte order.
func TestLoopbackFamiliesAreOneSided(t *testing.T) {
	for _, fam := range []uint32{2, 10, 23, 24, 28, 30} {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], fam)
		require.Greater(t, binary.LittleEndian.Uint32(b[:]), uint32(0xffff))
	}
}
