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

	mu      sync.Mutex
	file    *os.File // nil once closed
	size    int64    // whole records only
	changed chan struct{}
}

// Create starts an empty log.
func Create(path string, now func() time.Time) (*Log, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("making the container's log: %w", err)
	}
	return &Log{path: path, now: now, file: file, changed: make(chan struct{})}, nil
}

// Path returns the file that holds the log.
func (l *Log) Path() string { return l.path }

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

// Copy adds everything that r delivers until its end, line by line.
func (l *Log) Copy(stream string, r io.Reader) error {
	chunk := make([]byte, 64<<10)
	var pending, records []byte
	for {
		n, err := r.Read(chunk)
		pending = append(pending, chunk[:n]...)
		records, pending = l.cut(records[:0], pending, stream)
		if err != nil && len(pending) > 0 {
			records = appendRecord(records, l.now(), stream, tagPartial, pending)
		}
		if writeErr := l.write(records); writeErr != nil {
			return writeErr
		}
		if errors.Is(err, io.EOF) || errors.Is(err, os.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading %s of the container: %w", stream, err)
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

func (l *Log) write(records []byte) error {
	if len(records) == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return fmt.Errorf("writing the container's log: %w", os.ErrClosed)
	}
	n, err := l.file.WriteAt(records, l.size)
	if err != nil {
		return fmt.Errorf("writing the container's log: %w", err)
	}
	l.size += int64(n)
	close(l.changed)
	l.changed = make(chan struct{})
	return nil
}

// snapshot returns how much there is to read, whether that is all there will ever be, and a channel that is closed when
// either changes.
func (l *Log) snapshot() (size int64, complete bool, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.size, l.file == nil, l.changed
}
