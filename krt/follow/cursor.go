package follow

import (
	"time"

	"kruntimes.io/kruntimes/runtimed/logrecord"
)

// cursor is the position in the records of one attempt. Records carry no number, but their times never go backwards
// within an attempt, so a position is a time and how many records of that very time have been delivered.
type cursor struct {
	last time.Time
	at   int

	// resuming is set from the reopening of a log until the first record that has not been delivered before.
	resuming bool
	// passed counts the records of time last that have gone by since the reopening.
	passed int
}

// reopen prepares for a read that starts at, or anywhere before, the position.
func (c *cursor) reopen() {
	c.resuming = !c.last.IsZero()
	c.passed = 0
}

// accept tells whether r has not been delivered yet, and moves the position past it.
func (c *cursor) accept(r logrecord.Record) bool {
	if c.resuming {
		switch {
		case r.Time.Before(c.last):
			return false
		case r.Time.Equal(c.last) && c.passed < c.at:
			c.passed++
			return false
		}
		c.resuming = false
	}
	switch {
	case r.Time.After(c.last):
		c.last, c.at = r.Time, 1
	case r.Time.Equal(c.last):
		c.at++
	}
	return true
}
