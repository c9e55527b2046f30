//go:build percpu_nolinkname

package percpu

import (
	"runtime"
	"slices"
	"sync"
)

// token stands in for a P. A sync.Pool keeps its items per P, so a goroutine
// mostly gets back the token its P used last.
type token struct {
	id int // immutable; unique among live tokens
	_  [16]byte
	// The padding keeps tokens out of the tiny allocator, where they would share
	// a block and its fate: one of them alive would keep the ids of all (PC-9).
}

var tokens = sync.Pool{New: func() any { return newToken() }}

// pin returns the number of a token that this P has probably used before.
func pin() int {
	t := tokens.Get().(*token)
	id := t.id
	tokens.Put(t)
	return id
}

func unpin() {}

// ids has the ids below next that no live token has.
var ids struct {
	sync.Mutex
	free []int // guarded by Mutex; sorted, highest first
	next int   // guarded by Mutex
}

// newToken gives out the lowest free id, so that ids stay dense. The id comes
// back when the collector finds the token gone.
func newToken() *token {
	ids.Lock()
	defer ids.Unlock()
	t := new(token)
	if n := len(ids.free); n > 0 {
		t.id, ids.free = ids.free[n-1], ids.free[:n-1]
	} else {
		t.id = ids.next
		ids.next++
	}
	runtime.AddCleanup(t, freeID, t.id)
	return t
}

func freeID(id int) {
	ids.Lock()
	defer ids.Unlock()
	at, _ := slices.BinarySearchFunc(ids.free, id, func(a, b int) int { return b - a })
	ids.free = slices.Insert(ids.free, at, id)
}
