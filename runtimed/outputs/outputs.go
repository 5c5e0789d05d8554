// Package outputs reads what a script wrote to $KRUNTIME_OUTPUTS. It is pure: bytes in, values out.
//
// The file holds two forms, as in GitHub Actions:
//
//	key=value
//	key<<DELIMITER
//	any lines, joined by newlines; the last newline does not belong to the value
//	DELIMITER
//
// A line is what stands before a newline; a carriage return is an ordinary character. The operator that comes first in
// a line counts, so the value of "a=b<<c" is "b<<c". Values are taken byte for byte: nothing is trimmed, quoted or
// expanded. A key that comes again replaces the value before. Empty lines between entries are ignored; a line of blanks
// is not empty. Everything else is an error that names the line.
package outputs

import (
	"bytes"
	"fmt"
	"regexp"
	"unicode/utf8"
)

const (
	// MaxKeys bounds the number of outputs of a Run.
	MaxKeys = 64
	// MaxValue bounds one value. Unit: bytes.
	MaxValue = 4 * 1024
	// MaxTotal bounds all values together. Unit: bytes.
	MaxTotal = 64 * 1024
	// MaxFile bounds the whole file, repeated keys and delimiters included. Unit: bytes.
	MaxFile = 1024 * 1024
)

// keyPattern is what a key looks like.
var keyPattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,63}$`)

// Error says what is wrong with an outputs file.
type Error struct {
	// Line counts from 1; 0 when the file as a whole is wrong.
	Line int
	// TooLarge tells that a bound is exceeded, where the file is well-formed otherwise.
	TooLarge bool
	// Message tells a person what is wrong, without the line number.
	Message string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Message
	}
	return fmt.Sprintf("line %d of the outputs file: %s", e.Line, e.Message)
}

// parser walks over the lines of one file.
type parser struct {
	rest   []byte
	line   int
	values map[string]string
}

// Parse returns the outputs of a file. It never returns both; the error is an *Error. A file without entries gives nil.
func Parse(file []byte) (map[string]string, error) {
	if len(file) > MaxFile {
		return nil, &Error{TooLarge: true, Message: fmt.Sprintf("the outputs file holds more than %d bytes", MaxFile)}
	}
	p := &parser{rest: file, values: map[string]string{}}
	for {
		line, ok := p.next()
		if !ok {
			break
		}
		if len(line) == 0 {
			continue
		}
		if err := p.entry(line); err != nil {
			return nil, err
		}
	}
	if err := p.checkBounds(); err != nil {
		return nil, err
	}
	if len(p.values) == 0 {
		return nil, nil
	}
	return p.values, nil
}

// next returns the line after the one before; false when there is none.
func (p *parser) next() ([]byte, bool) {
	if len(p.rest) == 0 {
		return nil, false
	}
	p.line++
	line, rest, _ := bytes.Cut(p.rest, []byte{'\n'})
	p.rest = rest
	return line, true
}

// entry reads one output, further lines included.
func (p *parser) entry(line []byte) error {
	start := p.line
	key, value, isPlain := bytes.Cut(line, []byte{'='})
	heredocKey, delimiter, isHeredoc := bytes.Cut(line, []byte("<<"))
	switch {
	case isHeredoc && (!isPlain || len(heredocKey) < len(key)):
		key = heredocKey
		if len(delimiter) == 0 {
			return &Error{Line: start, Message: fmt.Sprintf("no delimiter after << in %s", quote(line))}
		}
		text, ok := p.heredoc(delimiter)
		if !ok {
			return &Error{Line: start, Message: fmt.Sprintf("the delimiter %s never comes", quote(delimiter))}
		}
		value = text
	case !isPlain:
		return &Error{Line: start, Message: fmt.Sprintf("neither key=value nor key<<DELIMITER: %s", quote(line))}
	}
	return p.set(start, key, value)
}

// heredoc returns the lines up to the delimiter, joined; false when it never comes.
func (p *parser) heredoc(delimiter []byte) ([]byte, bool) {
	begin := p.rest
	size := 0
	for {
		line, ok := p.next()
		if !ok {
			return nil, false
		}
		if bytes.Equal(line, delimiter) {
			return begin[:max(size-1, 0)], true
		}
		size += len(line) + 1
	}
}

// set stores one output after checking key and value.
func (p *parser) set(line int, key, value []byte) error {
	switch {
	case !keyPattern.Match(key):
		return &Error{Line: line, Message: fmt.Sprintf("the key %s is not 1 to 63 letters, digits, _ or -", quote(key))}
	case !utf8.Valid(value):
		return &Error{Line: line, Message: fmt.Sprintf("the value of %s is not valid UTF-8", key)}
	case len(value) > MaxValue:
		return &Error{Line: line, TooLarge: true,
			Message: fmt.Sprintf("the value of %s has %d bytes, more than %d", key, len(value), MaxValue)}
	}
	p.values[string(key)] = string(value)
	return nil
}

// checkBounds looks at all outputs together.
func (p *parser) checkBounds() error {
	if len(p.values) > MaxKeys {
		return &Error{TooLarge: true, Message: fmt.Sprintf("%d outputs, more than %d", len(p.values), MaxKeys)}
	}
	total := 0
	for _, v := range p.values {
		total += len(v)
	}
	if total > MaxTotal {
		return &Error{TooLarge: true, Message: fmt.Sprintf("the outputs have %d bytes together, more than %d", total, MaxTotal)}
	}
	return nil
}

// quote makes a bounded, printable quotation for a message.
func quote(text []byte) string {
	const limit = 64
	if len(text) > limit {
		return fmt.Sprintf("%q...", text[:limit])
	}
	return fmt.Sprintf("%q", text)
}
