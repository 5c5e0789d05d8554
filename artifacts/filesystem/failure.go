package filesystem

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"kruntimes.io/kruntimes/artifacts"
	"kruntimes.io/kruntimes/artifacts/internal/stream"
)

// passing are the errors of file systems on networks, and of a machine that is short of something, that end by themselves.
var passing = []error{
	syscall.EAGAIN, syscall.EBUSY, syscall.EHOSTDOWN, syscall.EHOSTUNREACH, syscall.EINTR, syscall.EIO, syscall.EMFILE,
	syscall.ENETDOWN, syscall.ENETUNREACH, syscall.ENFILE, syscall.ESTALE, syscall.ETIMEDOUT,
}

// rootError tells that the directory of the store cannot be opened. It is never mistaken for a part of the store that is not there.
type rootError struct {
	directory string
	err       error
}

func (e *rootError) Error() string { return fmt.Sprintf("%s: %s", e.directory, words(e.err)) }

// failure tells what was not done, and why. Nil stays nil.
func failure(doing string, err error) error {
	if err == nil {
		return nil
	}
	var content stream.ContentError
	if errors.As(err, &content) {
		return fmt.Errorf("%s: %w", doing, content.Unwrap())
	}
	if errors.Is(err, artifacts.ErrUnclaimed) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	ends := slices.ContainsFunc(passing, func(target error) bool { return errors.Is(err, target) })
	return artifacts.NewStoreError(doing, words(err), ends, err)
}

// missing is failure, where something that is not there has an error of its own.
func missing(doing string, err, instead error) error {
	if errors.Is(err, errMissing) {
		return fmt.Errorf("%s: %w", doing, instead)
	}
	return failure(doing, err)
}

// words are what the file system says, without the names of files that nobody knows.
func words(err error) string {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err.Error()
	}
	var link *os.LinkError
	if errors.As(err, &link) {
		return link.Err.Error()
	}
	return err.Error()
}

// told tells errors of content from those of the file that it was copied to.
func told(err error) error {
	var store *artifacts.WriteError
	if errors.As(err, &store) {
		return store.Err
	}
	return stream.Content(err)
}

// reading is an artifact that is read. Its errors are those of a store.
type reading struct {
	file  *os.File
	doing string
}

// Read reads from the file.
func (r reading) Read(p []byte) (int, error) {
	n, err := r.file.Read(p)
	if err != nil && !stream.AtEnd(err) {
		err = failure(r.doing, err)
	}
	return n, err
}

// File returns the file, which may be copied in place of being read.
func (r reading) File() (*os.File, func(n int64) error) {
	return r.file, func(int64) error { return nil }
}

// Close closes the file.
func (r reading) Close() error { return r.file.Close() }
