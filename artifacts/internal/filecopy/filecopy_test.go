package filecopy_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"kruntimes.io/kruntimes/artifacts"
	"kruntimes.io/kruntimes/artifacts/internal/filecopy"
)

// source is content in a file.
type source struct {
	from  *os.File
	moved func(n int64) error
}

func (s *source) Read(p []byte) (int, error) { return s.from.Read(p) }

func (s *source) File() (*os.File, func(n int64) error) { return s.from, s.moved }

func fileWith(t *testing.T, content []byte) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func random(t *testing.T, n int) []byte {
	t.Helper()
	content := make([]byte, n)
	if _, err := rand.Read(content); err != nil {
		t.Fatal(err)
	}
	return content
}

func nothing() error { return nil }

func TestCopy(t *testing.T) {
	for name, size := range map[string]int{
		"nothing": 0, "one byte": 1, "a chunk": 64 << 10, "a byte more than a chunk": 64<<10 + 1, "many chunks": 21<<20 + 7,
	} {
		t.Run(name, func(t *testing.T) {
			content := random(t, size)
			var told int64
			from := &source{from: fileWith(t, content), moved: func(n int64) error { told += n; return nil }}
			to := fileWith(t, nil)
			settled := false
			n, sum, err := filecopy.Copy(to, from, func() error {
				info, err := to.Stat()
				settled = err == nil && info.Size() == int64(size)
				return err
			})
			if err != nil || n != int64(size) || told != n || !settled {
				t.Fatalf("copied %d of %d bytes, told of %d, all there when it settled: %t, error %v", n, size, told, settled, err)
			}
			if want := sha256.Sum256(content); !bytes.Equal(sum.Sum(nil), want[:]) {
				t.Error("the digest is another")
			}
			if got, err := os.ReadFile(to.Name()); err != nil || !bytes.Equal(got, content) {
				t.Errorf("the copy has %d bytes and error %v, and differs", len(got), err)
			}
		})
	}
}

// TestCopyGoesOnFromTheOffset copies what is left of a file.
func TestCopyGoesOnFromTheOffset(t *testing.T) {
	content := random(t, 1<<20)
	from := &source{from: fileWith(t, content), moved: func(int64) error { return nil }}
	if _, err := io.CopyN(io.Discard, from, 1000); err != nil {
		t.Fatal(err)
	}
	to := fileWith(t, nil)
	if _, _, err := filecopy.Copy(to, from, nothing); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(to.Name()); err != nil || !bytes.Equal(got, content[1000:]) {
		t.Errorf("the copy has %d bytes and error %v, and differs", len(got), err)
	}
}

func TestCopyTellsErrorsApart(t *testing.T) {
	mine := errors.New("mine")
	content := random(t, 3<<20)
	fine := func(int64) error { return nil }
	var write *artifacts.WriteError

	_, _, err := filecopy.Copy(fileWith(t, nil), &source{fileWith(t, content), func(int64) error { return mine }}, nothing)
	if !errors.Is(err, mine) || errors.As(err, &write) {
		t.Errorf("content that ends gave %v, want %v", err, mine)
	}
	_, _, err = filecopy.Copy(fileWith(t, nil), &source{fileWith(t, content), fine}, func() error { return mine })
	if !errors.Is(err, mine) || !errors.As(err, &write) {
		t.Errorf("a target that does not settle gave %v, want a WriteError of %v", err, mine)
	}
	unreadable, err := os.OpenFile(filepath.Join(t.TempDir(), "f"), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer unreadable.Close()
	if _, _, err = filecopy.Copy(unreadable, &source{fileWith(t, content), fine}, nothing); !errors.As(err, &write) {
		t.Errorf("a target that cannot be read back gave %v, want a WriteError", err)
	}
}

func TestCopyIsUnsupported(t *testing.T) {
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	defer writer.Close()
	file := fileWith(t, []byte("x"))
	for name, c := range map[string]struct{ to, from *os.File }{
		"from a pipe": {fileWith(t, nil), reader}, "to a pipe": {writer, file}, "from no file": {fileWith(t, nil), nil},
	} {
		n, _, err := filecopy.Copy(c.to, &source{c.from, func(int64) error { return nil }}, nothing)
		if n != 0 || !errors.Is(err, artifacts.ErrNoFileCopy) {
			t.Errorf("%s: copied %d bytes, error %v, want %v", name, n, err, artifacts.ErrNoFileCopy)
		}
	}
}
