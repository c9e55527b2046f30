package lru

import (
	"cmp"
	"slices"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// item is the object of most tests.
type item struct {
	id   int
	node Node[item]
}

func newItems(n int) []*item {
	items := make([]*item, n)
	for i := range items {
		items[i] = &item{id: i}
		items[i].node.Init(items[i])
	}
	return items
}

// reference is an LRU that nobody can get wrong: a slice of timestamps. Each
// insert and touch is stamped with a serial number, and the oldest is found by
// looking at all of them.
type reference struct {
	used   []entry
	serial int
}

type entry struct {
	id     int
	tick   int64
	serial int
}

func (r *reference) find(id int) int {
	return slices.IndexFunc(r.used, func(e entry) bool { return e.id == id })
}

func (r *reference) insert(id int, tick int64) {
	r.serial++
	r.used = append(r.used, entry{id, tick, r.serial})
}

func (r *reference) touch(id int, tick int64) {
	if i := r.find(id); i >= 0 {
		r.serial++
		r.used[i].tick = max(r.used[i].tick, tick)
		r.used[i].serial = r.serial
	}
}

func (r *reference) remove(id int) bool {
	i := r.find(id)
	if i < 0 {
		return false
	}
	r.used = slices.Delete(r.used, i, i+1)
	return true
}

// inOrder returns the ids by order of use, oldest first.
func (r *reference) inOrder() []int {
	byUse := slices.SortedFunc(slices.Values(r.used), func(a, b entry) int { return a.serial - b.serial })
	ids := make([]int, len(byUse))
	for i, e := range byUse {
		ids[i] = e.id
	}
	return ids
}

// oldestTick returns the smallest tick, false if there is none.
func (r *reference) oldestTick() (int64, bool) {
	if len(r.used) == 0 {
		return 0, false
	}
	return slices.MinFunc(r.used, func(a, b entry) int { return cmp.Compare(a.tick, b.tick) }).tick, true
}
