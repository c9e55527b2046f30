// Package reasm puts IP datagrams back together from their fragments, those of
// IPv4, IPv6 and 6LoWPAN, under a memory limit, several ways.
//
// An IP fragment cache holds half-received datagrams. The question it answers
// is who is dropped when memory runs out, who does the dropping, and what that
// costs on many CPUs. Each answer here is a design, one file long; everything
// else they share.
//
//	cache, err := reasm.New(reasm.Default, reasm.DefaultConfig())
//	lane := cache.Lane(0)                // one goroutine at a time
//	var (
//		parser reasm.Parser
//		f      reasm.Fragment
//	)
//	parser.Parse(packet, 0, &f)
//	if r := lane.Add(now, &f); r.Verdict == reasm.Complete {
//		use(r.Datagram.Bytes())
//		r.Datagram.Release()
//	}
//
// # Use it when
//
// you receive fragments (capture, tunnel, gateway, user-space stack) and must
// not be stopped by loss or by an attacker. You do not need it behind a kernel
// that already reassembled.
//
// # Guarantees
//
//	Q1  Every packet given to Add gets one verdict, and that verdict's counter
//	    goes up by one. Nothing from the network panics.
//	Q2  A malformed packet, or one that discards its own datagram at once, costs
//	    no state (but for the quirks that LinuxConfig names).
//	Q3  A datagram is delivered at most once, with exactly the bytes of the first
//	    copy of each of its fragments.
//	Q4  Which fragments are duplicates, overlaps or bad ends is what Linux 6.18
//	    says, in every order of arrival, for every design; in 6LoWPAN it is what
//	    RFC 4944 says.
//	Q5  Exactly one of completion, expiry, eviction, restart, a killing fragment
//	    and Close retires a queue; the others find it gone.
//	Q6  A queue is not joined at or after its deadline, nor past MaxAge, however
//	    late Step runs.
//	Q7  In Copy no byte of the caller's packet is read after Add returns. In
//	    Borrow each kept buffer comes back exactly once: through Config.Free, on
//	    the goroutine that gave it up, with no lock held.
//	Q8  Bytes is the sum of what live queues and unreleased datagrams are charged;
//	    after Close and the last Release it is exactly 0.
//	Q9  No callback runs under a lock; each may call the cache.
//	Q10 No call waits for another lane but for a queue that both want, or the
//	    short lock of a table or list that the design shares.
//	Q11 No allocation per fragment in steady state.
//	Q12 With Hash and Rand given, and one goroutine, the same calls give the same
//	    results.
//
// # How
//
// The fragment*.go files parse; holes.go knows which bytes are held; queue.go is
// one datagram; datagram.go is what comes out. cache.go and lane.go are the
// shared frame: find the queue, judge the fragment, retire. The design_*.go files
// choose index, charge, victim and evictor, and are listed in designs.go.
//
// # From
//
// RFC 791, 815, 2460/8200, 3168, 4944, 4963, 5722, 6282, 6946, 7112; answers
// recorded from Linux 6.18; the netdev mails named in each design.
package reasm
