package capture

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// Packet is one record of a capture.
type Packet struct {
	Frame     []byte          // as captured, link header first
	Length    int             // of the frame on the wire, >= len(Frame)
	Time      time.Time       // zero if the capture does not tell (simple packet blocks)
	Link      layers.LinkType // what Frame begins with
	Interface int             // index into Reader.Interfaces

	options pcapgo.NgPacketOptions // pcapng: comments, flags and so on
}

// Reader reads the packets of one capture in order. One goroutine at a time may
// use it.
type Reader struct {
	source *source
	pcap   *pcapgo.Reader   // one of the two is nil
	ng     *pcapgo.NgReader // one of the two is nil

	interfaces []pcapgo.NgInterface // of all sections so far, in order
	section    int                  // how many of them belong to earlier sections
	packets    int                  // read without an error
	bigEndian  bool                 // byte order of the first section
}

// NewReader reads a capture's header. Its errors say what is wrong with the
// file; there is nothing good in it then.
func NewReader(r io.Reader) (*Reader, error) {
	in, src, err := plain(r)
	if err != nil {
		return nil, err
	}
	head, err := in.Peek(12)
	c := &Reader{source: src}
	switch {
	case len(head) == 0 && err == io.EOF:
		return nil, errors.New("the capture is empty")
	case err != nil && err != io.EOF:
		return nil, c.explain(err)
	case len(head) < 4:
		return nil, errors.New("too short to be a capture")
	case binary.BigEndian.Uint32(head) == ngSectionHeader:
		c.bigEndian = len(head) == 12 && binary.BigEndian.Uint32(head[8:]) == ngByteOrder
		c.ng, err = pcapgo.NewNgReader(in, pcapgo.NgReaderOptions{
			WantMixedLinkType:  true,
			SkipUnknownVersion: true,
			SectionEndCallback: c.sectionEnds,
		})
	default:
		if c.pcap, err = pcapgo.NewReader(in); err == nil {
			c.interfaces = []pcapgo.NgInterface{{LinkType: c.pcap.LinkType()}}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("no capture that can be read: %w", c.explain(err))
	}
	return c, nil
}

// What a pcapng file begins with, and the byte order mark in its first block.
const (
	ngSectionHeader = 0x0a0d0d0a
	ngByteOrder     = 0x1a2b3c4d
)

// plain unpacks r if it is compressed.
func plain(r io.Reader) (*bufio.Reader, *source, error) {
	in := bufio.NewReaderSize(r, bufferSize)
	src := &source{r: in}
	if magic, _ := in.Peek(2); len(magic) == 2 && magic[0] == 0x1f && magic[1] == 0x8b {
		gz, err := gzip.NewReader(in)
		if err != nil {
			return nil, nil, fmt.Errorf("the gzip data is damaged: %w", err)
		}
		src.r, src.gzip = gz, true
	}
	return bufio.NewReaderSize(src, bufferSize), src, nil
}

const bufferSize = 64 << 10

// source remembers the error that ended the data: pcapgo takes an error between
// two blocks for the end of the file.
type source struct {
	r    io.Reader
	gzip bool
	err  error // the first error that is not io.EOF
}

func (s *source) Read(b []byte) (int, error) {
	n, err := s.r.Read(b)
	if err != nil && err != io.EOF && s.err == nil {
		s.err = err
	}
	return n, err
}

// PcapNG reports whether the capture is in pcapng, not pcap.
func (r *Reader) PcapNG() bool { return r.ng != nil }

// Interfaces returns the interfaces seen so far, those of earlier sections
// first. A pcap file has one.
func (r *Reader) Interfaces() []pcapgo.NgInterface { return r.interfaces }

// Next reads the next packet into p. It returns io.EOF behind the last one of an
// undamaged capture. Any other error says how many packets were good before it,
// and there are none behind it. p.Frame is valid until the following Next.
func (r *Reader) Next(p *Packet) error {
	var (
		ci  gopacket.CaptureInfo
		err error
	)
	*p = Packet{}
	if r.ng != nil {
		p.Frame, ci, p.options, err = r.ng.ZeroCopyReadPacketDataWithOptions()
	} else {
		p.Frame, ci, err = r.pcap.ZeroCopyReadPacketData()
		if err == io.EOF && ci.CaptureLength > 0 {
			err = io.ErrUnexpectedEOF // it ended right behind a packet's header
		}
	}
	if err == io.EOF && r.source.err == nil {
		return io.EOF
	}
	if err != nil {
		return fmt.Errorf("damaged behind packet %d: %w", r.packets, r.explain(err))
	}
	r.noteInterfaces()
	if r.bigEndian {
		// pcapgo takes the numbers in options for little-endian.
		p.options = pcapgo.NgPacketOptions{Comments: p.options.Comments}
	}
	p.Length, p.Time = max(ci.Length, len(p.Frame)), ci.Timestamp
	p.Interface = r.section + ci.InterfaceIndex
	p.Link = r.interfaces[p.Interface].LinkType
	r.packets++
	return nil
}

// noteInterfaces takes over the interfaces that pcapgo met meanwhile.
func (r *Reader) noteInterfaces() {
	for r.ng != nil && len(r.interfaces)-r.section < r.ng.NInterfaces() {
		i, err := r.ng.Interface(len(r.interfaces) - r.section)
		if err != nil {
			panic("capture: " + err.Error()) // the index is below NInterfaces
		}
		r.interfaces = append(r.interfaces, i)
	}
}

// sectionEnds keeps the interfaces of a pcapng section, whose numbers start
// again at 0 in the next one.
func (r *Reader) sectionEnds([]pcapgo.NgInterface, pcapgo.NgSectionInfo) {
	r.noteInterfaces()
	r.section = len(r.interfaces)
}

// explain says in words what err of pcapgo means.
func (r *Reader) explain(err error) error {
	if s := r.source; s.err != nil {
		if s.gzip {
			return fmt.Errorf("the gzip data is damaged: %w", s.err)
		}
		return s.err
	}
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("the file is cut off: %w", io.ErrUnexpectedEOF)
	}
	return err
}
