// Package containerlog keeps what a container writes, in the form in which container runtimes do: one record per line,
// with its time and stream. Readers that follow are woken by the writer and never poll.
package containerlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// maxLine is where a longer line is cut into records, as container runtimes do.
const maxLine = 16 << 10

// The streams of a container.
const (
	// Stdout is standard output.
	Stdout = "stdout"
	// Stderr is standard error.
	Stderr = "stderr"
)

// Tags of a record: whether a newline followed its content.
const (
	tagFull    = "F"
	tagPartial = "P"
)

// Log is the log of one run of a container.
type Log struct {
	path string
	now  func() time.Time

	segmentSize int64

	mu      sync.Mutex
	file    *os.File   // the newest one; nil once closed
	kept    []*segment // never empty, the oldest first
	size    int64      // of all that was written, in whole records
	lost    int64      // what could not be written since the last record that was
	changed chan struct{}
}

// Create starts an empty log.
func Create(path string, now func() time.Time) (*Log, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("making the container's log: %w", err)
	}
	return &Log{path: path, now: now, segmentSize: segmentSize, file: file, kept: []*segment{{path: path}}, changed: make(chan struct{})}, nil
}

// Close says that nothing will be added. Followers end.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	close(l.changed)
	return err
}

// Copy adds everything that r delivers until its end, line by line. What cannot be written, because the disk is full, say, is
// lost: nobody may wait for a reader of a full pipe. A record says so as soon as one can be written again, and so does the
// first such error, which Copy returns in the end.
func (l *Log) Copy(stream string, r io.Reader) error {
	chunk := make([]byte, 64<<10)
	var pending, records []byte
	var lost error
	for {
		n, err := r.Read(chunk)
		pending = append(pending, chunk[:n]...)
		records, pending = l.cut(records[:0], pending, stream)
		if err != nil && len(pending) > 0 {
			records = appendRecord(records, l.now(), stream, tagPartial, pending)
		}
		if writeErr := l.write(stream, records); writeErr != nil && lost == nil {
			lost = writeErr
		}
		if errors.Is(err, io.EOF) || errors.Is(err, os.ErrClosed) {
			return lost
		}
		if err != nil {
			return errors.Join(lost, fmt.Errorf("reading %s of the container: %w", stream, err))
		}
	}
}

// cut moves whole lines, and pieces of lines that are too long, from pending to records.
func (l *Log) cut(records, pending []byte, stream string) (outRecords, outPending []byte) {
	now := l.now()
	rest := pending
	for {
		end := bytes.IndexByte(rest, '\n')
		switch {
		case end >= 0 && end <= maxLine:
			records = appendRecord(records, now, stream, tagFull, rest[:end])
			rest = rest[end+1:]
		case len(rest) > maxLine:
			records = appendRecord(records, now, stream, tagPartial, rest[:maxLine])
			rest = rest[maxLine:]
		default:
			return records, append(pending[:0], rest...)
		}
	}
}

// appendRecord adds "<time> <stream> <tag> <content>\n". The time has a fixed width, so that records sort as text.
func appendRecord(to []byte, now time.Time, stream, tag string, content []byte) []byte {
	to = now.UTC().AppendFormat(to, timeLayout)
	to = append(to, ' ')
	to = append(to, stream...)
	to = append(to, ' ')
	to = append(to, tag...)
	to = append(to, ' ')
	to = append(to, content...)
	return append(to, '\n')
}

const timeLayout = "2006-01-02T15:04:05.000000000Z07:00"

func (l *Log) write(stream string, records []byte) error {
	if len(records) == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return fmt.Errorf("writing the container's log: %w", os.ErrClosed)
	}
	size := int64(len(records))
	if l.lost > 0 {
		note := fmt.Appendf(nil, "[%d bytes of the log could not be written and are lost]", l.lost)
		records = append(appendRecord(nil, l.now(), stream, tagFull, note), records...)
	}
	if err := l.append(records); err != nil {
		l.lost += size
		return fmt.Errorf("writing the container's log: %w", err)
	}
	l.lost = 0
	close(l.changed)
	l.changed = make(chan struct{})
	return nil
}

// append writes records as a whole or, for a reader, not at all. The caller holds the lock.
func (l *Log) append(records []byte) error {
	if err := l.rotate(int64(len(records))); err != nil {
		return err
	}
	newest := l.kept[len(l.kept)-1]
	if _, err := l.file.WriteAt(records, l.size-newest.start); err != nil {
		return err
	}
	l.size += int64(len(records))
	newest.end = l.size
	return nil
}

// snapshot returns how much there is to read, whether that is all there will ever be, and a channel that is closed when
// either changes.
func (l *Log) snapshot() (size int64, complete bool, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.size, l.file == nil, l.changed
}
