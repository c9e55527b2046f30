package capture

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/gopacket/gopacket/layers"
	"github.com/stretchr/testify/require"
)

// orders are both byte orders by name.
var orders = map[string]order{"little": binary.LittleEndian, "big": binary.BigEndian}

// readAll reads file to its end, or to an error.
func readAll(file []byte) (packets []Packet, err error) {
	r, err := NewReader(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	for {
		var p Packet
		if err := r.Next(&p); err == io.EOF {
			return packets, nil
		} else if err != nil {
			return packets, err
		}
		p.Frame = slices.Clone(p.Frame)
		packets = append(packets, p)
	}
}

func TestReaderReadsPcapInEveryForm(t *testing.T) {
	for name, o := range orders {
		for _, magic := range []uint32{magicMicro, magicNano} {
			for _, zip := range []bool{false, true} {
				t.Run(fmt.Sprintf("order=%s/magic=%x/gzip=%t", name, magic, zip), func(t *testing.T) {
					file := encodePcap(o, magic, 101,
						record{sec: 1700000000, frac: 999_999, frame: frameOf(1, 60)},
						record{sec: 1700000001, frac: 1, frame: frameOf(2, 20), length: 1500},
						record{sec: 1700000001, frac: 2}) // a frame without bytes
					if zip {
						file = gzipped(t, file)
					}
					ps, err := readAll(file)
					require.NoError(t, err)
					require.Len(t, ps, 3)
					tick := time.Microsecond
					if magic == magicNano {
						tick = time.Nanosecond
					}
					require.True(t, ps[0].Time.Equal(time.Unix(1700000000, 999_999*int64(tick))), ps[0].Time)
					require.Equal(t, frameOf(1, 60), ps[0].Frame)
					require.Equal(t, 60, ps[0].Length)
					require.Equal(t, 1500, ps[1].Length)
					require.Equal(t, layers.LinkTypeRaw, ps[1].Link)
					require.Empty(t, ps[2].Frame)
				})
			}
		}
	}
}

func TestReaderNumbersInterfacesThroughSections(t *testing.T) {
	for name, o := range orders {
		t.Run("order="+name, func(t *testing.T) {
			const second = uint64(1700000000)
			file := slices.Concat(
				sectionBlock(o),
				interfaceBlock(o, 1, 6),
				interfaceBlock(o, 101, 9),
				packetBlock(o, second*1e6+5, record{frame: frameOf(1, 61)}, "kept"),
				packetBlock(o, second*1e9+7, record{frame: frameOf(2, 33), iface: 1}, ""),
				block(o, 5, make([]byte, 12)), // statistics in between
				sectionBlock(o),
				interfaceBlock(o, 113, 3),
				packetBlock(o, second*1e3+9, record{frame: frameOf(3, 18), length: 99}, ""),
				simpleBlock(o, frameOf(4, 21)),
			)
			r, err := NewReader(bytes.NewReader(file))
			require.NoError(t, err)
			require.True(t, r.PcapNG())
			for i, want := range []struct {
				link   layers.LinkType
				iface  int
				time   time.Time
				frame  []byte
				length int
			}{
				{layers.LinkTypeEthernet, 0, time.Unix(int64(second), 5000), frameOf(1, 61), 61},
				{layers.LinkTypeRaw, 1, time.Unix(int64(second), 7), frameOf(2, 33), 33},
				{layers.LinkTypeLinuxSLL, 2, time.Unix(int64(second), 9e6), frameOf(3, 18), 99},
				{layers.LinkTypeLinuxSLL, 2, time.Time{}, frameOf(4, 21), 21},
			} {
				var p Packet
				require.NoError(t, r.Next(&p), i)
				require.Equal(t, want.link, p.Link, i)
				require.Equal(t, want.iface, p.Interface, i)
				require.True(t, want.time.Equal(p.Time), "%d: %v", i, p.Time)
				require.Equal(t, want.frame, p.Frame, i)
				require.Equal(t, want.length, p.Length, i)
			}
			require.Equal(t, io.EOF, r.Next(new(Packet)))
			require.Len(t, r.Interfaces(), 3)
		})
	}
}

// The upper bits of a pcap link type tell the length of the check sequence.
func TestReaderIgnoresCheckSequenceBitsOfLinkType(t *testing.T) {
	ps, err := readAll(encodePcap(binary.LittleEndian, magicMicro, 1|0x24000000, record{frame: frameOf(1, 60)}))
	require.NoError(t, err)
	require.Equal(t, layers.LinkTypeEthernet, ps[0].Link)
}

// Writers that ignore their own snap length are common (dpkt writes 1500).
func TestReaderTakesFramesAboveTheSnapLength(t *testing.T) {
	ps, err := readAll(encodePcap(binary.LittleEndian, magicMicro, 1, record{frame: frameOf(1, 66000)}))
	require.NoError(t, err)
	require.Len(t, ps[0].Frame, 66000)
}

// Every capture that is cut off anywhere but between two packets must give an
// error, behind exactly the packets that were whole.
func TestReaderCutOffAnywhereFailsBehindTheGoodPackets(t *testing.T) {
	o := binary.LittleEndian
	const n = 3
	// end[i] is where a file with i packets would end.
	var pcapEnds, ngEnds []int
	pcap := encodePcap(o, magicMicro, 1)
	ng := append(sectionBlock(o), interfaceBlock(o, 1, 6)...)
	pcapEnds, ngEnds = append(pcapEnds, len(pcap)), append(ngEnds, len(ng))
	for i := range n {
		r := record{sec: uint32(i), frame: frameOf(i, 40+i)}
		pcap = append(pcap, encodePcap(o, magicMicro, 1, r)[24:]...)
		ng = append(ng, packetBlock(o, uint64(i), r, "")...)
		pcapEnds, ngEnds = append(pcapEnds, len(pcap)), append(ngEnds, len(ng))
	}
	for _, f := range []struct {
		name string
		file []byte
		ends []int
		more []int // further places between two blocks
	}{
		{"pcap", pcap, pcapEnds, nil},
		{"pcapng", ng, ngEnds, []int{len(sectionBlock(o))}},
	} {
		t.Run("format="+f.name, func(t *testing.T) {
			for cut := range len(f.file) + 1 {
				good := 0
				for good < n && f.ends[good+1] <= cut {
					good++
				}
				ps, err := readAll(f.file[:cut])
				require.Len(t, ps, good, "cut=%d", cut)
				if slices.Contains(f.ends, cut) || slices.Contains(f.more, cut) {
					require.NoError(t, err, "cut=%d", cut)
				} else {
					require.Error(t, err, "cut=%d", cut)
				}
			}
		})
		// A gzip file has its own end: there is no place where a cut goes unnoticed.
		t.Run("format="+f.name+"/gzip", func(t *testing.T) {
			zip := gzipped(t, f.file)
			for cut := range len(zip) {
				ps, err := readAll(zip[:cut])
				require.Error(t, err, "cut=%d", cut)
				require.LessOrEqual(t, len(ps), n)
			}
			ps, err := readAll(zip)
			require.NoError(t, err)
			require.Len(t, ps, n)
		})
	}
}

func TestReaderSaysWhatIsDamaged(t *testing.T) {
	o := binary.LittleEndian
	two := encodePcap(o, magicMicro, 1, record{frame: frameOf(1, 60)}, record{frame: frameOf(2, 60)})
	ng := slices.Concat(sectionBlock(o), interfaceBlock(o, 1, 6), packetBlock(o, 0, record{frame: frameOf(1, 60)}, ""))
	at := func(b []byte, i int, v byte) []byte {
		b = slices.Clone(b)
		b[i] = v
		return b
	}
	zip := gzipped(t, two)
	for _, c := range []struct {
		name string
		file []byte
		good int
		says string
	}{
		{"empty", nil, 0, "the capture is empty"},
		{"tiny", []byte{0xd4, 0xc3}, 0, "too short to be a capture"},
		{"garbage", frameOf(7, 500), 0, "Unknown magic"},
		{"text", []byte("# Corelane\n\nnot a capture at all\n"), 0, "Unknown magic"},
		{"pcap-version", at(two, 4, 9), 0, "version"},
		{"pcap-cut", two[:len(two)-10], 1, "damaged behind packet 1: the file is cut off"},
		{"pcap-cut-behind-header", two[:24+16+60+16], 1, "damaged behind packet 1: the file is cut off"},
		{"pcap-length", at(two, 24+16+60+11, 0x7f), 1, "damaged behind packet 1: capture length exceeds"},
		{"gzip-cut", zip[:len(zip)-4], 2, "the gzip data is damaged"},
		{"gzip-checksum", at(zip, len(zip)-6, zip[len(zip)-6]^1), 2, "the gzip data is damaged"},
		{"gzip-header", []byte{0x1f, 0x8b, 9, 0, 0, 0, 0, 0, 0, 0}, 0, "the gzip data is damaged"},
		{"pcapng-block-length-zero", append(slices.Clone(ng), make([]byte, 64)...), 1, "damaged behind packet 1"},
		{"pcapng-interface", append(slices.Clone(ng), packetBlock(o, 0, record{frame: frameOf(1, 4), iface: 7}, "")...), 1, "Interface id 7"},
		{"pcapng-no-interface", append(sectionBlock(o), packetBlock(o, 0, record{frame: frameOf(1, 4)}, "")...), 0, "Interface id 0"},
		{"pcapng-order-mark", at(ng, 8, 0), 0, "byte order"},
	} {
		t.Run("damage="+c.name, func(t *testing.T) {
			ps, err := readAll(c.file)
			require.ErrorContains(t, err, c.says)
			require.Len(t, ps, c.good)
		})
	}
}

func FuzzReader(f *testing.F) {
	for _, o := range orders {
		r := record{sec: 1, frame: frameOf(1, 40)}
		f.Add(encodePcap(o, magicMicro, 1, r, r))
		f.Add(encodePcap(o, magicNano, 276, r))
		f.Add(slices.Concat(sectionBlock(o), interfaceBlock(o, 1, 9), packetBlock(o, 1, r, "c"), simpleBlock(o, r.frame)))
	}
	f.Add(gzipped(f, encodePcap(binary.LittleEndian, magicMicro, 1)))
	f.Fuzz(func(t *testing.T, file []byte) {
		r, err := NewReader(bytes.NewReader(file))
		if err != nil {
			return
		}
		var out bytes.Buffer
		w := NewWriter(&out, r, false)
		var p Packet
		n := 0
		for err = r.Next(&p); err == nil; err = r.Next(&p) {
			require.GreaterOrEqual(t, p.Length, len(p.Frame))
			require.Equal(t, r.Interfaces()[p.Interface].LinkType, p.Link)
			p.FindIP()
			require.NoError(t, w.Write(&p))
			n++
		}
		require.NoError(t, w.Close())
		again, err := readAll(out.Bytes())
		require.NoError(t, err)
		require.Len(t, again, n)
	})
}
