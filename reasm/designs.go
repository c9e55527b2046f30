package reasm

// Design names one way to build the cache.
type Design struct {
	Name string
	Seed string // the mail it comes from
	Idea string // index, charge, victim and evictor, in one line

	host  func(*Host)         // chooses index, account and worker
	cache func(*cache) design // makes the part of a namespace
}

// designs lists all of them, oldest idea first.
var designs = []Design{
	{"global-lru", "002, 004", "one table and one list, a lock each; evicts the least recently updated, inline",
		globalLRUHost, newGlobalLRU},
	{"warm-lru", "004", "global-lru, but spares what got a fragment in the last 10 ms",
		globalLRUHost, newWarmLRU},
	{"percpu-lru", "002", "a list and a limit for each lane; evicts its own oldest",
		percpuLRUHost, newPerCPULRU},
	{"hash-clean", "002, 004", "no list; evicts the longest idle of the chain at hand",
		hashCleanHost, newHashClean},
	{"work-queue", "001", "a worker evicts whole buckets; newcomers are refused above High",
		workQueueHost, newWorkQueue},
	{"hard-limit", "000", "refuses every fragment above High, evicts nobody: Linux since 4.17",
		hardLimitHost, newHardLimit},
	{"walker", "000", "a worker evicts in table order with one walker for life",
		walkerHost, newWalker},
	{"adaptive", "003", "the fuller memory is, the shorter the timeout; evicts nobody",
		adaptiveHost, newAdaptive},
	{"worth", "none", "gives up the queue that is worth least of a few; refuses who is worth less",
		worthHost, newWorth},
}

// Designs returns the designs in order, oldest idea first.
func Designs() []Design { return append([]Design(nil), designs...) }

// Default is the design to take unless you know better.
const Default = "worth"

func lookupDesign(name string) *Design {
	for i := range designs {
		if designs[i].Name == name {
			return &designs[i]
		}
	}
	return worthWithout(name)
}
