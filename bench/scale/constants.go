package scale

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"

	"corelane/bench/scale/machine"
	"corelane/bench/scale/measure"
)

// Constants are what calibrate finds out about a machine.
type Constants struct {
	CPU     string `json:"cpu"`
	Go      string `json:"go"`
	Commit  string `json:"commit,omitempty"`
	Comment string `json:"comment"`

	Machine machine.Params `json:"machine"`

	// What was measured, in ns; near and far as package measure has them.
	Transfer    measure.Quartiles `json:"transfer"`
	TransferFar measure.Quartiles `json:"transfer_far"`
	WakeUp      measure.Quartiles `json:"wake_up"`
	Micro       []MicroResult     `json:"micro"`
	// Private are what the designs cost on one CPU, where nothing is shared.
	Private []Private `json:"private"`
}

// Private is a design on one CPU: what was measured, and what follows for the two
// costs that depend on the code.
type Private struct {
	Design string                    `json:"design"`
	Access float64                   `json:"access"` // machine.Params.Access and Pool, under this design
	Pool   float64                   `json:"pool"`
	Frags  map[int]measure.Quartiles `json:"frags"` // ns per fragment, by fragments in a datagram
}

// under returns the machine as it is for a design.
func (k *Constants) under(design string, p machine.Params) machine.Params {
	for _, x := range k.Private {
		if x.Design == design {
			p.Access, p.Pool = x.Access, x.Pool
		}
	}
	return p
}

// MicroResult is a micro-benchmark, timed and simulated.
type MicroResult struct {
	Kind    string            `json:"kind"`
	Work    int               `json:"work"` // loads
	Threads int               `json:"threads"`
	Near    measure.Quartiles `json:"near"`
	Far     measure.Quartiles `json:"far"`
	Model   float64           `json:"model"` // of near
}

//go:embed constants.json
var committedConstants []byte

// Committed returns the constants that the committed tables were made with.
func Committed() (*Constants, error) {
	c := new(Constants)
	if err := json.Unmarshal(committedConstants, c); err != nil {
		return nil, fmt.Errorf("scale: constants.json: %w", err)
	}
	return c, nil
}

// Read reads constants that calibrate wrote.
func Read(file string) (*Constants, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	c := new(Constants)
	if err := json.Unmarshal(b, c); err != nil {
		return nil, fmt.Errorf("scale: %s: %w", file, err)
	}
	return c, nil
}

// assumed are the parameters that two CPUs cannot show. reread, handed and starve
// come from what is known of ticket locks, queued locks and sync.Mutex; spin is four
// times thirty PAUSE, as sync.Mutex does.
var assumed = machine.Params{
	Cluster: 8, Keep: 0.5, Slip: 10, Lock: machine.Mutex, Reread: 25, Handed: 1.5,
	Spin: 330, SpinTries: 4, Park: 300, Starve: 1e6, RMW: 1, Store: 0.6,
	Near: 25, Far: 110, LookAhead: 25, Occupy: 0.65, Access: 0.35, Pool: 10, Wake: 300, WakeAfter: 3000,
}
