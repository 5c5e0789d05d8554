package follow

import (
	"fmt"
	"io"
	"sync"
	"time"

	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/runtimed/logrecord"
)

// timestampFormat has a fixed width, so that lines stay aligned.
const timestampFormat = "2006-01-02T15:04:05.000000Z07:00"

// Sink takes the output of a Run: standard output to Out, standard error to Err, byte for byte.
type Sink struct {
	// Out and Err are where the two streams go.
	Out, Err io.Writer
	// Timestamps puts the time of its record before every line.
	Timestamps bool
	// Since drops records before it. Zero: none.
	Since time.Time
	// OneScreen tells that Out and Err end up on the same terminal.
	OneScreen bool

	mu sync.Mutex
	// mid tells of each stream whether it is in the middle of a line, dirty whether it shows such a line.
	mid, dirty map[string]bool
}

// Write delivers one record.
func (s *Sink) Write(r logrecord.Record) error {
	if r.Time.Before(s.Since) {
		return nil
	}
	data, err := r.Bytes()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mid == nil {
		s.mid, s.dirty = map[string]bool{}, map[string]bool{}
	}
	w := s.Out
	if r.Stream == logrecord.Stderr {
		w = s.Err
	}
	if s.Timestamps && !s.mid[r.Stream] {
		data = append([]byte(r.Time.Format(timestampFormat)+" "), data...)
	}
	s.mid[r.Stream], s.dirty[r.Stream] = r.Partial, r.Partial
	if _, err := w.Write(data); err != nil {
		return &WriteError{Err: err}
	}
	return nil
}

// Talk tells a person something on Err, with control characters escaped, on a line of its own even when the script's last line has no newline.
func (s *Sink) Talk(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := "krt: " + cli.VisibleLines(fmt.Sprintf(format, args...)) + "\n"
	if s.dirty[logrecord.Stderr] || (s.OneScreen && s.dirty[logrecord.Stdout]) {
		text = "\n" + text
		clear(s.dirty)
	}
	_, _ = io.WriteString(s.Err, text) // there is nobody left to tell
}

// WriteError means that the output could not be written here, on the side of krt.
type WriteError struct {
	// Err is what the writer said.
	Err error
}

func (e *WriteError) Error() string { return "writing the output: " + e.Err.Error() }

// Unwrap returns the writer's error.
func (e *WriteError) Unwrap() error { return e.Err }
