// Package stream moves the bytes of artifacts: it counts, bounds and digests them on their way, in a fixed amount of memory.
package stream

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"os"

	"github.com/klauspost/readahead"

	"kruntimes.io/kruntimes/artifacts"
)

// What is read ahead of what is written: so many chunks of so many bytes. A chunk fits into a processor's cache, where it is
// read, digested and written.
const (
	chunks = 4
	chunk  = 256 << 10
)

// Bound returns a reader of content that ends with the cause when ctx ends, and with ErrTooLarge after more than maxBytes.
// Zero maxBytes: no bound.
func Bound(ctx context.Context, content io.Reader, maxBytes int64) artifacts.FileContent {
	return &bound{ctx: ctx, content: content, max: maxBytes}
}

type bound struct {
	ctx     context.Context
	content io.Reader
	max     int64
	read    int64
}

func (b *bound) Read(p []byte) (int, error) {
	if b.ctx.Err() != nil {
		return 0, context.Cause(b.ctx)
	}
	if left := b.max - b.read + 1; b.max > 0 && int64(len(p)) > left {
		p = p[:left]
	}
	n, err := b.content.Read(p)
	if tooLarge := b.count(int64(n)); tooLarge != nil {
		return n, tooLarge
	}
	return n, err
}

func (b *bound) count(n int64) error {
	b.read += n
	if b.max > 0 && b.read > b.max {
		return fmt.Errorf("%w: more than %d bytes", artifacts.ErrTooLarge, b.max)
	}
	return nil
}

// File returns the file of content, if it lies in one, with the same bounds.
func (b *bound) File() (*os.File, func(n int64) error) {
	from, moved := fileOf(b.content)
	return from, func(n int64) error {
		if b.ctx.Err() != nil {
			return context.Cause(b.ctx)
		}
		return cmp.Or(moved(n), b.count(n))
	}
}

// fileOf returns the file that a reader reads, if there is one.
func fileOf(content io.Reader) (*os.File, func(n int64) error) {
	switch c := content.(type) {
	case *os.File:
		return c, func(int64) error { return nil }
	case artifacts.FileContent:
		return c.File()
	}
	return nil, nil
}

// ContentError is an error that is none of the store: of what is stored, or of the context.
type ContentError struct{ error }

// Content marks an error as none of the store.
func Content(err error) error { return ContentError{err} }

// Unwrap returns the error as the content gave it.
func (e ContentError) Unwrap() error { return e.error }

// Copy writes all of content, and returns how much it was and its digest. What comes next is read and digested meanwhile.
// Errors: artifacts.WriteError, and those of content.
func Copy(to io.Writer, content io.Reader) (size int64, digest string, err error) {
	sum := sha256.New()
	ahead := readAhead(content, sum)
	size, err = io.Copy(writer{to}, ahead)
	_ = ahead.Close() // It ends the reading, and nothing else.
	if err != nil {
		return size, "", err
	}
	return size, artifacts.Digest(sum), nil
}

// readAhead returns a reader that reads and digests in the background. It has to be closed.
func readAhead(content io.Reader, sum hash.Hash) io.ReadCloser {
	ahead, err := readahead.NewReaderSize(io.TeeReader(content, sum), chunks, chunk)
	if err != nil {
		panic(fmt.Sprintf("reading ahead: %v", err)) // a bug: only sizes that are none make it
	}
	return ahead
}

// writer marks its errors.
type writer struct{ to io.Writer }

func (w writer) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	if err != nil {
		return n, &artifacts.WriteError{Err: err}
	}
	return n, nil
}

// AtEnd tells whether a reader has come to its end. That is io.EOF itself: one that is wrapped tells that something else
// ended too early, and what was read is not all.
func AtEnd(err error) bool {
	return err == io.EOF //nolint:errorlint // see above
}

// Fill reads until the buffer is full or the first error, which it returns as it is.
func Fill(from io.Reader, buffer []byte) (n int, err error) {
	for n < len(buffer) && err == nil {
		var more int
		more, err = from.Read(buffer[n:])
		n += more
	}
	return n, err
}
