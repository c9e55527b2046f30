package reasm

// Design names one way to build the cache.
type Design struct {
	Name string
	Seed string // the mail it comes from
	Idea string // index, charge, victim and evictor, in one line

	host  func(*Host)         // chooses index, account and worker
	cache func(*cache) design // makes the part of a namespace
}

// Designs lists all of them, oldest idea first. The first one is what New's
// callers should take until they have measured their own traffic.
var designs = []Design{
	{"global-lru", "002, 004", "one table and one list under one lock each; evicts the least recently updated, inline",
		globalLRUHost, newGlobalLRU},
	{"hard-limit", "000", "refuses every fragment above High, evicts nobody: Linux since 4.17",
		hardLimitHost, newHardLimit},
}

// Designs returns the designs in order, oldest idea first.
func Designs() []Design { return append([]Design(nil), designs...) }

// Default is the design to take unless you know better.
const Default = "global-lru"

func lookupDesign(name string) *Design {
	for i := range designs {
		if designs[i].Name == name {
			return &designs[i]
		}
	}
	return nil
}
