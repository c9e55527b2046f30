package reasm

import "iter"

// index is how a design finds a queue by its key. Its locks are leaves: they are
// taken with a queue's lock held, and no queue's lock is taken under them.
type index interface {
	// find returns the queue with this key, or nil. It may have been retired
	// when the caller locks it, but then it has left the index, so that another
	// find makes progress.
	find(k *Key) *queue
	// insert adds q, whose lock the caller holds, unless its key is there.
	insert(q *queue) insertion
	// remove takes q out. Only the party that retires q calls it, under q's lock.
	remove(q *queue)
	// batches yields what is in the index, a few at a time, without locks held.
	// Whoever gets a queue locks it and looks whether it lives.
	batches() iter.Seq[[]*queue]
}

type insertion uint8

const (
	inserted insertion = iota
	present            // the key has a queue
	full               // the index takes no more there
)
