package lru

// chain is a ring of nodes in order of age. It is sequential: whoever owns it
// has a lock. The zero chain is empty.
//
//	oldest -> next -> next -> youngest
//	   ^------------------------'        (and back, through prev)
type chain[T any] struct {
	oldest *Node[T]
}

func (c *chain[T]) youngest() *Node[T] {
	if c.oldest == nil {
		return nil
	}
	return c.oldest.prev
}

// push makes n the youngest.
func (c *chain[T]) push(n *Node[T]) {
	if c.oldest == nil {
		n.next, n.prev = n, n
		c.oldest = n
		return
	}
	first, last := c.oldest, c.oldest.prev
	n.prev, n.next = last, first
	last.next, first.prev = n, n
}

// unlink takes n, which is in c, out of it. The links of n are cleared, so that
// an object at rest keeps no other one alive.
func (c *chain[T]) unlink(n *Node[T]) {
	if n.next == n {
		c.oldest = nil
	} else {
		n.prev.next, n.next.prev = n.next, n.prev
		if c.oldest == n {
			c.oldest = n.next
		}
	}
	n.next, n.prev = nil, nil
}

// promote makes n, which is in c, the youngest.
func (c *chain[T]) promote(n *Node[T]) {
	switch {
	case n == c.oldest:
		c.oldest = n.next // a ring: the oldest, turned by one, is the youngest
	case n != c.oldest.prev:
		n.prev.next, n.next.prev = n.next, n.prev
		first, last := c.oldest, c.oldest.prev
		n.prev, n.next = last, first
		last.next, first.prev = n, n
	}
}

// appendTo appends a Ref of every node, oldest first.
func (c *chain[T]) appendTo(refs []Ref[T]) []Ref[T] {
	for n := c.oldest; n != nil; {
		refs = append(refs, n.ref())
		if n = n.next; n == c.oldest {
			break
		}
	}
	return refs
}
