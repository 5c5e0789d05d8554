package artifacts

import (
	"errors"
	"strings"
	"unicode"
)

// maxWords bounds what is repeated of a store's words. Unit: bytes.
const maxWords = 512

// ErrUnclaimed tells that a Run has no owner.json: Claim was not called before Put, or the Run was removed meanwhile.
var ErrUnclaimed = errors.New("the store holds no owner.json for its Run: it was removed, or never claimed")

// StoreError tells that a store did not do what it was asked to: it is not there, full, slow, or it refuses. Errors of
// content and of cancelled contexts are none, nor are the variables of this package.
type StoreError struct {
	// Doing is what was asked for.
	Doing string
	// Words are the store's own, on one line of at most 512 bytes.
	Words string
	// Passing tells that the same may succeed a little later, without anybody doing something about it.
	Passing bool
	// Err is what the driver got.
	Err error
}

// NewStoreError returns an error with words in the form that StoreError promises.
func NewStoreError(doing, words string, passing bool, err error) *StoreError {
	return &StoreError{Doing: doing, Words: oneLine(words), Passing: passing, Err: err}
}

// Error returns what was asked for, and what the store said.
func (e *StoreError) Error() string { return e.Doing + ": " + e.Words }

// Unwrap returns what the driver got.
func (e *StoreError) Unwrap() error { return e.Err }

// WriteError is an error of the file or writer that content was written to. All others are of what was read.
type WriteError struct{ Err error }

// Error returns the error of the writer.
func (e *WriteError) Error() string { return e.Err.Error() }

// Unwrap returns the error of the writer.
func (e *WriteError) Unwrap() error { return e.Err }

// IsPassing tells whether err is of a store, and may be gone a little later.
func IsPassing(err error) bool {
	var failed *StoreError
	return errors.As(err, &failed) && failed.Passing
}

// oneLine makes a single line of words, without control characters, that is not longer than allowed.
func oneLine(words string) string {
	words = strings.Join(strings.FieldsFunc(words, func(r rune) bool { return unicode.IsControl(r) || r == ' ' }), " ")
	words = strings.ToValidUTF8(words, "?")
	if len(words) <= maxWords {
		return words
	}
	const more = " …"
	return strings.ToValidUTF8(words[:maxWords-len(more)], "") + more
}
