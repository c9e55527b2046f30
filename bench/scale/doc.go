// Package scale predicts what each design costs on more CPUs than there are here.
//
// # Method
//
// The real designs run, not models of them. Package overlay rewrites the library so
// that every load, store, atomic and lock says which address it touches; package
// machine has up to 128 virtual CPUs, in virtual time, and charges each access for
// where the line is at that moment. Queues at hot words, locks that collapse, memory
// that fills, evictions that take the same locks: all of that comes from the code.
// Which word is hot has a name, because each access has one (profile).
//
// The library's own build has no trace of this. go build -overlay gives the compiler
// the rewritten copy; it takes some seconds, the go command, and the sources.
//
//	Calibrate   constants of a machine: a transfer, near and far; a locked
//	            instruction; a wake-up; each design's own cost on one CPU
//	Validate    the designs timed on one CPU and two, beside the model
//	Predict     1 to 128 CPUs
//	Mail        the table of mail 002
//	Profile     the lines that cost most, per fragment
//
// The machine of the committed prediction, "clusters", has 8 CPUs near each other and
// all others far, with both transfers as measured. The locks are sync.Mutex, with its
// spinning, parking and handing over.
//
// # How far to trust it
//
// On one CPU the model was given each design's cost with 44 and with 3 fragments (two
// figures, two unknowns), so nothing is proven there. On two it was given nothing of
// the designs. bench/results/scale-validate.txt has the errors. They are largest where
// a word or a lock is saturated across a long distance: such a cell has two ways to
// run, and the machine and the model may choose differently. Designs that differ by a
// quarter or more were put in the right order in every pair.
//
// Beyond two CPUs nothing was measured. Reread, Handed, Park and the shape of the
// machine are assumptions. Not in the model: the size of caches, memory bandwidth,
// NUMA, the directory, hyperthreads, frequency, the collector, interrupts, the
// receiving process. All of it would slow the fast ones down. A mutex that hands over
// costs a wake-up each time, 33 µs where this was measured, a virtual machine whose
// idle processors halt; elsewhere global-lru collapses less deeply.
//
// So: who is ahead of whom, where a curve bends (to a factor of two), and which line
// is next. Not fragments per second.
//
// # Mail 002
//
// percpu-lru is ahead of global-lru in all six columns, more with an attack than
// without, and most when the attack is on all queues, as in the mail. The ratios are
// greater than the mail's, for two reasons that are in the designs. global-lru here is
// the cache of Linux 2.6 to 3.8, with one lock for the table beside the list's; the
// mail's net-next had a lock for each chain already. And the mail's kernel took a
// reader-writer lock that all CPUs share at each look into the table, which is what
// limits its LRU-pr-CPU under MQ; percpu-lru here reads a count that nobody writes.
//
// # Making the committed files anew
//
//	go run ./bench/fraglab scale calibrate -o new.json && mv new.json bench/scale/constants.json
//	go run ./bench/fraglab scale run --json > new.json && mv new.json bench/scale/prediction.json
//
// The program embeds both files, so a redirection straight into one would have it
// built with an empty one.
//
// TestCommittedPredictionIsOfThisLibrary fails when that has become necessary.
package scale
