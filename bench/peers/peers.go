// Package peers puts other Go reassemblers behind one small interface, so that
// benchmarks can feed them the packets they feed ours.
package peers

import (
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/ip4defrag"
	"github.com/gopacket/gopacket/ip6defrag"
	"github.com/gopacket/gopacket/layers"
)

// Peer reassembles packets of one family, parsing included.
type Peer interface {
	// Add takes one IP packet and reports whether it completed a datagram. The
	// packet is not changed afterwards.
	Add(packet []byte) (complete bool)
}

// Gopacket4 is gopacket's IPv4 defragmenter. It keeps the packets it is given,
// as our Borrow mode does, and has no memory limit.
type Gopacket4 struct{ d *ip4defrag.IPv4Defragmenter }

// NewGopacket4 makes one.
func NewGopacket4() *Gopacket4 { return &Gopacket4{ip4defrag.NewIPv4Defragmenter()} }

// epoch is a time for the defragmenters: reading the clock is not their work.
var epoch = time.Unix(0, 0)

// Add implements Peer. The layer must be a new one each time: the defragmenter
// keeps it.
func (p *Gopacket4) Add(packet []byte) bool {
	ip := new(layers.IPv4)
	if ip.DecodeFromBytes(packet, gopacket.NilDecodeFeedback) != nil {
		return false
	}
	out, err := p.d.DefragIPv4WithTimestamp(ip, epoch)
	return err == nil && out != nil && out != ip
}

// Gopacket6 is gopacket's IPv6 defragmenter.
type Gopacket6 struct{ d *ip6defrag.IPv6Defragmenter }

// NewGopacket6 makes one.
func NewGopacket6() *Gopacket6 { return &Gopacket6{ip6defrag.NewIPv6Defragmenter()} }

// Add implements Peer.
func (p *Gopacket6) Add(packet []byte) bool {
	var ip layers.IPv6
	if ip.DecodeFromBytes(packet, gopacket.NilDecodeFeedback) != nil || ip.NextHeader != layers.IPProtocolIPv6Fragment {
		return false
	}
	pkt := gopacket.NewPacket(ip.Payload, layers.LayerTypeIPv6Fragment, gopacket.DecodeOptions{Lazy: true, NoCopy: true})
	frag, ok := pkt.Layer(layers.LayerTypeIPv6Fragment).(*layers.IPv6Fragment)
	return ok && p.d.DefragIPv6(&ip, frag) != nil
}
