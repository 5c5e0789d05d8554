// Package logrecord is the form in which the output of executions travels: one JSON object per line on runtimed's
// standard output, where log collectors, "kubectl logs" and "krt logs" read it.
//
// Concatenating Bytes of all records of one attempt and stream, in order, gives exactly the bytes that the execution
// wrote. After the last record of an attempt comes one with End set, before the Run's terminal status is written.
// A runtimed that was killed may have left records that its successor writes again, which Byte shows.
package logrecord

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"
)

const (
	// Stdout is the Record.Stream of standard output.
	Stdout = "stdout"
	// Stderr is the Record.Stream of standard error.
	Stderr = "stderr"

	// EncodingBase64 is the value of Record.Encoding for bytes that are not valid UTF-8.
	EncodingBase64 = "base64"

	// MaxLine bounds the bytes of one record; longer lines are cut into several records. Unit: bytes.
	MaxLine = 16 * 1024
)

// Record is one line, or a part of a line, that an execution wrote; or the mark that an attempt has ended.
type Record struct {
	// Time is when runtimed received the bytes.
	Time time.Time
	// Run and UID name the Run.
	Run, UID string
	// Attempt counts from 1.
	Attempt int32
	// Stream is Stdout or Stderr; empty when End is set.
	Stream string
	// Byte is the number of the first byte of Line in the stream, counted from 1; 0 where it is not known.
	Byte int64
	// Line is the text without its newline, or its base64 form when Encoding says so.
	Line string
	// Partial tells that no newline follows Line: the line was cut, or the output ended without one.
	Partial bool
	// Encoding is empty or EncodingBase64.
	Encoding string
	// End tells that nothing of this attempt follows.
	End bool
}

// wire is the JSON form of a Record. Line is a pointer so that an empty line shows as such, and End has none.
type wire struct {
	Time     time.Time `json:"time"`
	Run      string    `json:"run"`
	UID      string    `json:"uid"`
	Attempt  int32     `json:"attempt"`
	Stream   string    `json:"stream,omitempty"`
	Byte     int64     `json:"byte,omitempty"`
	Line     *string   `json:"line,omitempty"`
	Partial  bool      `json:"partial,omitempty"`
	Encoding string    `json:"encoding,omitempty"`
	End      bool      `json:"end,omitempty"`
}

// WithBytes returns r holding line, which has no newline in it, in the encoding that keeps it byte-equal.
func (r Record) WithBytes(line []byte) Record {
	if utf8.Valid(line) {
		r.Line, r.Encoding = string(line), ""
		return r
	}
	r.Line, r.Encoding = base64.StdEncoding.EncodeToString(line), EncodingBase64
	return r
}

// Bytes returns what the execution wrote, the newline included where there was one. It is empty for an End record.
func (r Record) Bytes() ([]byte, error) {
	if r.End {
		return nil, nil
	}
	line := []byte(r.Line)
	if r.Encoding == EncodingBase64 {
		decoded, err := base64.StdEncoding.DecodeString(r.Line)
		if err != nil {
			return nil, fmt.Errorf("decoding a log record of Run %s: %w", r.Run, err)
		}
		line = decoded
	}
	if !r.Partial {
		line = append(line, '\n')
	}
	return line, nil
}

// Encode appends r to buf as one line of JSON that ends in a newline.
func (r Record) Encode(buf *bytes.Buffer) error {
	w := wire{
		Time: r.Time, Run: r.Run, UID: r.UID, Attempt: r.Attempt,
		Stream: r.Stream, Byte: r.Byte, Partial: r.Partial, Encoding: r.Encoding, End: r.End,
	}
	if !r.End {
		w.Line = &r.Line
	}
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(w); err != nil {
		return fmt.Errorf("encoding a log record of Run %s: %w", r.Run, err)
	}
	return nil
}

// Parse reads one line of runtimed's standard output. It returns false for anything that is not a Record, so that a
// reader can skip what else a container log may hold.
func Parse(line []byte) (Record, bool) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 || line[0] != '{' {
		return Record{}, false
	}
	var w wire
	if err := json.Unmarshal(line, &w); err != nil {
		return Record{}, false
	}
	r := Record{
		Time: w.Time, Run: w.Run, UID: w.UID, Attempt: w.Attempt,
		Stream: w.Stream, Byte: w.Byte, Partial: w.Partial, Encoding: w.Encoding, End: w.End,
	}
	if w.Line != nil {
		r.Line = *w.Line
	}
	return r, r.valid()
}

// valid tells whether r is complete; it keeps other JSON, such as a line of zap, from passing for a record.
func (r Record) valid() bool {
	if r.UID == "" || r.Attempt < 1 {
		return false
	}
	if r.Encoding != "" && r.Encoding != EncodingBase64 {
		return false
	}
	return r.End || r.Stream == Stdout || r.Stream == Stderr
}
