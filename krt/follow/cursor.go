package follow

import (
	"time"

	"kruntimes.io/kruntimes/runtimed/logrecord"
)

// cursor is the position in the records of one attempt. Records carry no number, but their times never go backwards
// within a log, so a position is a time and how many records of that very time have been delivered.
type cursor struct {
	last time.Time
	at   int

	// resuming is set from the reopening of a log until the first record that has not been delivered before.
	resuming bool
	// passed counts the records of time last that have gone by since the reopening.
	passed int

	// stdout and stderr are how many bytes have been delivered, as far as the records tell.
	stdout, stderr int64
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
	if c.isRepeated(r) {
		return false
	}
	switch {
	case r.Time.After(c.last):
		c.last, c.at = r.Time, 1
	case r.Time.Equal(c.last):
		c.at++
	}
	return true
}

// isRepeated tells whether a runtimed has written again what its predecessor, which was killed, had written already. It
// moves the position in the stream past r.
func (c *cursor) isRepeated(r logrecord.Record) bool {
	position := &c.stdout
	if r.Stream == logrecord.Stderr {
		position = &c.stderr
	}
	data, err := r.Bytes()
	if r.Byte == 0 || err != nil {
		return false // there is nothing to tell it by
	}
	end := r.Byte - 1 + int64(len(data))
	if end <= *position {
		return true
	}
	*position = end
	return false
}
