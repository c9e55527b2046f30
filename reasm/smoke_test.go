package reasm

import (
	"encoding/binary"
	"testing"
)

func pkts(n, size int) [][]byte {
	var out [][]byte
	for i := range n {
		b := make([]byte, 20+size)
		b[0] = 0x45
		binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
		w := uint16(i * size / 8)
		if i < n-1 {
			w |= ipv4MF
		}
		binary.BigEndian.PutUint16(b[6:], w)
		b[9] = 17
		b[12], b[16] = 10, 10
		for j := range size {
			b[20+j] = byte(i + j)
		}
		out = append(out, b)
	}
	return out
}

func BenchmarkSmoke(b *testing.B) {
	for _, mode := range []Mode{Borrow, Copy} {
		for _, d := range designs {
			for _, batch := range []bool{false, true} {
				b.Run("design="+d.Name+"/mode="+map[Mode]string{Copy: "copy", Borrow: "borrow"}[mode]+"/batch="+map[bool]string{true: "1", false: "0"}[batch], func(b *testing.B) {
					cfg := DefaultConfig()
					cfg.Mode = mode
					cfg.Free = func([]Buffer) {}
					c, err := New(d.Name, cfg)
					if err != nil {
						b.Fatal(err)
					}
					l := c.Lane(0)
					ps := pkts(44, 1480)
					fs := make([]Fragment, 44)
					rs := make([]Result, 44)
					var p Parser
					b.ReportAllocs()
					for n := 0; n < b.N; n += 44 {
						if batch {
							for i := range ps {
								p.IPv4(ps[i], 0, &fs[i])
							}
							l.AddBatch(int64(n), fs, rs)
							rs[43].Datagram.Release()
							continue
						}
						var d *Datagram
						for i := range ps {
							p.IPv4(ps[i], 0, &fs[0])
							r := l.Add(int64(n), &fs[0])
							d = r.Datagram
						}
						d.Release()
					}
				})
			}
		}
	}
}
