package capture

import (
	"bytes"
	"encoding/binary"
	"io"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// rewrite reads file and writes every packet.
func rewrite(t *testing.T, file []byte, ng bool) []byte {
	r, err := NewReader(bytes.NewReader(file))
	require.NoError(t, err)
	var out bytes.Buffer
	w := NewWriter(&out, r, ng)
	var p Packet
	for {
		err := r.Next(&p)
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		require.NoError(t, w.Write(&p))
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

func TestWriterKeepsPcapAsItWas(t *testing.T) {
	for _, magic := range []uint32{magicMicro, magicNano} {
		file := encodePcap(binary.LittleEndian, magic, 276,
			record{sec: 1, frac: 123456, frame: frameOf(1, 70)},
			record{sec: 1, frac: 123455, frame: frameOf(2, 1), length: 9000})
		out := rewrite(t, file, false)
		copy(file[16:20], out[16:20]) // the snap length may differ
		require.Equal(t, file, out)
	}
}

func TestWriterKeepsMixedInterfacesTimesAndComments(t *testing.T) {
	for name, o := range orders {
		t.Run("order="+name, func(t *testing.T) {
			file := slices.Concat(
				sectionBlock(o), interfaceBlock(o, 1, 6), interfaceBlock(o, 228, 9),
				packetBlock(o, 1e9+1, record{frame: frameOf(1, 60), iface: 1}, "a comment"),
				packetBlock(o, 1e6+2, record{frame: frameOf(2, 59), length: 1514}, ""),
				sectionBlock(o), interfaceBlock(o, 9, 6),
				packetBlock(o, 1e6+3, record{frame: frameOf(3, 66001)}, ""),
			)
			want, err := readAll(file)
			require.NoError(t, err)
			require.Equal(t, []string{"a comment"}, want[0].options.Comments)
			got, err := readAll(rewrite(t, file, false))
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
}

func TestWriterTurnsPcapIntoPcapNGWhenAsked(t *testing.T) {
	file := encodePcap(binary.BigEndian, magicNano, 113, record{sec: 7, frac: 8, frame: frameOf(1, 60)})
	out := rewrite(t, file, true)
	require.Equal(t, uint32(ngSectionHeader), binary.BigEndian.Uint32(out))
	want, err := readAll(file)
	require.NoError(t, err)
	got, err := readAll(out)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestWriterGivesTimelessPacketsTheTimeBefore(t *testing.T) {
	o := binary.LittleEndian
	got, err := readAll(rewrite(t, slices.Concat(sectionBlock(o), interfaceBlock(o, 1, 9),
		simpleBlock(o, frameOf(1, 60)),
		packetBlock(o, 5e9, record{frame: frameOf(2, 60)}, ""),
		simpleBlock(o, frameOf(3, 60))), false))
	require.NoError(t, err)
	var ns []int64
	for _, p := range got {
		n, ok := Nanoseconds(p.Time)
		require.True(t, ok)
		ns = append(ns, n)
	}
	require.Equal(t, []int64{0, 5e9, 5e9}, ns)
}

func TestWriterWithoutPacketsWritesACapture(t *testing.T) {
	for _, file := range [][]byte{
		encodePcap(binary.LittleEndian, magicMicro, 1),
		sectionBlock(binary.BigEndian),
		append(sectionBlock(binary.LittleEndian), interfaceBlock(binary.LittleEndian, 1, 9)...),
	} {
		got, err := readAll(rewrite(t, file, false))
		require.NoError(t, err)
		require.Empty(t, got)
	}
}

// full fails after so many bytes, as a full disk does.
type full struct{ left int }

func (f *full) Write(b []byte) (int, error) {
	if f.left -= len(b); f.left < 0 {
		return 0, io.ErrShortWrite
	}
	return len(b), nil
}

func TestWriterReportsAFullDisk(t *testing.T) {
	for _, ng := range []bool{false, true} {
		r, err := NewReader(bytes.NewReader(encodePcap(binary.LittleEndian, magicMicro, 1, record{frame: frameOf(1, 60)})))
		require.NoError(t, err)
		w := NewWriter(&full{left: 50}, r, ng)
		var p Packet
		require.NoError(t, r.Next(&p))
		require.NoError(t, w.Write(&p)) // it is still in the buffer
		require.ErrorIs(t, w.Close(), io.ErrShortWrite)
	}
}
