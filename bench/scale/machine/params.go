package machine

// LockKind is how a mutex of the library behaves on the machine.
type LockKind string

const (
	// Mutex is Go's sync.Mutex: newcomers barge in, waiters spin, park and are
	// woken, and after a millisecond of waiting it is handed over in order.
	Mutex LockKind = "mutex"
	// Ticket is the spin lock of Linux until 2015: in order, and every waiter reads
	// the line again at each hand-over.
	Ticket LockKind = "ticket"
	// Queued is the spin lock of Linux since: in order, each waiter on a line of
	// its own.
	Queued LockKind = "queued"
)

// Params are a machine: times in nanoseconds, and where its CPUs stand.
type Params struct {
	Access float64 `json:"access"` // a plain load or store that hits, with the instructions around it
	Pool   float64 `json:"pool"`   // taking something from a pool or putting it back, with what goes on around it unmarked
	RMW    float64 `json:"rmw"`    // a locked instruction on a line held exclusively
	Store  float64 `json:"store"`  // a releasing store on such a line

	Near    float64 `json:"near"`    // a line from a CPU of the same cluster
	Far     float64 `json:"far"`     // a line from any other
	Cluster int     `json:"cluster"` // CPUs in a cluster; 0: all are near
	Deal    bool    `json:"deal"`    // neighbouring numbers are in different clusters

	// LookAhead is how long before its use an out-of-order core asks for a line,
	// unless the address hangs on something it still waits for.
	LookAhead float64 `json:"look_ahead"`
	// Keep is the part of a transfer during which the old owner goes on hitting.
	Keep float64 `json:"keep"`
	// Occupy is the part of a transfer that an addition whose result decides nothing
	// keeps the line busy for, and Slip how far the core runs ahead of it.
	Occupy float64 `json:"occupy"`
	Slip   float64 `json:"slip"`

	Lock   LockKind `json:"lock"`
	Reread float64  `json:"reread"` // ticket: how long each further waiter keeps the line
	Handed float64  `json:"handed"` // queued: a hand-over, in transfers

	Spin      float64 `json:"spin"`       // mutex: one round of spinning
	SpinTries int     `json:"spin_tries"` // mutex: rounds before parking
	Park      float64 `json:"park"`       // mutex: CPU time to park
	Wake      float64 `json:"wake"`       // mutex: CPU time to wake another
	WakeAfter float64 `json:"wake_after"` // mutex: until the woken one runs
	Starve    float64 `json:"starve"`     // mutex: waiting longer than this asks for a hand-over
}

// distance is what it costs CPU a to fetch a line from CPU b.
func (p *Params) distance(a, b, cpus int) float64 {
	if p.Cluster == 0 || p.cluster(a, cpus) == p.cluster(b, cpus) {
		return p.Near
	}
	return p.Far
}

func (p *Params) cluster(cpu, cpus int) int {
	if p.Deal {
		return cpu % max(1, (cpus+p.Cluster-1)/p.Cluster)
	}
	return cpu / p.Cluster
}
