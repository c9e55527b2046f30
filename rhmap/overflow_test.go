package rhmap

import (
	"errors"
	"fmt"
	"testing"

	"corelane/internal/model"

	"github.com/stretchr/testify/require"
)

// Overflow buckets that are unlinked and used again under a walker, searched
// exhaustively: one chain of buckets of one slot, a mutator, a mover that copies the
// chain to a new version, and a walker whose one step reads it. Spares are used last
// in, first out, as by a lot, so the copy gets what the chain gave back last. Every
// step is one atomic access, or several that nobody can see in between. Entries are
// those of a Map: they have one life, and the walker reads a slot once.
//
// protocol_test.go is about nodes of many lives, in chains of one bucket.

const (
	ovHeads   = 2 // buckets 0 and 1 are the heads of the two versions
	ovBuckets = ovHeads + 8
	ovStart   = 3 // entries in the chain to begin with
	ovOps     = 2 // of the mutator
	ovEntries = ovStart + ovOps
	ovNone    = ovBuckets // no bucket
)

// ovRules are what can be broken.
type ovRules struct {
	labels     bool // name the steps
	noCheck    bool // broken: the walker takes what it finds
	goneOnly   bool // broken: the walker looks where the bucket is only if the chain says moved
	noLink     bool // broken: the walker drops what it found in overflow buckets of a moving chain
	trimMiddle bool // broken: an empty bucket is unlinked though it is not the last
}

type ovState struct {
	rules ovRules // constant

	tag          [ovBuckets]bool
	slot         [ovBuckets]uint8 // entry + 1
	link         [ovBuckets]uint8 // next
	locked, gone [ovHeads]bool
	longest      [ovHeads]uint8
	spare        uint8 // a list by link

	mpc, mver, me, mb, ops, born uint8 // mutator: version, entry, bucket; operations left; entries so far
	vpc, vfrom, vto              uint8 // mover: buckets

	// Walker: version, bucket, links left and in all, place among those found.
	wpc, wver, wb, wleft, wlinks, wi, n uint8
	found                               [ovBuckets]struct{ entry, bucket uint8 }

	here, stable [ovEntries]bool // ghosts
	came         [ovEntries]bool // ghost
	bad          uint8
}

func newOverflow(rules ovRules) (s ovState) {
	s.rules, s.ops, s.born = rules, ovOps, ovStart
	for b := range s.link {
		s.link[b] = uint8(b + 1)
	}
	s.link[0], s.link[1], s.spare = ovHeads, ovNone, ovHeads
	for e, b := range []uint8{0, ovHeads, ovHeads + 1} {
		s.tag[b], s.slot[b], s.here[e] = true, uint8(e+1), true
		s.spare = s.link[b]
	}
	s.link[ovHeads+1], s.longest[0] = ovNone, 2
	return s
}

// extend links a spare bucket to the end of a chain of version ver.
func (s *ovState) extend(ver, end uint8) (b uint8) {
	links := uint8(1)
	for o := ver; o != end; o = s.link[o] {
		links++
	}
	s.longest[ver] = max(s.longest[ver], links)
	b = s.spare
	s.spare, s.link[b], s.link[end] = s.link[b], ovNone, b
	return b
}

func (s ovState) next() (steps []model.Step[ovState]) {
	emit := func(to ovState, label string, args ...uint8) {
		st := model.Step[ovState]{To: to}
		if s.rules.labels {
			st.Label = fmt.Sprint(label, " ", args)
		}
		steps = append(steps, st)
	}
	s.mutator(emit)
	s.mover(emit)
	s.walker(emit)
	return steps
}

type ovEmit func(to ovState, label string, args ...uint8)

