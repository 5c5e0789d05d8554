// Package logs turns the output of executions into log records on one writer.
package logs

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"
	"unicode/utf8"

	"kruntimes.io/kruntimes/runtimed/logrecord"
)

const (
	// tailSize is how much of standard error is kept for the message of a failed Run. Unit: bytes.
	tailSize = 4 * 1024
	// keptBuffer is up to which size the buffer for encoding is kept between writes. Unit: bytes.
	keptBuffer = 64 * 1024
)

// Writer writes the records of all executions, each write as a whole.
type Writer struct {
	now func() time.Time

	mu   sync.Mutex
	out  io.Writer
	buf  bytes.Buffer
	last time.Time
}

// NewWriter returns a Writer to out.
func NewWriter(out io.Writer, now func() time.Time) *Writer { return &Writer{out: out, now: now} }

// Attempt is the output of one attempt of a Run.
type Attempt struct {
	writer *Writer
	base   logrecord.Record
	// What follows is guarded by the writer's lock.
	lines map[string]*line
	tail  []byte
	ended bool
}

// line is the unfinished last line of a stream.
type line struct {
	text []byte
	// offset is how many bytes of the stream came before text.
	offset int64
}

// Attempt starts the output of one attempt.
func (w *Writer) Attempt(run, uid string, attempt int32) *Attempt {
	return &Attempt{
		writer: w, base: logrecord.Record{Run: run, UID: uid, Attempt: attempt},
		lines: map[string]*line{logrecord.Stdout: {}, logrecord.Stderr: {}},
	}
}

// Write takes bytes that the execution wrote to stream, logrecord.Stdout or logrecord.Stderr, after offset other ones.
// Complete lines are written out before it returns; pending is the length of the unfinished one, at most
// logrecord.MaxLine. What comes after End is dropped.
func (a *Attempt) Write(stream string, offset int64, data []byte) (pending int, err error) {
	last := a.lines[stream]
	if last == nil {
		return 0, fmt.Errorf("writing the log of Run %s: unknown stream %q", a.base.Run, stream)
	}
	err = a.writer.write(func(emit emitFunc) error {
		if a.ended {
			return nil
		}
		if stream == logrecord.Stderr {
			a.keepTail(data)
		}
		last.offset = offset - int64(len(last.text))
		rest, err := split(last.text, data, func(text []byte, partial bool) error {
			return last.emit(a.record(stream), text, partial, emit)
		})
		last.text, pending = rest, len(rest)
		return err
	})
	return pending, err
}

// record is what all records of a stream have in common.
func (a *Attempt) record(stream string) logrecord.Record {
	record := a.base
	record.Stream = stream
	return record
}

// emit writes the first part of the line, or all of it.
func (l *line) emit(record logrecord.Record, text []byte, partial bool, emit emitFunc) error {
	record.Partial, record.Byte = partial, l.offset+1
	l.offset += int64(len(text))
	if !partial {
		l.offset++
	}
	return emit(record.WithBytes(text))
}

// End writes what is left of unfinished lines and the record that ends the attempt. Calls after the first do nothing.
func (a *Attempt) End() error {
	return a.writer.write(func(emit emitFunc) error {
		if a.ended {
			return nil
		}
		a.ended = true
		for _, stream := range []string{logrecord.Stdout, logrecord.Stderr} {
			last := a.lines[stream]
			if len(last.text) == 0 {
				continue
			}
			if err := last.emit(a.record(stream), last.text, true, emit); err != nil {
				return err
			}
			last.text = nil
		}
		end := a.base
		end.End = true
		return emit(end)
	})
}

// StderrTail returns the last bytes of standard error.
func (a *Attempt) StderrTail() []byte {
	a.writer.mu.Lock()
	defer a.writer.mu.Unlock()
	return bytes.Clone(a.tail)
}

// keepTail remembers the last bytes of standard error. The caller holds the writer's lock.
func (a *Attempt) keepTail(data []byte) {
	a.tail = append(a.tail, data...)
	if over := len(a.tail) - tailSize; over > 0 {
		a.tail = append(a.tail[:0], a.tail[over:]...)
	}
}

type emitFunc func(logrecord.Record) error

// write collects the records that produce emits and writes them at once.
func (w *Writer) write(produce func(emitFunc) error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf.Reset()
	if w.buf.Cap() > keptBuffer {
		w.buf = bytes.Buffer{}
	}
	// Readers that lose their connection resume by time, so times never go backwards, even when the clock does.
	now := w.now().UTC()
	if now.Before(w.last) {
		now = w.last
	}
	w.last = now
	err := produce(func(r logrecord.Record) error {
		r.Time = now
		return r.Encode(&w.buf)
	})
	if err != nil {
		return err
	}
	if w.buf.Len() == 0 {
		return nil
	}
	if _, err := w.out.Write(w.buf.Bytes()); err != nil {
		return fmt.Errorf("writing log records: %w", err)
	}
	return nil
}

// split emits the complete lines of pending followed by data, and cuts those that are too long. It returns the
// unfinished line, which reuses the memory of pending.
func split(pending, data []byte, emit func(line []byte, partial bool) error) ([]byte, error) {
	for len(data) > 0 {
		line, rest, complete := bytes.Cut(data, []byte{'\n'})
		for len(pending)+len(line) > logrecord.MaxLine {
			take := logrecord.MaxLine - len(pending)
			pending = append(pending, line[:take]...)
			line = line[take:]
			cut := cutAt(pending, line[0])
			if err := emit(pending[:cut], true); err != nil {
				return nil, err
			}
			pending = append(pending[:0], pending[cut:]...)
		}
		pending = append(pending, line...)
		if !complete {
			break
		}
		if err := emit(pending, false); err != nil {
			return nil, err
		}
		pending = pending[:0]
		data = rest
	}
	return pending, nil
}

// cutAt returns where to cut text, which next follows, so that no character is cut in two where that can be avoided.
func cutAt(text []byte, next byte) int {
	if utf8.RuneStart(next) {
		return len(text)
	}
	for i := len(text) - 1; i >= 0 && i > len(text)-utf8.UTFMax; i-- {
		if utf8.RuneStart(text[i]) {
			if utf8.FullRune(text[i:]) {
				break
			}
			return i
		}
	}
	return len(text)
}
