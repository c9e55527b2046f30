// Package memacct counts memory against limits: for accounts that contain each
// other (a host, its namespaces, their peers), charged on many processors at once,
// released anywhere, and changed, drained and closed while that goes on.
//
// # Use it when
//
// "how much is in use, and may I have more?" is asked once a packet. For a single
// number without limits use percpu.Counter; for admission by rate, not by amount,
// use a rate limiter. The package does not know what is charged, evicts nothing,
// and reads no clock: it says yes or no, and tells when a mark is crossed.
//
// Three designs stand behind one interface, Account:
//
//	Atomic   one shared word per level; exact, and every processor fights for it
//	Batched  a rough count (Linux 2013 to 2018): passes its limit; for comparison
//	Stock    credit in every lane, taken from the shared words beforehand: a cap
//	         that holds, at the price of a use that is over-reported a little
//
// # Guarantees
//
// Of Atomic and Stock, while nothing but TryCharge charges and no cap is lowered;
// "at every instant" means of the whole execution, not when things are quiet.
//
//	M1  Hard cap. outstanding <= Used <= Cap at every instant, for every account.
//	M2  Containment. Used of an account is at every instant at least the sum of
//	    its children's.
//	M3  One-sided. Used never reports less than is outstanding. Atomic reports
//	    what is; Stock at most Slack more, plus what running calls have in hand.
//	M4  No drift. Used - idle credit = outstanding is kept by every step; when all
//	    has been given back, Exact is 0, here and above, to the byte.
//	M5  No trace of a refusal: a TryCharge that returns false leaves every level as
//	    it was.
//	M6  SetLimits holds from its return: no TryCharge that begins later succeeds
//	    unless it fits the new cap; credit from before is called in.
//	M7  A refusal is a refusal (Stock): before one, all idle credit below the
//	    account in the way was called in. So it implies outstanding + n + what
//	    calls still running have in hand > Cap; with no other call running,
//	    outstanding + n > Cap exactly. Charge is exempt from limits.
//	M8  Close reports what is left and gives it back to the ancestors once,
//	    whatever runs meanwhile: never zero times, never twice.
//	M9  An over-release never reaches below zero of its own account, so it cannot
//	    take what its siblings hold out of the parent. Atomic panics on it; Stock
//	    panics with -tags invariants, and otherwise reports it, with both numbers,
//	    at the latest from the Exact, Drain or Close after all else came back.
//	M10 (Batched) |Used - outstanding| <= Slack = lanes*(Batch-1), as percpu C3.
//
// No call of Atomic or Stock waits for another, except for a mutex in Child,
// SetLimits, Shut, Close, and when a Stock becomes strained or calm. A charge
// synchronizes before the release, read or refusal that depends on it.
//
// # Why they hold
//
// Spendable bytes are counted first (M1, M3): a word of use grows only by a
// compare-and-swap that checks the cap, ancestors first (M2), and credit becomes
// spendable only after every level has counted it. Credit is spent by a
// compare-and-swap of the lane's own cell, which changes no use. Give-backs go the
// other way: out of the cell, then off the account, then off the ancestors. So at
// every step use counts outstanding bytes, cells, and amounts in hands, each once
// (M4), and counts them early and forgets them late.
//
// A cap near its end would strand what idles in other lanes. Three things prevent
// it: a lane asks for at most what every lane could take twice over; a refusal
// strains the account, which calls all credit below it in and makes every call
// exact until an eighth of the cap is free again; and two crossed pairs, named in
// strain.go (memacct.put) and stock_slow.go (memacct.cap), see to it that no credit
// is put down behind the sweep. model_test.go explores every interleaving of charge,
// release, refusal and sweep in small, and of the same without the second look.
//
// # Choosing limits
//
// At 100 % of its cap a stock counts on shared words, like Atomic: on two Ps with
// three levels that is 9 to 19 times the cost of a charge from the lane. Code that
// evicts should aim at a Low that leaves 64 KiB per lane: then it stays on its
// lanes. High and Low are judged on Used, so they act up to Slack early (at most
// about an eighth of High), never late.
//
// # From
//
// Linux mm/page_counter.c and the memcg stock (2014; per counter and CPU since
// 2026): pre-charged credit. lib/percpu_counter.c: Batched. Mail 001, patch 9 of
// 2014: limits of namespaces stay within the host's. Cockroach's mon package:
// closing reports what is left. LongAdder: sharding on contention.
package memacct
