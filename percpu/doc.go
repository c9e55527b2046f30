// Package percpu counts without making processors share a cache line.
//
// # Use it when
//
// many goroutines on many Ps write often and somebody reads now and then:
// statistics, gauges, pools of credit. Use a plain atomic.Int64 when writers are
// few, or when most operations need the new value: a sharded counter cannot
// tell it (there is deliberately no AddAndLoad).
//
//	Counter   one number; starts as one word, shards itself under contention
//	Group     many numbers, packed: 8 bytes per number per lane
//	Batched   one number with a cheap approximate read and a proven error
//	Snapshot  several numbers read, or drained, at one instant
//	Values    one T per lane, for everything that is not a number
//	Spread    picks a lane: one for all until they collide
//
// # Lanes
//
// A lane is a small integer that says which copy of a sharded thing to use.
// ID returns the id of the P it runs on; it is a hint, stale as soon as it is
// returned, and nothing here breaks when it is wrong: two goroutines on one lane
// only meet on a cache line. Code that already has a lane of its own (a receive
// queue, a worker) passes that to the ...At forms and asks for no id at all.
// Any int is a lane; lanes that agree modulo 1024 share.
//
// # Guarantees
//
//	C1  Nothing is lost and nothing counted twice: after all calls have
//	    returned, a read gives exactly the sum of what was added (modulo 2^64),
//	    also across the moment a Counter shards itself.
//	C2  A read of a Counter or Group, and Batched.Exact, include every Add that
//	    returned before the read began, no Add that began after it returned,
//	    and any subset of the Adds in between. For a Counter that only ever
//	    grows by one that is linearizable; in general it is not: with adds of
//	    both signs in flight the result may be a total that never existed.
//	C3  Batched: |Approx() - truth| <= Slack() = lanes*(batch-1), counting as
//	    truth the Adds that have returned, at every instant, as long as each
//	    lane has one Add at a time; otherwise a fold in progress, of which there
//	    is one, may hide batch-1 more. Compare allows for that.
//	C4  Batched.TryAdd never takes the truth past its limit if nothing else
//	    raises the counter, and refuses only after folding every lane.
//	C5  Snapshot.Read and Swap see all counters at one instant between call and
//	    return; AddAll changes several counters in one step. Swap loses nothing:
//	    every Add is returned by exactly one Swap, or still counted.
//	C6  GOMAXPROCS may change in either direction at any time. The address of
//	    a cell never changes, and its value is never moved because of it.
//	C7  No user code runs while a goroutine is pinned; nothing runs pinned at
//	    all. What an operation begins on one lane it ends on that lane.
//	C8  Adding allocates nothing, except when a Counter shards itself, and the
//	    first time a lane beyond the Ps is used.
//
// An Add synchronizes before any read that includes it.
//
// # How
//
// cells.go: rows for the lanes that are expected, and a directory of blocks for
// others that only grows, so that addresses are stable. spread.go: when one word
// becomes many. counter.go, group.go, batched.go,
// snapshot.go and values.go hold one type each; pin.go is the only file that
// reaches into the runtime, and -tags percpu_nolinkname replaces it.
//
// # Cost
//
// On a 2-vCPU AMD EPYC an add to a Counter that nobody competes for costs 2.2 ns
// (a shared atomic 2.1); once sharded 4.4 ns of the P that does it, of which
// asking for its id is 2.7 (a shared atomic under two Ps: 10.9). A lane of a
// sharded Counter or Batched costs 128 bytes, and as many lanes are made at once
// as there are Ps. bench/micro measures both against a shared atomic and xsync;
// bench/results keeps the output.
//
// # From
//
// Linux lib/percpu_counter.c (Batched); crlib's crsync, which packs counters by
// processor (Group); the per-P statistics of Go's runtime/mstats.go (the problem
// Snapshot solves without pinning); java.util.concurrent's LongAdder (sharding on
// contention); golang/go issues 18802 and 80645 (what users asked for).
package percpu
