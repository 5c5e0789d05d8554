package queue

// Counts returns how many Runs can be tried now, how many are parked until an event, and how many are delayed until a time.
// It costs a look at every line.
func (q *Queue) Counts() (active, parked, delayed int) {
	for _, p := range q.pools {
		for _, l := range p.lines {
			if l.class.parked {
				parked += l.items.len()
			} else {
				active += l.items.len()
			}
		}
	}
	return active, parked, q.delayed.len()
}