// mutator: 0 idle; 1 lock; 2 find a free slot; 3 tag; 4 slot; 9 unlock (insert).
// 5 lock; 6 death and slot; 7 tag; 8 unlink; 10 keep; 9 unlock (remove).
func (s ovState) mutator(emit ovEmit) {
	switch s.mpc {
	case 0:
		if s.ops == 0 {
			return
		}
		s.ops--
		s.mver = 0
		for e := range s.born {
			if s.here[e] {
				s.mpc, s.me = 5, e
				emit(s, "remove", e)
			}
		}
		s.mpc, s.me = 1, s.born
		s.born++
		emit(s, "insert", s.me)
	case 1, 5:
		switch {
		case s.gone[s.mver]:
			s.mver++
		case s.locked[s.mver]:
			return
		default:
			s.locked[s.mver] = true
			s.mb = s.mver
			s.mpc++
		}
		emit(s, "mutator locks version, or goes on to", s.mver)
	case 2:
		switch o := s.link[s.mb]; {
		case !s.tag[s.mb]:
			s.mpc = 3
		case o == ovNone:
			s.mb = s.extend(s.mver, s.mb)
		default:
			s.mb = o
		}
		emit(s, "mutator comes to bucket", s.mb)
	case 3:
		s.tag[s.mb] = true
		s.mpc = 4
		emit(s, "mutator sets tag of bucket", s.mb)
	case 4:
		s.slot[s.mb], s.here[s.me] = s.me+1, true
		s.mpc = 9
		emit(s, "mutator sets slot of bucket, entry", s.mb, s.me)
	case 6:
		for s.slot[s.mb] != s.me+1 {
			s.mb = s.link[s.mb]
		}
		s.slot[s.mb], s.here[s.me], s.stable[s.me] = 0, false, false
		s.mpc = 7
		emit(s, "mutator clears slot of bucket", s.mb)
	case 7:
		s.tag[s.mb] = false
		s.mpc = 8
		emit(s, "mutator clears tag of bucket", s.mb)
	case 8:
		s.mpc = 9
		end := s.mver
		for o := end; o != ovNone; o = s.link[o] {
			if s.tag[o] || s.rules.trimMiddle && s.link[o] == s.mb {
				end = o
			}
			if s.rules.trimMiddle && s.link[o] == s.mb {
				break
			}
		}
		if s.mb == s.mver || s.link[end] == ovNone {
			emit(s, "mutator unlinks nothing")
			return
		}
		first := s.link[end]
		s.link[end] = ovNone
		if s.rules.trimMiddle {
			s.link[end], s.link[first] = s.link[first], ovNone
		}
		s.mb, s.mpc = first, 10
		emit(s, "mutator unlinks from bucket", s.mb)
	case 10:
		for s.mb != ovNone {
			s.mb, s.link[s.mb], s.spare = s.link[s.mb], s.spare, s.mb
		}
		s.mpc = 9
		emit(s, "mutator keeps what it unlinked")
	case 9:
		s.locked[s.mver] = false
		s.mpc = 0
		emit(s, "mutator unlocks version", s.mver)
	}
}

// mover: 0 lock; 1 next entry, and link a bucket for it; 2 tag; 3 slot; 4 mark. It
// fills the head in one step, for nobody can reach that.
func (s ovState) mover(emit ovEmit) {
	switch s.vpc {
	case 0:
		if s.locked[0] {
			return
		}
		s.locked[0], s.vpc, s.vfrom = true, 1, 0
		emit(s, "mover locks")
	case 1:
		switch {
		case s.vfrom == ovNone:
			s.vpc = 4
		case !s.tag[s.vfrom]:
			s.vfrom = s.link[s.vfrom]
		case !s.tag[1]:
			s.tag[1], s.slot[1] = true, s.slot[s.vfrom]
			s.vfrom = s.link[s.vfrom]
		default:
			end := uint8(1)
			for s.link[end] != ovNone {
				end = s.link[end]
			}
			s.vto, s.vpc = s.extend(1, end), 2
		}
		emit(s, "mover looks at the next entry; its new bucket", s.vto)
	case 2:
		s.tag[s.vto] = true
		s.vpc = 3
		emit(s, "mover sets tag of bucket", s.vto)
	case 3:
		s.slot[s.vto] = s.slot[s.vfrom]
		s.vfrom, s.vpc = s.link[s.vfrom], 1
		emit(s, "mover sets slot of bucket, entry", s.vto, s.slot[s.vto]-1)
	case 4:
		s.gone[0], s.locked[0], s.vpc = true, false, 5
		emit(s, "mover marks")
	}
}

