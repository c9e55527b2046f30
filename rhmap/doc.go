// Package rhmap is a concurrent hash table that can be walked while it grows,
// shrinks and changes its hash key.
//
// # Use it when
//
// many goroutines look up, and elements come and go; when somebody must visit
// every element, bit by bit, for ever, without stopping the others; or when
// strangers choose the keys. A plain map behind an RWMutex is simpler, and walks
// faster, when writes are rare and a walk may stop the world.
//
// There are two front ends on one core:
//
//	Map[K, V]    keys of any comparable type to values, with the methods of
//	             sync.Map and a few more; entries are garbage collected
//	Table[K, N]  the caller's objects, each with a Node embedded, by keys of one to
//	             eight 64 bit words; no allocation; objects may be pooled
//
// A fragment cache uses a Table like this:
//
//	ref := table.Lookup(&key)                 // or LookupBatch, for a batch of packets
//	if !ref.Ok() {
//		q := pool.Get()                       // not in the table: ours alone
//		ref, inserted, err = table.InsertUnique(&key, q)
//	}
//	q := ref.Node
//	q.mu.Lock()
//	if !table.Live(ref) {                     // removed, perhaps used again: look up anew
//	...
//	if table.Remove(ref) {                    // exactly one caller wins; q is ours again
//	...
//	for n, more := w.NextBatch(refs, 256); ... // the evictor: one Walker for life
//
// # Guarantees
//
//	R1   Lookup, Load, Insert, Remove and the other operations on one key are
//	     linearizable, also while the table is resized.
//	R2   Reads are wait-free: at most two chains, each passed once. They write
//	     nothing and allocate nothing.
//	R3   Nobody waits for a resize. A write moves at most 9 chains of it (9 pairs,
//	     when shrinking); a new array comes in segments of 64 KiB, so no write
//	     makes a big allocation. A chain has 24 entries at most unless the hash is
//	     weak or its key known.
//	R4   Writers lock a chain, for some ten nanoseconds, and park when they must
//	     wait for long. No lock is held when a method returns.
//	R5   Len is exact when no write runs, and never negative.
//	R6   A table grows at 3.75 elements per bucket and shrinks at 1.2, to what
//	     Capacity asked for; overflow buckets go when they are empty.
//	R7   A chain of more than 24 elements moves the table to a fresh hash key. What
//	     that costs is bounded by what the long chains have cost before: with a
//	     hopeless hash it happens once per doubling of the table.
//	R8   With Max set InsertUnique and TryStore never go beyond it. Refused inserts
//	     change nothing.
//	R9   InsertUnique, Lookup, LookupBatch, Warm, Remove, Walker.Next, NextBatch and
//	     Probe allocate nothing in the steady state.
//	R10  Remove succeeds once for each element. A Ref names one life of a node and
//	     never a later one.
//	R11  An operation that inserts or changes an element synchronizes before every
//	     operation that finds it so, and a removal before every one that does not
//	     find it because of the removal.
//	R12  With SipHash or CustomHash and a seeded source, the order of walks and
//	     probes depends only on the hashes and the order of operations: never on
//	     addresses, time, or a map of the runtime.
//
// Walks. The cursor is a position in hash space, never an element.
//
//	W1   An element present from Walk to the end MUST be returned exactly once,
//	     across any number of grows, shrinks and reseeds.
//	W2   A key MUST NOT be returned twice unless it was removed and inserted again
//	     in between.
//	W3   An element whose removal completed before the call of Next MUST NOT be
//	     returned.
//	W4   Any element, the one just returned too, MAY be removed meanwhile, by
//	     anyone; elements MAY be inserted, and MAY then be returned.
//	W5   A walk holds no lock, ever. It MAY pause for ever, and delays nobody.
//	W6   A walk ends after at most as many steps as there are buckets, twice that
//	     for each doubling meanwhile; it holds at most the entries of some chains,
//	     and after a reseed the array of its own key.
//
// # How
//
// bucket.go has the picture of a bucket and the rules of a chain, version.go the
// arrays, resize.go the states of a resize and who may move them, walk.go the
// proof of W1 and W2.
//
// # The reuse rule
//
// Queues are pooled, so a reader without a lock may hold a node that is being
// used again for another key. Two rules could make that safe: (a) type-stable
// nodes with a generation, whose key is stored and compared atomically, or (b)
// lookups that take the lock of the chain. We chose (a):
//
//   - A lookup of (b) writes the line of the bucket: 8 ns alone, and a line that
//     travels between CPUs on every fragment otherwise. (a) costs a lookup 2 ns
//     for comparing atomically, and an insert 3 ns per word of the key that
//     differs from the node's last one. With two fragments per datagram they are
//     equal, with more (a) wins, and it makes R2 hold for Table too.
//   - A walker needs the generation anyway: it must not lock, and must tell the
//     element it saw from the next one in the same memory.
//
// What (a) asks of the caller: a node belongs to one table for ever. It may be
// pooled, and it may be left to the garbage collector.
//
// The protocol in three lines: the key is written while the life is even; the
// life becomes odd after the slot shows the node, and even before the slot is
// cleared; a reader takes a node only if the life was odd, and the same, before
// and after it compared the key. A walker checks the slot once more, and, where
// the chain was retired meanwhile, that the hash of the key belongs to the step it
// is in, and then that the life still lasts. protocol_test.go searches every
// interleaving of two nodes, three keys, a mutator, a mover that grows or reseeds,
// and a reader or a walker (15 million states), and shows that each of those
// clauses is needed; finish_test.go does the same for how arrays are left.
//
// In an overflow bucket a walker checks besides, while the chain is being moved or
// has been, that the bucket is still one of it: it may have been unlinked and have
// become part of the copy. overflow_test.go searches that.
//
// # From
//
// Linux lib/rhashtable.c (Graf 2014; walkers, reseed at a chain limit) and its
// users' complaints; buckets of a cache line with tags from CLHT (David et al.
// 2015), Swiss tables (Benzaquen et al. 2017) and xsync (Puzankov); order by high
// bits from scc; the seed mails 000 (a worker with one walker for life) and 001
// (rebuild when a chain is too long).
package rhmap
