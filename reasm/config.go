package reasm

import (
	"errors"
	"fmt"
	"time"
)

// Mode says who owns a fragment's bytes after Add.
type Mode uint8

const (
	// Copy copies each payload to its place in a contiguous buffer. The caller's
	// buffer is free when Add returns.
	Copy Mode = iota
	// Borrow keeps the caller's buffer of every fragment whose verdict is Kept,
	// and gives it back through Config.Free.
	Borrow
)

// Limits bound the memory of a cache, in charged bytes. They may be changed at
// any time with SetLimits.
type Limits struct {
	// High is where the design acts: it refuses or evicts when more than High
	// bytes are charged (strictly above, as Linux). With 0 hard-limit refuses
	// everything; designs that evict still take a fragment in, and evict for the next.
	High int64
	// Low is where eviction stops, for designs that evict: 0 <= Low <= High.
	Low int64
}

// Charge says what a fragment costs, in bytes. Nil functions mean what is really
// pinned: in Copy the buffer's capacity, in Borrow the capacity of the packet
// and the record that refers to it, and the queue itself.
type Charge struct {
	Queue    func(*Fragment) int64 // a queue, named by its first fragment
	Fragment func(*Fragment) int64 // one stored fragment
}

// Buffer is a packet that borrow mode gives back.
type Buffer struct {
	Packet []byte // Fragment.Packet as it was added
	Ref    uint64 // Fragment.Ref

	off, payload uint32 // offset in the datagram, and where the payload starts
}

// Expired tells about a datagram that ran out of time.
type Expired struct {
	Key Key
	// First is the packet of the fragment at offset 0 as it arrived (the first
	// copy, padding cut), nil if it is not held. A stack answers time exceeded
	// (ICMP 11/1, ICMPv6 3/1) quoting it, and only if it is there. In 6LoWPAN, where
	// nobody is answered, it is the start of the IPv6 packet. It is valid until the
	// hook returns.
	First     []byte
	Bytes     int   // payload bytes held
	Fragments int   // fragments held
	Age       int64 // nanoseconds since the first fragment
}

// Config describes a cache. Start from LinuxConfig or DefaultConfig.
type Config struct {
	// Lanes is how many goroutines may add fragments at the same time, each on a
	// lane of its own (one per receive queue).
	Lanes  int
	Limits Limits
	Mode   Mode

	// Timeout4, Timeout6 and TimeoutLoWPAN are how long a datagram may take from its
	// first fragment; nothing refreshes them. 0 expires it at the next Step. RFC
	// 4944 allows 60 s at most.
	Timeout4, Timeout6, TimeoutLoWPAN time.Duration
	// MaxAge is the age past which a queue is not joined: the newcomer starts a
	// new datagram in its place. It keeps a reused identification from splicing
	// two datagrams (RFC 4963), also when Step is late. 0 means no such cap.
	MaxAge time.Duration
	// MaxDist restarts an IPv4 queue when this many fragments of its source, or
	// more, came between two of its own (Linux ipfrag_max_dist). 0 is off.
	MaxDist int

	// Headroom is the space in front of the packet in Copy, for headers that the
	// caller wants to put before it.
	Headroom int
	Charge   Charge

	// Hash is the keyed hash of the table. Nil draws a key of its own; a
	// simulation sets one, so that a run can be repeated.
	Hash func(*Key) uint64
	// Rand feeds designs that sample. Nil derives numbers from Hash.
	Rand func() uint64

	// OnExpire is told of every expired datagram, after all locks are dropped, on
	// the goroutine that expired it. It may call the cache. Nil ignores them.
	OnExpire func(*Expired)
	// Free takes back the buffers of Borrow, those of one datagram in each call,
	// after all locks are dropped, on the goroutine that gave them up. The slice
	// is valid until it returns. Required in Borrow.
	Free func([]Buffer)

	// Quirks are the kernel's oddities; all off in DefaultConfig.
	Quirks Quirks
}

// LinuxConfig is a stock Linux 6.18, with its quirks, on one lane: the vectors
// recorded from that kernel pass under it.
func LinuxConfig() Config {
	return Config{
		Lanes:         1,
		Limits:        Limits{High: 4 << 20, Low: 3 << 20},
		Timeout4:      30 * time.Second,
		Timeout6:      60 * time.Second,
		TimeoutLoWPAN: 60 * time.Second,
		MaxDist:       64,
		Headroom:      defaultHeadroom,
		Quirks:        linuxQuirks,
	}
}

// DefaultConfig joins fragments by the rules of a Linux host, so that a
// monitor sees what such a host sees, without what makes Linux fail under load:
// max_dist is off (64 fragments kill every sender with two streams), no memory
// is spent on a fragment that was refused, and MaxAge bounds chimeras.
func DefaultConfig() Config {
	c := LinuxConfig()
	c.MaxDist = 0
	c.MaxAge = 15 * time.Second // the reassembly timeout that RFC 791 proposed
	c.Quirks = Quirks{EndFromDuplicate: true}
	return c
}

// defaultHeadroom leaves room for an Ethernet header with two VLAN tags and a
// tunnel header in front of the packet.
const defaultHeadroom = 64

// maxLanes bounds Config.Lanes; it is a sanity check, not a design limit.
const maxLanes = 1 << 12

var errBorrowNeedsFree = errors.New("reasm: Borrow needs Config.Free")

func (l Limits) validate() error {
	if l.Low < 0 || l.Low > l.High {
		return fmt.Errorf("reasm: limits need 0 <= Low <= High, got Low %d, High %d", l.Low, l.High)
	}
	return nil
}

func (c *Config) validate() error {
	if c.Lanes < 1 || c.Lanes > maxLanes {
		return fmt.Errorf("reasm: Lanes must be 1 to %d, got %d", maxLanes, c.Lanes)
	}
	if err := c.Limits.validate(); err != nil {
		return err
	}
	for _, d := range []struct {
		name string
		v    time.Duration
	}{{"Timeout4", c.Timeout4}, {"Timeout6", c.Timeout6}, {"TimeoutLoWPAN", c.TimeoutLoWPAN}, {"MaxAge", c.MaxAge}} {
		if d.v < 0 {
			return fmt.Errorf("reasm: %s is negative: %v", d.name, d.v)
		}
	}
	if c.MaxDist < 0 {
		return fmt.Errorf("reasm: MaxDist is negative: %d", c.MaxDist)
	}
	if c.Headroom < 0 || c.Headroom > 1<<12 {
		return fmt.Errorf("reasm: Headroom must be 0 to %d, got %d", 1<<12, c.Headroom)
	}
	if c.Mode > Borrow {
		return fmt.Errorf("reasm: no such Mode: %d", c.Mode)
	}
	if c.Mode == Borrow && c.Free == nil {
		return errBorrowNeedsFree
	}
	return nil
}
