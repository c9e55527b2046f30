package reasm

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"net/netip"
	"unsafe"
)

// Key names one datagram: the fragments that carry equal keys belong together.
//
// It is six words without padding, so it can be hashed and compared as memory.
// IPv4 addresses stand in the low words, the high ones being 0. IPv4 includes
// the protocol (RFC 791), IPv6 does not (RFC 8200): there Proto is 0. In 6LoWPAN
// the high words tell how long the link addresses in the low ones are.
//
// Domain is the caller's: whatever keeps two equal addresses apart (VRF, VLAN
// stack, tunnel, conntrack zone, receiving hook). Link-local and multicast IPv6
// needs the interface in it, as in Linux.
type Key struct {
	SrcHi, SrcLo uint64
	DstHi, DstLo uint64
	Domain       uint64
	tag          uint64 // namespace<<48 | family<<40 | protocol<<32 | identification
}

// equal is ==, in line.
func (k *Key) equal(o *Key) bool {
	// Go gives ^ and | the same precedence: the parentheses are needed.
	return (k.SrcLo^o.SrcLo)|(k.DstLo^o.DstLo)|(k.tag^o.tag) == 0 &&
		(k.SrcHi^o.SrcHi)|(k.DstHi^o.DstHi)|(k.Domain^o.Domain) == 0
}

// enter puts the key into a namespace; public takes it out again.
func (k *Key) enter(number uint16) { k.tag = k.tag&maxTag | uint64(number)<<nsShift }

func (k Key) public() Key {
	k.tag &= maxTag
	return k
}

// Family is the kind of datagram a key belongs to.
type Family uint8

// The families. A key carries its family, so the same bits never match across.
const (
	IPv4    Family = 4
	IPv6    Family = 6
	LoWPAN  Family = 15 // 6LoWPAN, RFC 4944
	maxTag         = 1<<48 - 1
	nsShift        = 48
)

func makeTag(fam Family, proto uint8, id uint32) uint64 {
	return uint64(fam)<<40 | uint64(proto)<<32 | uint64(id)
}

// Key4 is the key of an IPv4 datagram.
func Key4(src, dst [4]byte, id uint16, proto uint8, domain uint64) Key {
	return Key{
		SrcLo: uint64(binary.BigEndian.Uint32(src[:])), DstLo: uint64(binary.BigEndian.Uint32(dst[:])),
		Domain: domain, tag: makeTag(IPv4, proto, uint32(id)),
	}
}

// Key6 is the key of an IPv6 datagram.
func Key6(src, dst [16]byte, id uint32, domain uint64) Key {
	return Key{
		SrcHi: binary.BigEndian.Uint64(src[:]), SrcLo: binary.BigEndian.Uint64(src[8:]),
		DstHi: binary.BigEndian.Uint64(dst[:]), DstLo: binary.BigEndian.Uint64(dst[8:]),
		Domain: domain, tag: makeTag(IPv6, 0, id),
	}
}

// Family returns the family of the datagram.
func (k *Key) Family() Family { return Family(k.tag >> 40) }

// Proto returns the protocol of an IPv4 datagram, 0 otherwise.
func (k *Key) Proto() uint8 { return uint8(k.tag >> 32) }

// ID returns the identification: 16 bits in IPv4, 32 in IPv6, size<<16 | tag in
// 6LoWPAN.
func (k *Key) ID() uint32 { return uint32(k.tag) }

// Src returns the source address; the zero Addr for 6LoWPAN.
func (k *Key) Src() netip.Addr { return addr(k.Family(), k.SrcHi, k.SrcLo) }

// Dst returns the destination address; the zero Addr for 6LoWPAN.
func (k *Key) Dst() netip.Addr { return addr(k.Family(), k.DstHi, k.DstLo) }

func addr(fam Family, hi, lo uint64) netip.Addr {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], hi)
	binary.BigEndian.PutUint64(b[8:], lo)
	switch fam {
	case IPv4:
		return netip.AddrFrom4([4]byte(b[12:]))
	case IPv6:
		return netip.AddrFrom16(b)
	}
	return netip.Addr{}
}

// String prints the key for people: "10.0.0.1 > 10.0.0.2 id 7 proto 17".
func (k *Key) String() string {
	var s string
	switch k.Family() {
	case LoWPAN:
		s = fmt.Sprintf("%v > %v tag %d size %d", k.LinkSrc(), k.LinkDst(), uint16(k.ID()), k.linkSize())
	case IPv4:
		s = fmt.Sprintf("%v > %v id %d proto %d", k.Src(), k.Dst(), k.ID(), k.Proto())
	default:
		s = fmt.Sprintf("%v > %v id %d", k.Src(), k.Dst(), k.ID())
	}
	if k.Domain != 0 {
		s += fmt.Sprintf(" domain %#x", k.Domain)
	}
	return s
}

// keyedHash returns the default Config.Hash: the runtime's keyed hash under a
// seed of its own, about 6 ns. Two caches never share a seed, so colliding keys
// cannot be computed beforehand (RE-D10, RE-S10, RE-L16).
func keyedHash() func(*Key) uint64 {
	seed := maphash.MakeSeed()
	return func(k *Key) uint64 {
		return maphash.Bytes(seed, unsafe.Slice((*byte)(unsafe.Pointer(k)), unsafe.Sizeof(*k)))
	}
}
