package explain

// node is a member of a ring: a list without end whose members can leave without knowing which ring they are in.
type node struct {
	prev, next *node
	waiter     *waiter
}

// newRing makes an empty ring; the node it returns stands for the gap between last and first.
func newRing() *node {
	n := &node{}
	n.prev, n.next = n, n
	return n
}

// alone makes n a member that is in no ring yet.
func (n *node) alone(w *waiter) { n.prev, n.next, n.waiter = n, n, w }

func (n *node) empty() bool { return n.next == n }

func (n *node) leave() {
	n.prev.next, n.next.prev = n.next, n.prev
	n.prev, n.next = n, n
}

// pushBack puts a node that is in no ring at the end of r.
func (n *node) pushBack(last *node) {
	last.prev, last.next = n.prev, n
	n.prev.next = last
	n.prev = last
}

// prepend moves all members of other to the front of n.
func (n *node) prepend(other *node) {
	if other.empty() {
		return
	}
	first, last := other.next, other.prev
	first.prev, last.next = n, n.next
	n.next.prev = last
	n.next = first
	other.prev, other.next = other, other
}
