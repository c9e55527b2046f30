// Package vectors is the format of the conformance vectors, what a Linux kernel
// did with sequences of fragments, and the packets that their steps stand for.
//
// One case is one line of JSON: a configuration, the steps, and for each step
// what it caused. Payload bytes are not recorded: they follow from the fill of
// the step that sent them and their offset, so every byte of a datagram tells
// which fragment it came from.
//
// The package knows no reassembler, so tests inside package reasm can build
// packets with it; package judge compares a reassembler with a case.
package vectors

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Case is one sequence of steps, from an empty table. Zero values are defaults.
type Case struct {
	Name   string `json:"name"`
	Family int    `json:"fam"`            // 4 or 6
	Path   string `json:"path,omitempty"` // "" is local delivery, "nf" conntrack's defragmentation
	Cfg    Cfg    `json:"cfg,omitzero"`
	Steps  []Step `json:"steps"`
	Out    []Out  `json:"out,omitempty"` // one for each step
}

// Cfg is how the kernel was set up.
type Cfg struct {
	TimeoutMS int `json:"timeout_ms,omitempty"` // 0: 30000
	MaxDist   int `json:"max_dist,omitempty"`   // 0: 64; -1: off
	High      int `json:"high,omitempty"`       // 0: 4 MiB
}

// Step is one packet, or a pause.
type Step struct {
	Pause int `json:"pause,omitempty"` // milliseconds; then the step is no packet

	Src    string  `json:"src,omitempty"`
	Dst    string  `json:"dst,omitempty"`
	If     int     `json:"if,omitempty"` // arriving interface, 0 or 1
	ID     uint32  `json:"id,omitempty"`
	Proto  int     `json:"proto,omitempty"` // 0: 253; -1: 0
	Off    int     `json:"off,omitempty"`   // of the payload in the datagram, bytes
	Len    int     `json:"len,omitempty"`   // payload bytes
	MF     bool    `json:"mf,omitempty"`
	DF     bool    `json:"df,omitempty"`
	RB     bool    `json:"rb,omitempty"`  // reserved bits
	TOS    int     `json:"tos,omitempty"` // IPv6: traffic class
	TTL    int     `json:"ttl,omitempty"` // 0: 64
	Flow   int     `json:"flow,omitempty"`
	Fill   *int    `json:"fill,omitempty"`  // nil: the step's index
	Opt    string  `json:"opt,omitempty"`   // IPv4 options, padded to 4 bytes
	Pre    []Ext   `json:"pre,omitempty"`   // IPv6 headers in front of the Fragment header
	Plain  bool    `json:"plain,omitempty"` // IPv6 without a Fragment header
	Data   string  `json:"data,omitempty"`  // replaces the start of the payload
	Trail  int     `json:"trail,omitempty"` // bytes behind the packet
	Cut    int     `json:"cut,omitempty"`   // bytes missing at its end
	Length int     `json:"tl,omitempty"`    // the header's length field; 0: the right one; -1: 0
	Patch  []Patch `json:"patch,omitempty"`
	BadCk  bool    `json:"badck,omitempty"`
}

// Ext is an IPv6 extension header, whole; its first byte is set by the builder.
type Ext struct {
	NH  int    `json:"nh"`
	Hex string `json:"hex"`
}

// Patch overwrites bytes of the header, before the IPv4 checksum is set.
type Patch struct {
	At  int    `json:"at"`
	Hex string `json:"hex"`
}

// Out is what one step caused.
type Out struct {
	Datagrams []Datagram     `json:"d,omitempty"`
	ICMP      []ICMP         `json:"icmp,omitempty"`
	Counters  []int          `json:"c,omitempty"` // reqds, oks, fails, timeout, overlaps
	Other     map[string]int `json:"x,omitempty"` // other counters of IP
	Queues    []int          `json:"q"`           // held, bytes charged
}

// Datagram is one that a socket got.
type Datagram struct {
	Proto int      `json:"proto"`
	Len   int      `json:"len"`
	Sum   string   `json:"sum"`           // first 8 bytes of the payload's SHA-256
	Map   [][3]int `json:"map,omitempty"` // fill, start, end: where the bytes come from
	Max   int      `json:"fmax,omitempty"`
	Hdr   string   `json:"hdr,omitempty"` // IPv4: the header
	Class int      `json:"tc,omitempty"`
	Hop   int      `json:"hop,omitempty"`
	Flow  int      `json:"flow,omitempty"`
	HBH   string   `json:"hbh,omitempty"`
	DOpt  string   `json:"dopt,omitempty"`
	RT    string   `json:"rt,omitempty"`

	Payload []byte `json:"-"` // where a kernel was asked live: then Map is empty
}

// ICMP is an error that the host sent.
type ICMP struct {
	Type  int    `json:"t"`
	Code  int    `json:"c"`
	Ptr   int    `json:"p,omitempty"`
	N     int    `json:"n"`  // bytes quoted
	Of    int    `json:"of"` // step that is quoted unchanged, -1: q has the first 64 bytes
	Quote string `json:"q,omitempty"`
	If    int    `json:"if,omitempty"`
}

// Read reads a file of cases, which may be compressed by gzip. Damage is an
// error that names the case.
func Read(name string) (cs []Case, err error) {
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
		var c Case
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
