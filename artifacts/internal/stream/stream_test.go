package stream_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"strings"
	"testing"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/artifacts"
	"kruntimes.io/kruntimes/artifacts/internal/stream"
)

func TestBound(t *testing.T) {
	for name, test := range map[string]struct {
		size int
		max  int64
		ok   bool
	}{
		"less than allowed": {9, 10, true},
		"as allowed":        {10, 10, true},
		"more than allowed": {11, 10, false},
		"much more":         {1 << 20, 10, false},
		"without a bound":   {1 << 20, 0, true},
		"nothing":           {0, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			content := strings.Repeat("x", test.size)
			got, err := io.ReadAll(stream.Bound(t.Context(), strings.NewReader(content), test.max))
			if test.ok && (err != nil || string(got) != content) {
				t.Errorf("got %d bytes and error %v, want all of %d", len(got), err, test.size)
			}
			if !test.ok && !errors.Is(err, artifacts.ErrTooLarge) {
				t.Errorf("got error %v, want %v", err, artifacts.ErrTooLarge)
			}
			if int64(len(got)) > test.max+1 && test.max > 0 {
				t.Errorf("read %d bytes of what may have %d", len(got), test.max)
			}
		})
	}
}

// breaking is a writer that takes some bytes.
type breaking struct {
	left int
	err  error
}

func (b *breaking) Write(p []byte) (int, error) {
	if len(p) > b.left {
		return b.left, b.err
	}
	b.left -= len(p)
	return len(p), nil
}

func TestCopyTellsErrorsApart(t *testing.T) {
	content := bytes.Repeat([]byte("x"), 3<<20)
	full := errors.New("full")
	_, _, err := stream.Copy(&breaking{left: 2 << 20, err: full}, bytes.NewReader(content))
	var write *artifacts.WriteError
	if !errors.Is(err, full) || !errors.As(err, &write) {
		t.Errorf("got %v, want a WriteError of %v", err, full)
	}
	changed := errors.New("changed")
	_, _, err = stream.Copy(io.Discard, io.MultiReader(bytes.NewReader(content), errorReader{changed}))
	if !errors.Is(err, changed) || errors.As(err, &write) {
		t.Errorf("got %v, want %v", err, changed)
	}
	size, digest, err := stream.Copy(io.Discard, bytes.NewReader(content))
	sum := sha256.New()
	sum.Write(content)
	if size != int64(len(content)) || digest != artifacts.Digest(sum) || err != nil {
		t.Errorf("got size %d, digest %s and error %v", size, digest, err)
	}
}

type errorReader struct{ err error }

func (e errorReader) Read([]byte) (int, error) { return 0, e.err }

func TestVerifyStopsReadingWhatIsTooLong(t *testing.T) {
	endless := &counting{}
	ref := corev1alpha1.ArtifactRef{Name: "a", SizeBytes: 10}
	_, err := io.Copy(io.Discard, stream.Verify(t.Context(), io.NopCloser(endless), ref))
	if !errors.Is(err, artifacts.ErrDigest) || endless.read > 2<<20 {
		t.Errorf("got error %v after %d bytes, want %v", err, endless.read, artifacts.ErrDigest)
	}
}

// counting never ends.
type counting struct{ read int }

func (c *counting) Read(p []byte) (int, error) {
	c.read += len(p)
	return len(p), nil
}

func TestVerifyStaysWithItsVerdict(t *testing.T) {
	ref := corev1alpha1.ArtifactRef{Name: "a", Digest: "sha256:" + strings.Repeat("0", 64)}
	r := stream.Verify(t.Context(), io.NopCloser(strings.NewReader("content")), ref)
	for range 2 {
		if _, err := io.ReadAll(r); !errors.Is(err, artifacts.ErrDigest) {
			t.Errorf("got %v, want %v", err, artifacts.ErrDigest)
		}
	}
	if _, err := io.Copy(io.Discard, r); !errors.Is(err, artifacts.ErrDigest) {
		t.Errorf("copying: got %v, want %v", err, artifacts.ErrDigest)
	}
}

func TestVerifyEndsWithItsContext(t *testing.T) {
	why := errors.New("the Run was cancelled")
	ctx, cancel := context.WithCancelCause(t.Context())
	r := stream.Verify(ctx, io.NopCloser(&counting{}), corev1alpha1.ArtifactRef{Name: "a"})
	if _, err := io.ReadFull(r, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	cancel(why)
	if _, err := io.ReadAll(r); !errors.Is(err, why) {
		t.Errorf("got %v, want %v", err, why)
	}
}
