package archive_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kruntimes.io/kruntimes/artifacts/archive"
)

// openRoot opens a directory for the time of a test.
func openRoot(tb testing.TB, dir string) *os.Root {
	tb.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { root.Close() })
	return root
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// file is what a tree holds under a path. Directories have no content.
type file struct {
	Mode    fs.FileMode
	Content string
	Changed int64 // nanoseconds
}

// tree reads everything below a directory.
func tree(tb testing.TB, dir string) map[string]file {
	tb.Helper()
	got := map[string]file{}
	must(tb, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		f := file{Mode: info.Mode(), Changed: info.ModTime().UnixNano()}
		if info.Mode().IsRegular() {
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			f.Content = string(content)
		}
		rel, err := filepath.Rel(dir, path)
		got[rel] = f
		return err
	}))
	return got
}

func write(tb testing.TB, dir string, opts archive.WriteOptions) ([]byte, error) {
	tb.Helper()
	var packed bytes.Buffer
	err := archive.Write(tb.Context(), &packed, openRoot(tb, dir), opts)
	return packed.Bytes(), err
}

func TestWhatIsWrittenComesBack(t *testing.T) {
	source := t.TempDir()
	long := strings.Repeat("ü", 127) + "x" // 255 bytes
	deep := strings.TrimSuffix(strings.Repeat("d/", archive.MaxDepth), "/")
	must(t, os.MkdirAll(filepath.Join(source, deep), 0o755))
	must(t, os.MkdirAll(filepath.Join(source, "empty"), 0o700))
	for name, content := range map[string]string{
		"plain": "hello", "nothing": "", "a name with spaces": "1", "line\nbreak": "2", "-rf": "3", "100%": "4", "日本語": "5",
		long: "6", deep + "/bottom": "7", "big": strings.Repeat("0123456789abcdef", 1<<17), "back\\slash": "8", "tab\t": "9",
	} {
		must(t, os.WriteFile(filepath.Join(source, name), []byte(content), 0o640))
	}
	must(t, os.Chmod(filepath.Join(source, "plain"), 0o755|fs.ModeSetuid|fs.ModeSetgid))
	must(t, os.Mkdir(filepath.Join(source, "read-only"), 0o700))
	must(t, os.WriteFile(filepath.Join(source, "read-only", "f"), []byte("r"), 0o400))
	must(t, os.Chmod(filepath.Join(source, "read-only"), 0o500|fs.ModeSticky))
	t.Cleanup(func() { must(t, os.Chmod(filepath.Join(source, "read-only"), 0o700)) })
	then := time.Date(2001, 2, 3, 4, 5, 6, 789, time.UTC)
	must(t, os.Chtimes(filepath.Join(source, "nothing"), then, then))
	must(t, os.Chtimes(filepath.Join(source, "empty"), then, then))

	packed, err := write(t, source, archive.WriteOptions{})
	must(t, err)
	again, err := write(t, source, archive.WriteOptions{})
	must(t, err)
	if !bytes.Equal(packed, again) {
		t.Error("the same directory gave other bytes the second time")
	}
	target := t.TempDir()
	must(t, archive.Extract(t.Context(), bytes.NewReader(packed), openRoot(t, target), archive.ExtractOptions{MaxBytes: 3 << 20}))

	t.Cleanup(func() { must(t, os.Chmod(filepath.Join(target, "read-only"), 0o700)) })

	want := tree(t, source)
	for name, f := range want {
		f.Mode &^= fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky
		want[name] = f
	}
	if diff := cmp.Diff(want, tree(t, target)); diff != "" {
		t.Errorf("unpacked tree (-want +got):\n%s", diff)
	}
}

