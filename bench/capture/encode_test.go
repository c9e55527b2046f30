package capture

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

// The encoders below follow the file format documents and share nothing with
// pcapgo, which both the Reader and the Writer use.

// order is a byte order that can also append.
type order interface {
	binary.ByteOrder
	binary.AppendByteOrder
}

const (
	magicMicro = 0xa1b2c3d4
	magicNano  = 0xa1b23c4d
)

// record is one packet to encode; frac counts the file's units of time.
type record struct {
	sec, frac uint32
	frame     []byte
	length    int // on the wire, 0: as long as the frame
	iface     uint32
}

func (r record) wire() uint32 { return uint32(max(r.length, len(r.frame))) }

func encodePcap(o order, magic, link uint32, records ...record) []byte {
	b := o.AppendUint32(nil, magic)
	b = o.AppendUint16(b, 2)
	b = o.AppendUint16(b, 4)
	b = append(b, make([]byte, 8)...)
	b = o.AppendUint32(b, 65535)
	b = o.AppendUint32(b, link)
	for _, r := range records {
		b = o.AppendUint32(b, r.sec)
		b = o.AppendUint32(b, r.frac)
		b = o.AppendUint32(b, uint32(len(r.frame)))
		b = o.AppendUint32(b, r.wire())
		b = append(b, r.frame...)
	}
	return b
}

// block frames the body of a pcapng block.
func block(o order, kind uint32, body []byte) []byte {
	for len(body)%4 != 0 {
		body = append(body, 0)
	}
	n := uint32(len(body) + 12)
	b := o.AppendUint32(nil, kind)
	b = o.AppendUint32(b, n)
	b = append(b, body...)
	return o.AppendUint32(b, n)
}

func sectionBlock(o order) []byte {
	b := o.AppendUint32(nil, 0x1a2b3c4d)
	b = o.AppendUint16(b, 1)
	b = o.AppendUint16(b, 0)
	return block(o, 0x0a0d0d0a, o.AppendUint64(b, 1<<64-1))
}

// interfaceBlock describes an interface whose clock has 10^-digits second ticks.
func interfaceBlock(o order, link uint16, digits byte) []byte {
	b := o.AppendUint16(nil, link)
	b = o.AppendUint16(b, 0)
	b = o.AppendUint32(b, 0)
	b = o.AppendUint16(b, 9) // if_tsresol
	b = o.AppendUint16(b, 1)
	b = append(b, digits, 0, 0, 0)
	return block(o, 1, o.AppendUint32(b, 0))
}

// packetBlock encodes an enhanced packet; ticks is the time in the interface's
// units, comment an option if it is not empty.
func packetBlock(o order, ticks uint64, r record, comment string) []byte {
	b := o.AppendUint32(nil, r.iface)
	b = o.AppendUint32(b, uint32(ticks>>32))
	b = o.AppendUint32(b, uint32(ticks))
	b = o.AppendUint32(b, uint32(len(r.frame)))
	b = o.AppendUint32(b, r.wire())
	b = pad(append(b, r.frame...))
	if comment != "" {
		b = o.AppendUint16(b, 1)
		b = o.AppendUint16(b, uint16(len(comment)))
		b = pad(append(b, comment...))
		b = o.AppendUint32(b, 0)
	}
	return block(o, 6, b)
}

func simpleBlock(o order, frame []byte) []byte {
	return block(o, 3, append(o.AppendUint32(nil, uint32(len(frame))), frame...))
}

func pad(b []byte) []byte {
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

func gzipped(t testing.TB, b []byte) []byte {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, err := w.Write(b)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return z.Bytes()
}

// frameOf makes n bytes that differ with seed.
func frameOf(seed, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(seed*31 + i*7)
	}
	return b
}
