// Package scenario asks every fragment-cache design the questions that the mails
// asked, and answers with numbers that can be compared.
//
// A scenario is a file: its header says from which mail it comes, what it asks,
// the load, the measure and what is expected. It lists variants; each variant is
// traffic, a memory limit and a configuration. A run is one variant with one
// design: real packets, parsed by the library's own parser, go into a real cache
// in virtual time, on one goroutine. Lanes are virtual CPUs.
//
// # Guarantees
//
//	S1  Every design of a variant sees the same packets at the same times.
//	S2  The same seed gives the same rows, whatever GOMAXPROCS is.
//	S3  The bound holds for any cache, also one that knows the future, that uses
//	    no more memory than the run did. No completed count exceeds it.
//	S4  A datagram counts as completed only if every byte that says where it
//	    belongs stands where its sender put it.
//	S5  At the end of a run every packet has come back and nothing is charged;
//	    otherwise the run is an error.
//
// # How
//
// traffic.go, streams.go, flood.go, path.go and address.go are the pieces that
// traffic is mixed from; trace.go is the mix, ordered, with what it makes
// possible; packet.go turns it into packets; run.go feeds them to a cache;
// meter.go defines every metric, once; bound.go is the bound; plan.go spreads
// runs over the machine's cores. All others are scenarios.
//
// # From
//
// The netdev mails named in each scenario. The bound is the Lagrange dual of a
// packing problem in time windows; see bound.go.
package scenario
