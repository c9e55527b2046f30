package peers

import (
	"fmt"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/channel"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
)

// GVisor is gVisor's network stack. Its reassembler is an internal package, so
// it is reached the way packets reach it: injected at a link, taken out behind
// the IP layer by a transport protocol that only counts. It keeps packets
// without copying, has a limit of 4 MiB, and one mutex.
type GVisor struct {
	stack *stack.Stack
	link  *channel.Endpoint
	proto *sink
}

// SinkProtocol is the IP protocol that NewGVisor listens to: UDP's number, with
// none of UDP's work.
const SinkProtocol = 17

// NewGVisor makes a stack with the two local addresses.
func NewGVisor(local4 [4]byte, local6 [16]byte) (*GVisor, error) {
	g := &GVisor{proto: new(sink), link: channel.New(8, 65535, "")}
	g.stack = stack.New(stack.Options{
		NetworkProtocols: []stack.NetworkProtocolFactory{ipv4.NewProtocol, ipv6.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{
			func(*stack.Stack) stack.TransportProtocol { return g.proto },
		},
	})
	if err := g.stack.CreateNIC(1, g.link); err != nil {
		return nil, fmt.Errorf("peers: gVisor: %v", err)
	}
	for _, a := range []tcpip.ProtocolAddress{
		{Protocol: ipv4.ProtocolNumber, AddressWithPrefix: tcpip.AddrFrom4(local4).WithPrefix()},
		{Protocol: ipv6.ProtocolNumber, AddressWithPrefix: tcpip.AddrFrom16(local6).WithPrefix()},
	} {
		if err := g.stack.AddProtocolAddress(1, a, stack.AddressProperties{}); err != nil {
			return nil, fmt.Errorf("peers: gVisor: %v", err)
		}
	}
	return g, nil
}

// Add implements Peer.
func (g *GVisor) Add(packet []byte) bool {
	before := g.proto.n
	proto := ipv4.ProtocolNumber
	if packet[0]>>4 == 6 {
		proto = ipv6.ProtocolNumber
	}
	pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{
		Payload: buffer.MakeWithView(buffer.NewViewWithData(packet)),
	})
	g.link.InjectInbound(proto, pkt)
	pkt.DecRef()
	return g.proto.n > before
}

// Close ends the stack's goroutines.
func (g *GVisor) Close() {
	g.stack.Close()
	g.stack.Wait()
	g.link.Close()
}

// sink is a transport protocol without endpoints that counts what the IP layer
// hands up.
type sink struct {
	stack.TransportProtocol
	n int
}

func (*sink) Number() tcpip.TransportProtocolNumber { return SinkProtocol }
func (*sink) MinimumPacketSize() int                { return header.UDPMinimumSize }
func (*sink) ParsePorts([]byte) (src, dst uint16, err tcpip.Error) {
	return 1, 2, nil
}
func (s *sink) HandleUnknownDestinationPacket(stack.TransportEndpointID, *stack.PacketBuffer) stack.UnknownDestinationPacketDisposition {
	s.n++
	return stack.UnknownDestinationPacketHandled
}
func (*sink) Parse(pkt *stack.PacketBuffer) bool {
	_, ok := pkt.TransportHeader().Consume(header.UDPMinimumSize)
	return ok
}
func (*sink) Close()   {}
func (*sink) Wait()    {}
func (*sink) Pause()   {}
func (*sink) Resume()  {}
func (*sink) Restore() {}
