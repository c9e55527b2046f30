package reasm

// Quirks are what a Linux kernel does and a reassembler need not: each was seen
// in recorded answers of Linux 6.18.
type Quirks struct {
	// EndFromDuplicate takes the end of the datagram, and the fact that the last
	// fragment was seen, before the duplicate test. A last fragment whose bytes
	// are held already is ignored, yet its end counts: it may complete the
	// datagram with the next stored fragment, or kill it (RE-L24).
	EndFromDuplicate bool
	// EmptyQueue6 keeps a queue without data, until its timeout, when the first
	// fragment of an IPv6 datagram is refused with a parameter problem (RE-L23).
	EmptyQueue6 bool
	// SizesSurviveRestart keeps the largest sizes seen when max_dist restarts a
	// queue, so that they speak of dropped fragments too (RE-L21).
	SizesSurviveRestart bool
	// MaxSize16 keeps an IPv6 datagram's largest packet in 16 bits, so that a
	// packet of 65536 bytes counts as 0.
	MaxSize16 bool
}

var linuxQuirks = Quirks{EndFromDuplicate: true, EmptyQueue6: true, SizesSurviveRestart: true, MaxSize16: true}