// walker: 0 begin; 1 meta of the head; 2 slot; 3 link; 4 longest; 5 tag behind the
// link; then for each found: 6 the head again; 7 links again; 8 done.
func (s ovState) walker(emit ovEmit) {
	judge := func(take bool) {
		if e := s.found[s.wi].entry; take && s.here[e] {
			if s.came[e] {
				s.bad = badW2
			}
			s.came[e] = true
		}
		s.wi++
		s.wpc = 6
	}
	switch s.wpc {
	case 0:
		s.stable, s.wpc = s.here, 1
		emit(s, "walk begins")
	case 1:
		if s.gone[s.wver] {
			s.wver = 1
			emit(s, "walker goes on to version 1")
			return
		}
		s.wb, s.wpc = s.wver, 3
		if s.tag[s.wb] {
			s.wpc = 2
		}
		emit(s, "walker loads meta of version", s.wver)
	case 2:
		if e := s.slot[s.wb]; e != 0 {
			s.found[s.n].entry, s.found[s.n].bucket = e-1, s.wb
			s.n++
		}
		s.wpc = 3
		emit(s, "walker loads slot of bucket", s.wb)
	case 3:
		o := s.link[s.wb]
		switch {
		case o == ovNone || s.wb != s.wver && s.wleft == 0:
			s.wpc = 6
		case s.wb == s.wver:
			s.wpc = 4
		default:
			s.wpc = 5
		}
		s.wb = o
		emit(s, "walker follows the link to bucket", o)
	case 4:
		s.wleft, s.wlinks, s.wpc = s.longest[s.wver], s.longest[s.wver], 5
		emit(s, "walker loads longest", s.wleft)
	case 5:
		s.wleft--
		s.wpc = 3
		if s.tag[s.wb] {
			s.wpc = 2
		}
		emit(s, "walker loads tag of bucket", s.wb)
	case 6:
		if s.wi == s.n {
			s.wpc = 8
			for e, stable := range s.stable {
				if stable && !s.came[e] {
					s.bad = badW1
				}
			}
			emit(s, "walk ends")
			return
		}
		b := s.found[s.wi].bucket
		moving := s.gone[s.wver] || s.locked[s.wver] && !s.rules.goneOnly
		switch {
		case b == s.wver || !moving || s.rules.noCheck:
			judge(true)
		case s.rules.noLink:
			judge(false)
		default:
			s.wb, s.wleft, s.wpc = s.wver, s.wlinks, 7
		}
		emit(s, "walker looks at the chain of entry, bucket", s.found[s.wi].entry, b)
	case 7:
		switch {
		case s.wb == s.found[s.wi].bucket:
			judge(true)
		case s.link[s.wb] == ovNone || s.wleft == 0:
			judge(false)
		default:
			s.wb = s.link[s.wb]
			s.wleft--
		}
		emit(s, "walker looks along the chain: bucket", s.wb)
	}
}

func exploreOverflow(rules ovRules) (model.Result, error) {
	res, err := model.Explore(newOverflow(rules), ovState.next, func(s ovState, end bool) error {
		if end && (s.wpc != 8 || s.vpc != 5 || s.mpc != 0) {
			return errors.New("somebody is stuck")
		}
		return protoErrors[s.bad]
	}, 5_000_000)
	if err != nil && !rules.labels { // once more, to see how it came about
		rules.labels = true
		return exploreOverflow(rules)
	}
	return res, err
}

func TestOverflowBucketsUsedAgainUnderAWalker(t *testing.T) {
	t.Parallel()
	res, err := exploreOverflow(ovRules{})
	require.NoError(t, err)
	t.Logf("%+v", res)
}

func TestOverflowProtocolNeedsEveryClause(t *testing.T) {
	for _, c := range []struct {
		name  string
		rules ovRules
		err   int
	}{
		{"check=none", ovRules{noCheck: true}, badW2},
		{"check=moved-only", ovRules{goneOnly: true}, badW2},
		{"check=drops-all", ovRules{noLink: true}, badW1},
		{"unlink=in-the-middle", ovRules{trimMiddle: true}, badW1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := exploreOverflow(c.rules)
			var v *model.Violation
			require.ErrorAs(t, err, &v)
			require.ErrorIs(t, err, protoErrors[c.err])
			t.Log(v)
		})
	}
}
