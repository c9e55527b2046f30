// Package study measures how well each design of a fragment cache chooses what to
// give up, under more than two hundred loads, and how far that is from what any
// cache could do.
//
// It is the experiment behind the design worth: the same loads that its rules
// were chosen by, attacks on them, and traffic that they were not chosen by.
// Package scenario asks the questions of the mails; this one asks only who is
// given up, so its traffic has keys that never repeat, and its measure is one
// number.
//
// # Guarantees
//
//	T1  Every design of a scenario sees the same packets at the same times.
//	T2  The same seed gives the same figures, whatever GOMAXPROCS is.
//	T3  A result is a share of a bound that holds for any cache, also one that
//	    knows the future, that stays within the limit (package scenario, bound.go).
//	T4  A datagram counts as completed only if it was delivered with its length,
//	    and with every fragment's stamp where its sender put it.
//	T5  At the end of a run every packet has come back and nothing is charged;
//	    otherwise the run is an error.
//
// # How
//
// traffic.go is the mix, with senders.go, attacks.go and recorded.go as what it
// is made of; link.go makes real packets of it, run.go feeds them to a real
// cache in virtual time, and outcome.go says what came of it. The loads_*.go
// files list the loads; matrix.go runs them and accept.go holds them against what
// was promised. `fraglab study` prints the matrix, and with --check the promises.
//
// # Names
//
//	S1 S2   parallel streams (mail 000); S1r: most of them stop
//	S3      floods beside traffic that fits; S3o S3x: beside traffic that does not
//	S4      a slow sender beside a flood (mail 002); c d e o x: variants
//	S5 S6   a hog and an average peer (mail 003); a lossy interface (mail 004)
//	S7 S8   disorder; sizes with a heavy tail
//	S9 S10  very many streams; very little memory
//	SW      what was learned stops being true
//	AT      attacks by a reader of the code
//	HL HR   held out: bursts of loss; recorded orders
//	HK HB   held out: other packets and links; other budgets
//	HV      held out: other rates
//
// # From
//
// The loads S1 to S10 come from a study of eviction policies made for this
// library; the questions in them from the netdev mails 000 to 004.
package study
