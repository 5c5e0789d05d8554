package gitsource

import (
	"fmt"
	"io"
)

// budget counts what a checkout uses.
type budget struct {
	limits Limits
	bytes  int64
	files  int
	// inflated counts what is unpacked on the way, which need not be written.
	inflated int64
}

const (
	// maxHeld bounds an object that must be in memory as a whole: commits, trees, and both sides of a difference.
	maxHeld = 64 << 20
	// inflation is by how much all that is unpacked may exceed what may be written.
	inflation = 8
	// objectsPerFile is by how much the objects of a pack may exceed the files that may be written.
	objectsPerFile = 5
)

func newBudget(limits Limits) *budget { return &budget{limits: limits.withDefaults()} }

// takeBytes counts bytes that are going to be written.
func (b *budget) takeBytes(n int64) error {
	if n < 0 || n > b.limits.Bytes-b.bytes {
		return fmt.Errorf("%w: it takes more than %s", errTooLarge, size(b.limits.Bytes))
	}
	b.bytes += n
	return nil
}

// takeFile counts a file or directory that is going to be made.
func (b *budget) takeFile() error {
	if b.files >= b.limits.Files {
		return fmt.Errorf("%w: it holds more than %d files and directories", errTooLarge, b.limits.Files)
	}
	b.files++
	return nil
}

// takeInflated counts bytes that are going to be unpacked.
func (b *budget) takeInflated(n int64) error {
	if limit := b.limits.Bytes * inflation; n < 0 || n > limit-b.inflated {
		return fmt.Errorf("%w: it unpacks to more than %s", errTooLarge, size(limit))
	}
	b.inflated += n
	return nil
}

// checkHeld refuses an object that would take too much memory.
func (b *budget) checkHeld(n int64) error {
	if n < 0 || n > min(maxHeld, b.limits.Memory/8) {
		return fmt.Errorf("%w: unpacking it takes too much memory", errTooLarge)
	}
	return nil
}

// checkObjects refuses a pack with more objects than files could need.
func (b *budget) checkObjects(n uint32) error {
	if int64(n) > int64(b.limits.Files)*objectsPerFile {
		return fmt.Errorf("%w: it consists of %d objects", errTooLarge, n)
	}
	return nil
}

// writer counts what is written to w.
func (b *budget) writer(w io.Writer) io.Writer { return &countedWriter{budget: b, w: w} }

type countedWriter struct {
	budget *budget
	w      io.Writer
}

func (c *countedWriter) Write(p []byte) (int, error) {
	if err := c.budget.takeBytes(int64(len(p))); err != nil {
		return 0, err
	}
	return c.w.Write(p)
}

// size writes a number of bytes for people.
func size(n int64) string {
	if n >= 1<<20 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d bytes", n)
}
