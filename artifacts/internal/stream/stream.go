// Package stream moves the bytes of artifacts: it counts, bounds and digests them on their way, in a fixed amount of memory.
package stream

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/klauspost/readahead"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
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
func Bound(ctx context.Context, content io.Reader, maxBytes int64) io.Reader {
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
	b.read += int64(n)
	if b.max > 0 && b.read > b.max {
		return n, fmt.Errorf("%w: more than %d bytes", artifacts.ErrTooLarge, b.max)
	}
	return n, err
}

// WriteError is an error of where Copy wrote to. All others are of what it read.
type WriteError struct{ Err error }

// Error returns the error of the writer.
func (e *WriteError) Error() string { return e.Err.Error() }

// Unwrap returns the error of the writer.
func (e *WriteError) Unwrap() error { return e.Err }

// ContentError is an error that is none of the store: of what is stored, or of the context.
type ContentError struct{ error }

// Content marks an error as none of the store.
func Content(err error) error { return ContentError{err} }

// Unwrap returns the error as the content gave it.
func (e ContentError) Unwrap() error { return e.error }

// Copy writes all of content, and returns how much it was and its digest. What comes next is read and digested meanwhile.
// Errors: WriteError, and those of content.
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
		return n, &WriteError{Err: err}
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

// Verify returns a reader of an opened artifact, which reads ahead and digests in the background once it is read. When the bytes end, it
// returns io.EOF only if they have the size and the digest of ref, else ErrDigest. It ends with the cause when ctx ends, and
// closes what was opened with it.
func Verify(ctx context.Context, opened io.ReadCloser, ref corev1alpha1.ArtifactRef) io.ReadCloser {
	return &verifier{source: source{ctx: ctx, opened: opened, ref: ref}, sum: sha256.New()}
}

// source reads what was opened, and no more than its address says.
type source struct {
	ctx    context.Context
	opened io.ReadCloser
	ref    corev1alpha1.ArtifactRef
	read   int64
}

func (s *source) Read(p []byte) (int, error) {
	if s.ctx.Err() != nil {
		return 0, context.Cause(s.ctx)
	}
	n, err := s.opened.Read(p)
	s.read += int64(n)
	if s.ref.SizeBytes > 0 && s.read > s.ref.SizeBytes {
		return 0, fmt.Errorf("artifact %q is longer than its %d bytes: %w", s.ref.Name, s.ref.SizeBytes, artifacts.ErrDigest)
	}
	return n, err
}

type verifier struct {
	source source
	sum    hash.Hash
	ahead  io.ReadCloser // nil before the first byte is asked for: not all that is opened is read
	err    error         // what the last Read returned
}

func (v *verifier) begin() {
	if v.ahead == nil {
		v.ahead = readAhead(&v.source, v.sum)
	}
}

// Read returns what was read ahead.
func (v *verifier) Read(p []byte) (int, error) {
	if v.err != nil {
		return 0, v.err
	}
	v.begin()
	n, err := v.ahead.Read(p)
	if AtEnd(err) { // All is digested then.
		err = v.verdict()
	}
	v.err = err
	return n, err
}

// WriteTo writes one chunk while the next one is digested.
func (v *verifier) WriteTo(to io.Writer) (int64, error) {
	if v.err != nil {
		return 0, unlessEOF(v.err)
	}
	v.begin()
	n, err := io.Copy(writer{to}, v.ahead)
	if err == nil {
		err = v.verdict()
	}
	v.err = err
	return n, unlessEOF(err)
}

func unlessEOF(err error) error {
	if AtEnd(err) {
		return nil
	}
	return err
}

// verdict is what is returned at the end: io.EOF or ErrDigest.
func (v *verifier) verdict() error {
	ref := v.source.ref
	if ref.SizeBytes > 0 && v.source.read != ref.SizeBytes {
		return fmt.Errorf("artifact %q has %d of its %d bytes: %w", ref.Name, v.source.read, ref.SizeBytes, artifacts.ErrDigest)
	}
	if got := artifacts.Digest(v.sum); ref.Digest != "" && got != ref.Digest {
		return fmt.Errorf("artifact %q has digest %s, not %s: %w", ref.Name, got, ref.Digest, artifacts.ErrDigest)
	}
	return io.EOF
}

// Close closes what was opened, which also ends a read that waits for it.
func (v *verifier) Close() error {
	err := v.source.opened.Close()
	if v.ahead != nil {
		err = errors.Join(err, v.ahead.Close())
	}
	return err
}
