package judge

import (
	"bytes"
	"corelane/internal/vectors"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

func compareDatagram(family int, got *datagram, want *vectors.Datagram) string {
	if got.proto != want.Proto || len(got.payload) != want.Len || got.max != want.Max {
		return fmt.Sprintf("protocol %d, %d bytes, largest fragment %d; want %d, %d, %d",
			got.proto, len(got.payload), got.max, want.Proto, want.Len, want.Max)
	}
	if want.Payload != nil {
		if !bytes.Equal(got.payload, want.Payload) {
			return fmt.Sprintf("payload %x, want %x", got.payload, want.Payload)
		}
		return compareHeader(family, got, want)
	}
	at := 0
	for _, m := range want.Map { // where each byte comes from
		for p := m[1]; p < m[2]; p, at = p+1, at+1 {
			if m[0] >= 0 && got.payload[at] != vectors.PatternByte(m[0], p) {
				return fmt.Sprintf("byte %d is %#x, want byte %d of fill %d", at, got.payload[at], p, m[0])
			}
		}
	}
	if sum := sha256.Sum256(got.payload); hex.EncodeToString(sum[:8]) != want.Sum {
		return "the payload's digest differs"
	}
	return compareHeader(family, got, want)
}

func compareHeader(family int, got *datagram, want *vectors.Datagram) string {
	if family == 4 {
		if hdr := hex.EncodeToString(got.header); hdr != want.Hdr {
			return fmt.Sprintf("header %s, want %s", hdr, want.Hdr)
		}
		return ""
	}
	b := got.header
	if n := int(b[4])<<8 | int(b[5]); n != len(b)-ipv6Header+len(got.payload) {
		return fmt.Sprintf("payload length %d", n)
	}
	class, flow := int(b[0]&15)<<4|int(b[1]>>4), int(b[1]&15)<<16|int(b[2])<<8|int(b[3])
	if class != want.Class || flow != want.Flow || int(b[7]) != want.Hop {
		return fmt.Sprintf("class %#x, flow %#x, hop limit %d; want %#x, %#x, %d",
			class, flow, b[7], want.Class, want.Flow, want.Hop)
	}
	for _, e := range []struct {
		name string
		got  []byte
		want string
	}{{"hop-by-hop", got.hbh, want.HBH}, {"destination options", got.dopt, want.DOpt}, {"routing", got.rt, want.RT}} {
		if hex.EncodeToString(e.got) != e.want {
			return fmt.Sprintf("%s header %x, want %s", e.name, e.got, e.want)
		}
	}
	return ""
}

// compareICMP pairs errors sent with errors recorded, whose order within a pause
// says nothing.
func compareICMP(got []icmp, want []vectors.ICMP, packets [][]byte) string {
	got = slices.Clone(got)
	for _, w := range want {
		i := slices.IndexFunc(got, func(g icmp) bool {
			if g.typ != w.Type || g.code != w.Code || g.ptr != w.Ptr || len(g.quote) != w.N {
				return false
			}
			if w.Of < 0 {
				return hex.EncodeToString(g.quote[:min(len(g.quote), 64)]) == w.Quote
			}
			return bytes.HasPrefix(packets[w.Of], g.quote)
		})
		if i < 0 {
			return fmt.Sprintf("no error %+v among %s", w, describeICMP(got))
		}
		got = slices.Delete(got, i, i+1)
	}
	if len(got) > 0 {
		return "too many errors: " + describeICMP(got)
	}
	return ""
}

func describeICMP(es []icmp) string {
	var b strings.Builder
	for _, e := range es {
		fmt.Fprintf(&b, "{type %d code %d pointer %d, %d bytes: %x...} ", e.typ, e.code, e.ptr, len(e.quote), e.quote[:min(len(e.quote), 64)])
	}
	return b.String()
}
