package stream

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/artifacts"
	"kruntimes.io/kruntimes/artifacts/internal/filecopy"
)

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
	if tooLong := s.count(int64(n)); tooLong != nil {
		return 0, tooLong
	}
	return n, err
}

func (s *source) count(n int64) error {
	s.read += n
	if s.ref.SizeBytes > 0 && s.read > s.ref.SizeBytes {
		return fmt.Errorf("artifact %q is longer than its %d bytes: %w", s.ref.Name, s.ref.SizeBytes, artifacts.ErrDigest)
	}
	return nil
}

// File returns the file that was opened, if it is one.
func (s *source) File() (*os.File, func(n int64) error) {
	from, moved := fileOf(s.opened)
	return from, func(n int64) error {
		if s.ctx.Err() != nil {
			return context.Cause(s.ctx)
		}
		return cmp.Or(moved(n), s.count(n))
	}
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

// CopyTo copies inside the kernel, and digests what has arrived.
func (v *verifier) CopyTo(to *os.File, moved func(n int64) error) error {
	if v.err != nil {
		return unlessEOF(v.err)
	}
	_, sum, err := filecopy.Copy(to, counted{&v.source, moved}, func() error { return nil })
	if errors.Is(err, artifacts.ErrNoFileCopy) {
		return err
	}
	if v.sum = sum; err == nil {
		err = v.verdict()
	}
	v.err = err
	return unlessEOF(err)
}

// counted is content of which somebody else is told as well.
type counted struct {
	*source
	moved func(n int64) error
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.source.Read(p)
	if told := c.moved(int64(n)); told != nil {
		return n, told
	}
	return n, err
}

func (c counted) File() (*os.File, func(n int64) error) {
	from, moved := c.source.File()
	return from, func(n int64) error { return cmp.Or(moved(n), c.moved(n)) }
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
