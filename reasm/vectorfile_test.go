package reasm

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
)

// The conformance vectors: one case a line, recorded from a Linux 6.18 kernel.
// Zero values are defaults; the builder below gives each field its meaning.

type vecCase struct {
	Name   string    `json:"name"`
	Family int       `json:"fam"`
	Path   string    `json:"path"` // "" is local delivery, "nf" conntrack's defragmentation
	Cfg    vecCfg    `json:"cfg"`
	Steps  []vecStep `json:"steps"`
	Out    []vecOut  `json:"out"`
}

type vecCfg struct {
	TimeoutMS int `json:"timeout_ms"` // 0: 30000
	MaxDist   int `json:"max_dist"`   // 0: 64; -1: off
	High      int `json:"high"`       // 0: 4 MiB
}

type vecStep struct {
	Pause int `json:"pause"` // milliseconds; then the step is no packet

	Src    string     `json:"src"`
	Dst    string     `json:"dst"`
	If     int        `json:"if"`
	ID     uint32     `json:"id"`
	Proto  int        `json:"proto"` // 0: 253; -1: 0
	Off    int        `json:"off"`
	Len    int        `json:"len"`
	MF     bool       `json:"mf"`
	DF     bool       `json:"df"`
	RB     bool       `json:"rb"`
	TOS    int        `json:"tos"`
	TTL    int        `json:"ttl"` // 0: 64
	Flow   int        `json:"flow"`
	Fill   *int       `json:"fill"` // nil: the step's index
	Opt    string     `json:"opt"`
	Pre    []vecExt   `json:"pre"`
	Plain  bool       `json:"plain"`
	Data   string     `json:"data"`
	Trail  int        `json:"trail"`
	Cut    int        `json:"cut"`
	Length int        `json:"tl"` // 0: the right one; -1: 0
	Patch  []vecPatch `json:"patch"`
	BadCk  bool       `json:"badck"`
}

type vecExt struct {
	NH  int    `json:"nh"`
	Hex string `json:"hex"`
}

type vecPatch struct {
	At  int    `json:"at"`
	Hex string `json:"hex"`
}

type vecOut struct {
	Datagrams []vecDatagram  `json:"d"`
	ICMP      []vecICMP      `json:"icmp"`
	Counters  []int          `json:"c"` // reqds, oks, fails, timeout, overlaps
	Other     map[string]int `json:"x"`
	Queues    []int          `json:"q"` // held, bytes charged
}

type vecDatagram struct {
	Proto int      `json:"proto"`
	Len   int      `json:"len"`
	Sum   string   `json:"sum"`
	Map   [][3]int `json:"map"`
	Max   int      `json:"fmax"`
	Hdr   string   `json:"hdr"`
	Class int      `json:"tc"`
	Hop   int      `json:"hop"`
	Flow  int      `json:"flow"`
	HBH   string   `json:"hbh"`
	DOpt  string   `json:"dopt"`
	RT    string   `json:"rt"`
}

type vecICMP struct {
	Type  int    `json:"t"`
	Code  int    `json:"c"`
	Ptr   int    `json:"p"`
	N     int    `json:"n"`
	Of    int    `json:"of"` // step that is quoted unchanged, -1: q has the first 64 bytes
	Quote string `json:"q"`
}

