package opening

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// plant makes a tree with traps, and opens it.
func plant(t *testing.T) *os.Root {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "root")
	for _, name := range []string{"a/b", "../outside/b"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"inside": "a", "out": "../outside", "a/up": "..", "dangling": "nowhere"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return root
}

func TestDirectories(t *testing.T) {
	cases := map[string]struct {
		names []string
		make  bool
		err   string
	}{
		"a directory":                    {names: []string{"a", "b"}},
		"a directory that is not there":  {names: []string{"a", "c"}, err: "a/c: "},
		"a directory that is made":       {names: []string{"a", "c", "d"}, make: true},
		"a link that stays inside":       {names: []string{"inside", "b"}, err: "inside: it is no directory, but a symbolic link: remove it"},
		"a link that leads out":          {names: []string{"out", "b"}, make: true, err: "out: it is no directory, but a symbolic link: remove it"},
		"a link that leads up":           {names: []string{"a", "up"}, err: "a/up: it is no directory, but a symbolic link: remove it"},
		"a link that leads nowhere":      {names: []string{"dangling"}, make: true, err: "dangling: it is no directory, but a symbolic link: remove it"},
		"a file":                         {names: []string{"file", "x"}, make: true, err: "file: it is no directory, but a file: remove it"},
		"a pipe that nobody writes to":   {names: []string{"pipe"}, err: "pipe: it is no directory, but a FIFO: remove it"},
		"the directory above everything": {names: []string{".."}, err: "..: "},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			root := plant(t)
			open := Directories
			if tc.make {
				open = MakeDirectories
			}
			got, err := open(root, tc.names...)
			if err == nil {
				defer func() { _ = got.Close() }()
			}
			if (err != nil) != (tc.err != "") || err != nil && !strings.HasPrefix(err.Error(), tc.err) {
				t.Fatalf("want error %q, got %v", tc.err, err)
			}
			if _, err := root.Stat("../outside/d"); err == nil {
				t.Error("something was made outside")
			}
		})
	}
}

func TestNoNamesAreTheRoot(t *testing.T) {
	root := plant(t)
	if got, err := MakeDirectories(root); err != nil || got != root {
		t.Errorf("got %v, %v", got, err)
	}
}
