// Package lru keeps objects in the order of their last use, so that whoever is
// short of memory can drop the one that nobody has used for longest.
//
// # Use it when
//
// objects live in a structure of your own (a table, a tree, a pool) and you
// need the eviction order beside it: no map, no copy of the key, no allocation,
// no callback. Use Global when one goroutine, or few, use the objects; it is
// exact. Use PerCPU when many do and touches dominate: a touch takes no lock.
// Use a cache library when you want a map with a limit and nothing else.
//
// # Guarantees
//
//	L1  Exactly one remover. Each Insert begins a life, and exactly one Remove or
//	    Pop call ends it: that call says so, all others report false. A node
//	    may be removed by any goroutine, whatever lane it is in.
//	L2  The oldest goes. Global: in the order of the calls. PerCPU: no node that
//	    stays linked during a PopOldest, and is not touched during it, was
//	    touched at an earlier tick than the victim. So the age error is below
//	    one tick; it is the clocks' disagreement more where ticks of different
//	    callers step back against each other, and unbounded only for pops
//	    that Stats.Cut counts. Skew between lanes does not matter.
//	L3  Insert counts as a touch.
//	L4  Only a Pop call evicts. Insert, Touch and Remove never take out another
//	    node; the limit is the caller's, holds the moment the caller pops, and
//	    needs no worker.
//	L5  A PerCPU touch takes no lock and is never undone by a slower one with a
//	    lower tick. A touch that races the pop of the same node may be lost; a
//	    touch of a node that is in no list has no effect.
//	L6  Bounded work. Insert, Remove and Touch take constant time; a pop files at
//	    most Config.Scan nodes anew for each victim it was asked for, and then
//	    settles for the oldest of those.
//	L7  Nothing of the caller's runs under a lock of the list, and no call holds
//	    two of them; so they come last in the caller's lock order.
//	L8  A life's Ref is Current until the next Insert of the node, and never
//	    again after it.
//
// # How
//
// node.go says who may touch which field of a node; global.go is one ring and
// one lock. In a PerCPU a touch only raises the tick in the node, so a lane
// learns of it when it searches for its oldest node:
//
//	lane 0   bound 17   fresh  17 18 18 21 25        never touched, or not yet seen to be
//	                    aged   [20-2f: 2a 22] [30-3f: 31]
//	lane 1   bound 12   fresh  19 20                 aged  [12: 12]
//	                ^
//	                smallest: the search starts in lane 1
//
// The front of fresh is taken if its tick is still the one it was filed under,
// and moves to aged otherwise, filed under the new tick; aged (aged.go) is a
// radix heap, which finds its smallest tick in constant time however the touches
// came. A flood of objects that are never touched costs a push and an unlink
// each, as in a plain list. percpu.go compares the lanes by their bounds, a load
// each.
//
// # From
//
// Seed mail 002 (2013-04): Jesper Dangaard Brouer's LRU list per CPU with a limit
// per CPU (PopOwn), Eric Dumazet's objection that one CPU often receives
// everything (hence one limit and PopOldest), and the requirement that a 512
// kbit/s sender survives a flood. Linux kernel/bpf/bpf_lru_list.c (2016) for
// removal from any CPU, mm/list_lru.c for elements that move between lists;
// Ahuja, Mehlhorn, Orlin, Tarjan, "Faster algorithms for the shortest path
// problem" (1990) for the radix heap.
package lru
