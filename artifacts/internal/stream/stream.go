// Package stream moves the bytes of artifacts: it counts, bounds and digests them on their way, in a fixed amount of memory.
package stream

import (
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/artifacts"
)

// chunk is how much is read, digested and written at a time. Unit: bytes.
const chunk = 1 << 20

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

// Copy writes all of content, and returns how much it was and its digest. Errors: WriteError, and those of content.
func Copy(to io.Writer, content io.Reader) (size int64, digest string, err error) {
	sum := sha256.New()
	size, err = transfer(to, content, sum)
	return size, artifacts.Digest(sum), err
}

// transfer digests one chunk on one processor while it is written on another.
func transfer(to io.Writer, from io.Reader, sum hash.Hash) (size int64, err error) {
	buffer := make([]byte, chunk)
	digested := make(chan struct{}, 1)
	for {
		n, readErr := Fill(from, buffer)
		if n > 0 {
			go func() {
				sum.Write(buffer[:n]) // a hash takes everything
				digested <- struct{}{}
			}()
			_, err := to.Write(buffer[:n])
			<-digested
			size += int64(n)
			if err != nil {
				return size, &WriteError{Err: err}
			}
		}
		if readErr != nil {
			return size, unlessEOF(readErr)
		}
	}
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

// Verify returns a reader of an opened artifact. When the bytes end, it returns io.EOF only if they have the size and the
// digest of ref, else ErrDigest. It ends with the cause when ctx ends, and closes what was opened with it.
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
	err    error // what the last Read returned
}

// Read reads and digests.
func (v *verifier) Read(p []byte) (int, error) {
	if v.err != nil {
		return 0, v.err
	}
	n, err := v.source.Read(p)
	v.sum.Write(p[:n])
	if AtEnd(err) {
		err = v.verdict()
	}
	v.err = err
	return n, err
}

// WriteTo digests one chunk while it writes another.
func (v *verifier) WriteTo(to io.Writer) (int64, error) {
	if v.err != nil {
		return 0, unlessEOF(v.err)
	}
	n, err := transfer(to, &v.source, v.sum)
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

// Close closes what was opened.
func (v *verifier) Close() error { return v.source.opened.Close() }