func TestWriteRefusesByName(t *testing.T) {
	for name, test := range map[string]struct {
		make func(t *testing.T, dir string)
		want error
		at   string
	}{
		"a symbolic link to a file": {
			make: func(t *testing.T, dir string) { must(t, os.Symlink("/etc/passwd", filepath.Join(dir, "sub", "link"))) },
			want: archive.ErrKind, at: "sub/link",
		},
		"a symbolic link to a directory": {
			make: func(t *testing.T, dir string) { must(t, os.Symlink("..", filepath.Join(dir, "sub", "link"))) },
			want: archive.ErrKind, at: "sub/link",
		},
		"a link that leads to itself": {
			make: func(t *testing.T, dir string) { must(t, os.Symlink("loop", filepath.Join(dir, "loop"))) },
			want: archive.ErrKind, at: "loop",
		},
		"a hard link to a file outside": {
			make: func(t *testing.T, dir string) {
				outside := filepath.Join(filepath.Dir(dir), "outside")
				must(t, os.WriteFile(outside, []byte("secret"), 0o600))
				must(t, os.Link(outside, filepath.Join(dir, "sub", "inside")))
			},
			want: archive.ErrHardLink, at: "sub/inside",
		},
		"a FIFO": {
			make: func(t *testing.T, dir string) { must(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600)) },
			want: archive.ErrKind, at: "pipe",
		},
		"a socket": {
			make: func(t *testing.T, dir string) {
				must(t, syscall.Mknod(filepath.Join(dir, "socket"), syscall.S_IFSOCK|0o600, 0))
			},
			want: archive.ErrKind, at: "socket",
		},
		"a name that is not UTF-8": {
			make: func(t *testing.T, dir string) { must(t, os.WriteFile(filepath.Join(dir, "a\xff"), nil, 0o600)) },
			want: archive.ErrName, at: "a\xff",
		},
		"two names that differ in case": {
			make: func(t *testing.T, dir string) {
				must(t, os.WriteFile(filepath.Join(dir, "Makefile"), nil, 0o600))
				must(t, os.WriteFile(filepath.Join(dir, "makefile"), nil, 0o600))
			},
			want: archive.ErrDuplicate, at: "makefile",
		},
		"two names that differ in composition": {
			make: func(t *testing.T, dir string) {
				must(t, os.WriteFile(filepath.Join(dir, "\u00e9"), nil, 0o600))
				must(t, os.WriteFile(filepath.Join(dir, "e\u0301"), nil, 0o600))
			},
			want: archive.ErrDuplicate, at: "\u00e9",
		},
		"directories that nest too deep": {
			make: func(t *testing.T, dir string) {
				must(t, os.MkdirAll(filepath.Join(dir, strings.Repeat("d/", archive.MaxDepth+1)), 0o700))
			},
			want: archive.ErrTooDeep, at: strings.TrimSuffix(strings.Repeat("d/", archive.MaxDepth+1), "/"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "tree")
			must(t, os.MkdirAll(filepath.Join(dir, "sub"), 0o700))
			test.make(t, dir)
			_, err := write(t, dir, archive.WriteOptions{})
			var at *archive.EntryError
			if !errors.Is(err, test.want) || !errors.As(err, &at) || at.Path != test.at {
				t.Errorf("got error %v, want %v at %q", err, test.want, test.at)
			}
		})
	}
}

func TestWriteCountsEntries(t *testing.T) {
	dir := t.TempDir()
	for i := range 100 {
		sub := filepath.Join(dir, fmt.Sprintf("d%02d", i))
		must(t, os.Mkdir(sub, 0o700))
		for j := range 99 {
			must(t, os.WriteFile(filepath.Join(sub, fmt.Sprintf("f%02d", j)), []byte("x"), 0o600))
		}
	}
	packed, err := write(t, dir, archive.WriteOptions{MaxEntries: 10_000})
	must(t, err)
	target := t.TempDir()
	must(t, archive.Extract(t.Context(), bytes.NewReader(packed), openRoot(t, target), archive.ExtractOptions{MaxEntries: 10_000}))
	if got := len(tree(t, target)); got != 10_000 {
		t.Errorf("unpacked %d entries, want 10000", got)
	}
	if _, err := write(t, dir, archive.WriteOptions{MaxEntries: 9_999}); !errors.Is(err, archive.ErrTooMany) {
		t.Errorf("writing one entry more than allowed: got %v, want %v", err, archive.ErrTooMany)
	}
	err = archive.Extract(t.Context(), bytes.NewReader(packed), openRoot(t, t.TempDir()), archive.ExtractOptions{MaxEntries: 9_999})
	if !errors.Is(err, archive.ErrTooMany) {
		t.Errorf("unpacking one entry more than allowed: got %v, want %v", err, archive.ErrTooMany)
	}
}

// changing does something when the first byte of an archive that is larger than all buffers is written.
type changing struct {
	io.Writer
	do func()
}

func (c *changing) Write(p []byte) (int, error) {
	if c.do != nil {
		c.do()
		c.do = nil
	}
	return c.Writer.Write(p)
}

func TestWriteNoticesChanges(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, path string){
		"a file that grows": func(t *testing.T, path string) {
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			must(t, err)
			defer f.Close()
			_, err = f.WriteString("more")
			must(t, err)
		},
		"a file that shrinks": func(t *testing.T, path string) { must(t, os.Truncate(path, 1<<20)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "log")
			must(t, os.WriteFile(path, nil, 0o600))
			must(t, os.Truncate(path, 64<<20))
			w := &changing{Writer: io.Discard, do: func() { change(t, path) }}
			err := archive.Write(t.Context(), w, openRoot(t, dir), archive.WriteOptions{})
			var at *archive.EntryError
			if !errors.Is(err, archive.ErrChanged) || !errors.As(err, &at) || at.Path != "log" {
				t.Errorf("got error %v, want %v at log", err, archive.ErrChanged)
			}
		})
	}
}

func TestWriteEndsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "f"), make([]byte, 1<<20), 0o600))
	why := errors.New("the Run was cancelled")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if err := archive.Write(ctx, io.Discard, openRoot(t, dir), archive.WriteOptions{}); !errors.Is(err, why) {
		t.Errorf("got error %v, want %v", err, why)
	}
}

func TestWriteReturnsErrorsOfItsWriter(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "f"), make([]byte, 1<<20), 0o600))
	r, w := io.Pipe()
	why := errors.New("the store is full")
	r.CloseWithError(why)
	if err := archive.Write(t.Context(), w, openRoot(t, dir), archive.WriteOptions{}); !errors.Is(err, why) {
		t.Errorf("got error %v, want %v", err, why)
	}
}
