package reasm

import "strings"

// parts are rules of worth that the laboratory leaves out, to see what each is
// for: the design "worth without hole+doom" has two less. These names are in no
// list.
type parts uint16

const (
	withoutPeers   parts = 1 << iota // nobody is known
	withoutHint                      // no announced sizes
	withoutDoom                      // what was given up may come back
	withoutHole                      // a hole costs nothing
	withoutValue                     // nor does it help to be nearly complete
	withoutIdle                      // nobody is overdue
	withoutTie                       // of new ones of a known source any may go
	withoutSeats                     // no lottery
	withoutShare                     // no fair share
	withoutFloor                     // nothing is granted to the unknown
	withoutJunk                      // unknown newcomers may displace anybody
	withoutClasses                   // one size class
	withoutOctaves                   // exact ranking
)

var partNames = []string{
	"peers", "hint", "doom", "hole", "value", "idle", "tie", "seats", "share", "floor", "junk", "classes", "octaves",
}

const withoutPrefix = "worth without "

// worthWithout returns the design with that name, nil if there is none.
func worthWithout(name string) *Design {
	list, ok := strings.CutPrefix(name, withoutPrefix)
	if !ok {
		return nil
	}
	var off parts
	for part := range strings.SplitSeq(list, "+") {
		bit := parts(0)
		for i, n := range partNames {
			if n == part {
				bit = 1 << i
			}
		}
		if bit == 0 {
			return nil
		}
		off |= bit
	}
	return &Design{
		Name: name, Seed: "none", Idea: "worth, with rules left out: " + list, host: worthHost,
		cache: func(c *cache) design {
			d := newWorth(c).(*worth)
			d.off = off
			return d
		},
	}
}

// class is the size class of a size.
func (p parts) class(size int64) uint {
	if p.off(withoutClasses) {
		return 0
	}
	return sizeClass(size)
}

func (p parts) off(rule parts) bool { return p&rule != 0 }
