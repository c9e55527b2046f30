package scenario

import "runtime"

// Phase is a part of a run in which the CPU time of a fragment is measured. It is
// real time: it depends on the machine, and no metric of virtual time does.
type Phase struct {
	Name     string
	From, To int64
}

// stopwatch measures the phases of one run on the thread that it starts on.
type stopwatch struct {
	phases []Phase
	costs  []float64 // nanoseconds a fragment, of phases that are over
	on     bool      // within phases[len(costs)]
	start  int64     // thread time, since on
	events int       // since on
}

func newStopwatch(phases []Phase) *stopwatch {
	if len(phases) > 0 {
		runtime.LockOSThread()
	}
	return &stopwatch{phases: phases}
}

// event is told of the time of each event, before it is handled.
func (s *stopwatch) event(at int64) {
	if s.on {
		if at < s.phases[0].To {
			s.events++
			return
		}
		s.end()
	}
	if len(s.phases) > 0 && at >= s.phases[0].From {
		s.on, s.start, s.events = true, threadTime(), 1
	}
}

// end is told that no more events come, too.
func (s *stopwatch) end() {
	if s.on {
		s.costs = append(s.costs, float64(threadTime()-s.start)/float64(s.events))
		s.phases, s.on = s.phases[1:], false
	}
}

// stop gives the thread back.
func (s *stopwatch) stop(phases []Phase) []float64 {
	if len(phases) > 0 {
		runtime.UnlockOSThread()
	}
	s.end()
	return s.costs
}
