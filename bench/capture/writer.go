package capture

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// Writer writes packets that a Reader read, changed or not. One goroutine at a
// time may use it.
//
// It writes the Reader's format, so nothing that was read is out of reach: pcap
// keeps its one link type and its resolution, pcapng its interfaces, link types
// and packet comments. Frames may be larger than the input's snap length; the
// output does not state it.
type Writer struct {
	in   *Reader
	buf  *bufio.Writer
	pcap *pcapgo.Writer   // pcap: nil until the header is written
	ng   *pcapgo.NgWriter // pcapng: nil until the first interface is written
	asNG bool

	interfaces int       // pcapng: how many of in's were written
	last       time.Time // of the packet before
}

// NewWriter writes to w what was read from in, as pcapng if in is or ng says so.
func NewWriter(w io.Writer, in *Reader, ng bool) *Writer {
	return &Writer{in: in, buf: bufio.NewWriterSize(w, bufferSize), asNG: ng || in.PcapNG(), last: time.Unix(0, 0)}
}

// maxSnapLen is the largest snap length that libpcap accepts.
const maxSnapLen = 262144

// Write writes one packet. p.Interface must be one of the Reader's. A packet
// without a time, or with one that does not fit into the file, gets that of the
// packet before.
func (w *Writer) Write(p *Packet) error {
	if err := w.announce(p.Interface); err != nil {
		return err
	}
	if _, ok := Nanoseconds(p.Time); ok {
		w.last = p.Time
	}
	ci := gopacket.CaptureInfo{
		Timestamp: w.last, CaptureLength: len(p.Frame), Length: max(p.Length, len(p.Frame)), InterfaceIndex: p.Interface,
	}
	if w.asNG {
		return w.ng.WritePacketWithOptions(ci, p.Frame, p.options)
	}
	return w.pcap.WritePacket(ci, p.Frame)
}

// announce writes the file header, and in pcapng the interfaces up to that one.
func (w *Writer) announce(iface int) error {
	if !w.asNG {
		if w.pcap != nil {
			return nil
		}
		w.pcap = pcapgo.NewWriterNanos(w.buf)
		if r := w.in.pcap.Resolution(); r == gopacket.TimestampResolutionMicrosecond {
			w.pcap = pcapgo.NewWriter(w.buf)
		}
		return w.pcap.WriteFileHeader(maxSnapLen, w.in.pcap.LinkType())
	}
	for ; w.interfaces <= iface; w.interfaces++ {
		i := w.in.interfaces[w.interfaces]
		i.SnapLength, i.TimestampOffset = 0, 0 // any length; times are absolute
		if err := w.add(i); err != nil {
			return err
		}
	}
	return nil
}

func (w *Writer) add(i pcapgo.NgInterface) (err error) {
	if w.ng != nil {
		_, err = w.ng.AddInterface(i)
		return err
	}
	info := pcapgo.NgSectionInfo{Application: "fraglab"}
	if w.in.ng != nil {
		info = w.in.ng.SectionInfo()
	}
	w.ng, err = pcapgo.NewNgWriterInterface(w.buf, i, pcapgo.NgWriterOptions{SectionInfo: info})
	return err
}

// Close writes what is buffered, and at least a file header. It does not close
// what the Writer writes to.
func (w *Writer) Close() error {
	if err := w.finish(); err != nil {
		return fmt.Errorf("writing the capture: %w", err)
	}
	return nil
}

func (w *Writer) finish() error {
	switch {
	case len(w.in.interfaces) > 0:
		if err := w.announce(len(w.in.interfaces) - 1); err != nil {
			return err
		}
	default: // a pcapng without any; pcapgo wants one
		if err := w.add(pcapgo.NgInterface{LinkType: layers.LinkTypeEthernet}); err != nil {
			return err
		}
	}
	if w.ng != nil {
		if err := w.ng.Flush(); err != nil {
			return err
		}
	}
	return w.buf.Flush()
}

// Nanoseconds returns t in nanoseconds since 1970. It is false for a packet
// without a time, and for times before 1970 or behind the year 2262.
func Nanoseconds(t time.Time) (ns int64, ok bool) {
	if t.IsZero() || t.Unix() < 0 || t.Unix() >= math.MaxInt64/int64(time.Second) {
		return 0, false
	}
	return t.UnixNano(), true
}
