package reasm

// Verdict says what became of one fragment, and why. Every fragment gets
// exactly one, and each has a counter in Stats.
type Verdict uint8

// The verdicts.
const (
	// Held: stored; its datagram is not complete yet. The cache keeps the buffer.
	Held Verdict = iota
	// Complete: stored, and it completed its datagram. The cache keeps the buffer.
	Complete

	// Whole: not a fragment. The packet is the caller's, no state was touched.
	Whole
	// Atomic: an IPv6 packet with a Fragment header that is its own datagram
	// (RFC 6946). It never meets a queue; deliver the packet as it is.
	Atomic

	// Duplicate: every byte of it stands in one run that is held; in 6LoWPAN it is
	// exactly one fragment that is held. Ignored; the contents are not compared, the
	// first copy stays.
	Duplicate

	// Refused: the limit was reached and the design gave nothing up for it.
	Refused
	// Closed: the cache or its namespace was closed.
	Closed

	// Overlap: it covers bytes that are held, but is no duplicate. The whole
	// datagram was discarded (RFC 5722, RFC 8200; Linux does the same for IPv4). In
	// 6LoWPAN such a fragment is Held, and Result.Restarted set.
	Overlap
	// BadEnd: a second end of the datagram, or data beyond its end. Discarded.
	BadEnd
	// ZeroLength: a fragment without payload. The datagram was discarded.
	ZeroLength
	// TooLong: complete, but longer than an IP packet can be. Discarded.
	TooLong
	// BadECN: fragments of one datagram are marked both Not-ECT and ECT or CE
	// (RFC 3168 5.3). Discarded at completion.
	BadECN

	// BadLength: an IPv6 fragment that is not the last, and not a multiple of 8
	// bytes long. Only the fragment is refused, with a parameter problem. Also in
	// 6LoWPAN, with no problem to answer; there an empty fragment too.
	BadLength
	// OffsetTooLarge: an IPv6 fragment that reaches beyond 65535 bytes. Only the
	// fragment is refused, with a parameter problem. In 6LoWPAN one that reaches
	// beyond its datagram, with none.
	OffsetTooLarge
	// ShortChain: an IPv6 first fragment without its whole header chain (RFC 7112,
	// RFC 8200). Only the fragment is refused, with a parameter problem. In 6LoWPAN
	// one without the whole IPv6 header, with none.
	ShortChain
	// NoRoom: an IPv6 packet whose payload length is 0 or leaves no room for its
	// Fragment header. Refused with a parameter problem.
	NoRoom
	// Unsupported: a 6LoWPAN first fragment whose header is compressed in a way that
	// this package does not undo; see Parser.LoWPAN. Only the fragment is refused.
	Unsupported

	// Truncated: the packet is shorter than its header says.
	Truncated
	// BadHeader: not an IP header (version, IHL, total length below the header), or a
	// 6LoWPAN header that contradicts itself.
	BadHeader
	// BadChecksum: the IPv4 header checksum is wrong, and the parser verifies it.
	BadChecksum

	numVerdicts
)

var verdictNames = [numVerdicts]string{
	"held", "complete", "whole", "atomic", "duplicate", "refused", "closed", "overlap", "bad-end", "zero-length",
	"too-long", "bad-ecn", "bad-length", "offset-too-large", "short-chain", "no-room", "unsupported", "truncated",
	"bad-header", "bad-checksum",
}

// String returns the verdict in lower case, words joined by hyphens.
func (v Verdict) String() string {
	if v < numVerdicts {
		return verdictNames[v]
	}
	return "verdict?"
}

// Kept reports whether the cache keeps the fragment's buffer. It is the one rule
// of borrow mode: a buffer that was not kept is still the caller's.
func (v Verdict) Kept() bool { return v <= Complete }

// Malformed reports whether the packet was refused by the parser.
func (v Verdict) Malformed() bool { return v >= Truncated && v < numVerdicts }

// killed reports whether the verdict discards a whole queue.
func (v Verdict) killed() bool { return v >= Overlap && v <= BadECN }

// Problem is the ICMPv6 parameter problem that a stack must answer to a refused
// fragment (RFC 8200 4.5). The library never sends it. The zero value is none.
type Problem struct {
	Due     bool   // there is one; it must be answered, unless the packet was multicast
	Code    uint8  // 0 erroneous field, 3 first fragment without its header chain
	Pointer uint32 // offset of the field in the packet that was refused
}

// Losses is what was given up for the sake of one fragment.
type Losses struct {
	// Restarted: the datagram's earlier fragments were dropped first, as too far
	// away (max_dist), too old (MaxAge), past their timeout, or in conflict with it
	// (6LoWPAN).
	Restarted bool
	// Evicted counts the queues given up while the fragment was taken in.
	Evicted int32
}

// Result is the outcome of one fragment. It has four fields because the compiler
// keeps a structure of more in memory, where copying it costs a tenth of Add.
type Result struct {
	Verdict Verdict
	Problem Problem
	Losses
	// Datagram is set when Verdict is Complete. The caller must Release it.
	Datagram *Datagram
}
