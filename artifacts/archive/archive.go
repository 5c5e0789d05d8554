// Package archive turns a directory into one object and back: a tar archive in a zstd stream, with regular files and
// directories and nothing else.
//
// An archive is in one order only: a directory comes before what it holds, that comes sorted by name, and nothing comes back
// to a directory that was left. So both ways take a fixed amount of memory, and the same directory gives the same bytes.
package archive

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

const (
	// DefaultMaxEntries bounds the files and directories of an archive where options say nothing.
	DefaultMaxEntries = 100_000
	// MaxDepth bounds how deep directories nest.
	MaxDepth = 128
	// maxNameBytes bounds a name, as file systems do.
	maxNameBytes = 255
	// window is how far back the compression looks: it decides on how much memory both ways take. Unit: bytes.
	window = 4 << 20
	// permissions are the bits of a mode that are kept. Those that make a program run as somebody else are not.
	permissions = 0o777
	// chunk is how much of a file is copied at a time. Unit: bytes.
	chunk = 256 << 10
)

var (
	// ErrKind tells that something is neither a regular file nor a directory.
	ErrKind = errors.New("only files and directories are kept")
	// ErrHardLink tells that a file has several names.
	ErrHardLink = errors.New("has other names (hard links), which are not kept")
	// ErrName tells that something has a name that is not kept: not UTF-8, or in an archive one that leads elsewhere.
	ErrName = errors.New("has a name that is not kept")
	// ErrDuplicate tells that two names are the same, or the same but for case or composition of characters.
	ErrDuplicate = errors.New("has a name that is there already, or differs from one only in case or composition")
	// ErrChanged tells that a file was changed while it was read.
	ErrChanged = errors.New("was changed while it was read")
	// ErrTooMany tells that there are more files and directories than allowed.
	ErrTooMany = errors.New("too many files and directories")
	// ErrTooDeep tells that directories nest too deep.
	ErrTooDeep = fmt.Errorf("nests deeper than %d directories", MaxDepth)
	// ErrTooLarge tells that the files of an archive are larger than allowed.
	ErrTooLarge = errors.New("larger than allowed when it is unpacked")
	// ErrFormat tells that a stream is no archive as Write makes them.
	ErrFormat = errors.New("no archive of artifacts")
	// ErrExists tells that something is in the way of what is unpacked.
	ErrExists = errors.New("is in the way")
)

// EntryError says at which file or directory of a tree it went wrong.
type EntryError struct {
	// Path is where it lies below the directory, with slashes.
	Path string
	// Err is what is wrong with it.
	Err error
}

// Error quotes the path, which may hold any character.
func (e *EntryError) Error() string { return fmt.Sprintf("%q %v", e.Path, e.Err) }

// Unwrap returns what is wrong.
func (e *EntryError) Unwrap() error { return e.Err }

// entries counts what an archive holds, and bounds it.
type entries struct{ left, max int }

func newEntries(limit int) *entries {
	if limit <= 0 {
		limit = DefaultMaxEntries
	}
	return &entries{left: limit, max: limit}
}

func (e *entries) take(n int) error {
	if e.left -= n; e.left < 0 {
		return fmt.Errorf("%w: more than %d", ErrTooMany, e.max)
	}
	return nil
}

// names are the names of one directory. They are kept as somebody reads them who knows no case.
type names map[string]struct{}

// add takes a name of the directory. Errors: ErrName, ErrDuplicate.
func (n names) add(name string) error {
	if name == "" || name == "." || name == ".." || len(name) > maxNameBytes || !utf8.ValidString(name) ||
		strings.ContainsAny(name, "/\x00") {
		return ErrName
	}
	folded := fold(name)
	if _, there := n[folded]; there {
		return ErrDuplicate
	}
	n[folded] = struct{}{}
	return nil
}

// fold returns what is the same for two names that differ only in case or composition.
func fold(name string) string {
	for i := range len(name) {
		if name[i] >= utf8.RuneSelf {
			return norm.NFC.String(cases.Fold().String(norm.NFD.String(name)))
		}
	}
	return strings.ToLower(name)
}
