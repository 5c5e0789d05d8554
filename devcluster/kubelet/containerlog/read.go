package containerlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// ReadOptions selects what Read delivers. The zero value is everything that is there.
type ReadOptions struct {
	// Follow waits for more until the container ends.
	Follow bool
	// TailLines starts this many lines before the end. Nil: at the beginning.
	TailLines *int64
	// Since leaves older records out. Zero: none.
	Since time.Time
	// Timestamps puts the time before each line.
	Timestamps bool
	// LimitBytes ends the output after so many bytes. Nil: no limit.
	LimitBytes *int64
}

// blockSize is how much of a log is read at a time.
const blockSize = 128 << 10

// errLimit ends a reading whose limit is reached.
var errLimit = errors.New("limit reached")

// Read writes the selected lines to w, until the end of the log or of ctx. An error of w is returned as it is.
func (l *Log) Read(ctx context.Context, o ReadOptions, w io.Writer) error {
	size, _, _ := l.snapshot()
	v := &view{log: l}
	defer v.close()
	if err := v.refresh(0); err != nil {
		return err
	}
	r := &reader{options: o, out: w, atLineStart: true}
	if o.TailLines != nil {
		var err error
		if r.offset, err = tailOffset(v, v.next(0), size, *o.TailLines); err != nil {
			return err
		}
	}
	for {
		size, complete, changed := l.snapshot()
		if err := v.refresh(r.offset); err != nil {
			return err
		}
		if err := r.readTo(v, size); err != nil {
			if errors.Is(err, errLimit) {
				return nil
			}
			return err
		}
		if complete || !o.Follow {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

type reader struct {
	options     ReadOptions
	out         io.Writer
	offset      int64
	written     int64
	atLineStart bool
	buffer      []byte
}

// readTo delivers the records up to size, a block at a time.
func (r *reader) readTo(file *view, size int64) error {
	block := make([]byte, 0, min(blockSize, max(0, size-r.offset)))
	for {
		if r.offset = file.next(r.offset); r.offset >= size {
			return nil
		}
		want := min(int64(cap(block)), size-r.offset)
		n, err := file.ReadAt(block[:want], r.offset)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("reading the container's log: %w", err)
		}
		records := block[:n]
		end := bytes.LastIndexByte(records, '\n') + 1
		if end == 0 { // a record never exceeds maxLine and a short head
			return fmt.Errorf("reading the container's log: no record at offset %d", r.offset)
		}
		r.offset += int64(end)
		if err := r.deliver(records[:end]); err != nil {
			return err
		}
	}
}

func (r *reader) deliver(records []byte) error {
	out := r.buffer[:0]
	for line := range bytes.Lines(records) {
		at, tag, content, ok := parse(line[:len(line)-1])
		if !ok || at.Before(r.options.Since) {
			continue
		}
		if r.options.Timestamps && r.atLineStart {
			out = append(at.AppendFormat(out, timeLayout), ' ')
		}
		out = append(out, content...)
		if r.atLineStart = tag == tagFull; r.atLineStart {
			out = append(out, '\n')
		}
	}
	r.buffer = out
	if limit := r.options.LimitBytes; limit != nil && r.written+int64(len(out)) >= *limit {
		if _, err := r.out.Write(out[:*limit-r.written]); err != nil {
			return err
		}
		return errLimit
	}
	r.written += int64(len(out))
	if len(out) == 0 {
		return nil
	}
	_, err := r.out.Write(out)
	return err
}

// parse takes a record apart.
func parse(record []byte) (at time.Time, tag string, content []byte, ok bool) {
	stamp, rest, _ := bytes.Cut(record, []byte{' '})
	_, rest, _ = bytes.Cut(rest, []byte{' '})
	tagBytes, content, found := bytes.Cut(rest, []byte{' '})
	if !found {
		return time.Time{}, "", nil, false
	}
	at, err := time.Parse(timeLayout, string(stamp))
	return at, string(tagBytes), content, err == nil
}

// tailOffset returns where the last lines of a log begin, looking backwards from its end to its start.
func tailOffset(file io.ReaderAt, begin, size, lines int64) (int64, error) {
	if lines <= 0 {
		return size, nil
	}
	block := make([]byte, blockSize)
	end := size
	for end > begin {
		start := max(begin, end-blockSize)
		n, err := file.ReadAt(block[:end-start], start)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, fmt.Errorf("reading the container's log: %w", err)
		}
		for i := n - 1; i >= 0; i-- {
			if block[i] != '\n' || start+int64(i) == size-1 {
				continue
			}
			if lines--; lines == 0 {
				return start + int64(i) + 1, nil
			}
		}
		end = start
	}
	return begin, nil
}