// readVectors reads a file of cases. Damage is an error that names the line.
func readVectors(name string) (cs []vecCase, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var r io.Reader = bufio.NewReader(f)
	if strings.HasSuffix(name, ".gz") {
		if r, err = gzip.NewReader(r); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	for d := json.NewDecoder(r); ; {
		var c vecCase
		if err := d.Decode(&c); errors.Is(err, io.EOF) {
			return cs, nil
		} else if err != nil {
			return cs, fmt.Errorf("%s: case %d: %w", name, len(cs)+1, err)
		}
		if len(c.Out) != len(c.Steps) && len(c.Out) > 0 {
			return cs, fmt.Errorf("%s: case %s has %d steps and %d outcomes", name, c.Name, len(c.Steps), len(c.Out))
		}
		cs = append(cs, c)
	}
}

// patternByte is payload byte p of a datagram in a fragment with this fill.
func patternByte(fill, p int) byte { return byte(61*(fill+1) + 7*p + 13*(p>>8)) }

// packet builds the packet of step i.
func (s vecStep) packet(family, i int) []byte {
	build := s.header4
	if family == 6 {
		build = s.header6
	}
	b := build()
	payload := make([]byte, s.Len, s.Len+s.Trail)
	fill := i
	if s.Fill != nil {
		fill = *s.Fill
	}
	for j := range payload {
		payload[j] = patternByte(fill, s.Off+j)
	}
	copy(payload, unhex(s.Data))
	b = append(b, payload...)
	b = append(b, bytes.Repeat([]byte{0xa5}, s.Trail)...)
	return b[: len(b)-s.Cut : len(b)-s.Cut]
}

func (s vecStep) header4() []byte {
	opt := unhex(s.Opt)
	opt = append(opt, make([]byte, -len(opt)&3)...)
	b := make([]byte, 20, 20+len(opt))
	b = append(b, opt...)
	b[0] = 0x40 | byte(len(b)/4)
	b[1] = byte(s.TOS)
	binary.BigEndian.PutUint16(b[2:], uint16(s.length(len(b)+s.Len)))
	binary.BigEndian.PutUint16(b[4:], uint16(s.ID))
	word := uint16(s.Off / 8 & ipv4OffMask)
	for flag, set := range map[uint16]bool{ipv4MF: s.MF, ipv4DF: s.DF, 0x8000: s.RB} {
		if set {
			word |= flag
		}
	}
	binary.BigEndian.PutUint16(b[6:], word)
	b[8] = s.ttl()
	b[9] = s.proto()
	src, dst := netip.MustParseAddr(or(s.Src, "10.9.1.1")).As4(), netip.MustParseAddr(or(s.Dst, "10.9.0.1")).As4()
	copy(b[12:], src[:])
	copy(b[16:], dst[:])
	s.patch(b)
	ck := checksum(b)
	if s.BadCk {
		ck++
	}
	binary.BigEndian.PutUint16(b[10:], ck)
	return b
}

func (s vecStep) header6() []byte {
	b := make([]byte, 40)
	binary.BigEndian.PutUint32(b, 6<<28|uint32(s.TOS)<<20|uint32(s.Flow))
	b[7] = s.ttl()
	src, dst := netip.MustParseAddr(or(s.Src, "fd09::1:1")).As16(), netip.MustParseAddr(or(s.Dst, "fd09::1")).As16()
	copy(b[8:], src[:])
	copy(b[24:], dst[:])
	next := 6
	for _, e := range s.Pre {
		b[next] = byte(e.NH)
		next = len(b)
		b = append(b, unhex(e.Hex)...)
	}
	if s.Plain {
		b[next] = s.proto()
	} else {
		b[next] = nhFragment
		word, reserved := uint16(s.Off)&^7, byte(0)
		if s.MF {
			word |= 1
		}
		if s.RB {
			word, reserved = word|6, 0xff
		}
		b = append(b, s.proto(), reserved)
		b = binary.BigEndian.AppendUint16(b, word)
		b = binary.BigEndian.AppendUint32(b, s.ID)
	}
	binary.BigEndian.PutUint16(b[4:], uint16(s.length(len(b)-40+s.Len)))
	s.patch(b)
	return b
}

func (s vecStep) patch(b []byte) {
	for _, p := range s.Patch {
		copy(b[p.At:], unhex(p.Hex))
	}
}

func (s vecStep) length(right int) int {
	switch s.Length {
	case 0:
		return right
	case -1:
		return 0
	}
	return s.Length
}

func (s vecStep) proto() byte {
	switch s.Proto {
	case 0:
		return 253
	case -1:
		return 0
	}
	return byte(s.Proto)
}

func (s vecStep) ttl() byte {
	if s.TTL == 0 {
		return 64
	}
	return byte(s.TTL)
}

func or(s, def string) string {
	if s == "" {
		return def
	}
	return s
}

func unhex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}
