package study

import (
	"testing"

	"github.com/stretchr/testify/require"

	"corelane/reasm"
)

var links = []*link{ipv4, ipv4Lean, ipv4576, ipv49000, ipv6, ipv61280, lowpan}

// TestLinkPacketsAreFragmentsOfOneDatagram builds a datagram's packets, looks at
// what the parser makes of each, and puts them together.
func TestLinkPacketsAreFragmentsOfOneDatagram(t *testing.T) {
	for _, l := range links {
		t.Run("link="+l.name, func(t *testing.T) {
			var (
				m    Traffic
				p    buffers
				f    reasm.Fragment
				back int
			)
			for range 70_000 {
				m.open(host(3), 2, 0) // so that the names' high halves are used
			}
			d := m.open(host(3), 7, 0)
			for i := range 7 {
				m.send(int64(i), d, i)
			}
			tr := m.trace()
			c := reasm.DefaultConfig()
			c.Mode = reasm.Borrow
			c.Free = func(b []reasm.Buffer) { back += len(b) }
			cache, err := reasm.New(reasm.Default, c)
			require.NoError(t, err)
			for i := range tr.events {
				b := p.build(l, tr, &tr.events[i])
				require.Equal(t, reasm.Held, l.parse(b, &tr.dgrams[d], &f))
				require.EqualValues(t, i < 6, f.More)
				r := cache.Lane(0).Add(int64(i), &f)
				if i < 6 {
					require.Equal(t, reasm.Held, r.Verdict)
					continue
				}
				require.Equal(t, reasm.Complete, r.Verdict)
				got, ok := l.intact(tr, r.Datagram)
				require.True(t, ok)
				require.Equal(t, d, got)
				// One wrong stamp is noticed.
				b[l.ahead+5]++
				_, ok = l.intact(tr, r.Datagram)
				require.False(t, ok)
				r.Datagram.Release()
			}
			require.Equal(t, 7, back)
			require.NoError(t, cache.Close())
		})
	}
}

// TestLinkNamesDoNotRepeat: two datagrams of one source 65536 apart are two.
func TestLinkNamesDoNotRepeat(t *testing.T) {
	for _, l := range links {
		t.Run("link="+l.name, func(t *testing.T) {
			var m Traffic
			for range 65_536 {
				m.open(host(1), 2, 0)
			}
			last := m.open(host(1), 2, 0)
			m.send(0, 0, 0)
			m.send(1, last, 0)
			tr := m.trace()
			var p buffers
			var f, g reasm.Fragment
			l.parse(p.build(l, tr, &tr.events[0]), &tr.dgrams[0], &f)
			l.parse(p.build(l, tr, &tr.events[1]), &tr.dgrams[last], &g)
			require.NotEqual(t, f.Key, g.Key)
		})
	}
}
