package removal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestRemove(t *testing.T) {
	cases := map[string]func(t *testing.T, victim string){
		"nothing":      func(*testing.T, string) {},
		"a file":       func(t *testing.T, victim string) { write(t, victim) },
		"a named pipe": func(t *testing.T, victim string) { check(t, syscall.Mkfifo(victim, 0o600)) },
		"a link":       func(t *testing.T, victim string) { check(t, os.Symlink("../outside", victim)) },
		"a dead link":  func(t *testing.T, victim string) { check(t, os.Symlink("/nowhere", victim)) },
		"links and odd names in a directory": func(t *testing.T, victim string) {
			check(t, os.Mkdir(victim, 0o700))
			check(t, os.Symlink("../../outside", filepath.Join(victim, "link")))
			check(t, os.Symlink(".", filepath.Join(victim, "loop")))
			check(t, syscall.Mkfifo(filepath.Join(victim, "pipe"), 0))
			for _, name := range []string{" ", "\n", "a\\b", "-rf", "\xff\xfe", strings.Repeat("n", 255), ".removed-", "…"} {
				check(t, os.Mkdir(filepath.Join(victim, name), 0o700))
				write(t, filepath.Join(victim, name, name))
			}
		},
		"directories without permissions": func(t *testing.T, victim string) {
			at := victim
			for range 5 {
				check(t, os.Mkdir(at, 0o700))
				write(t, filepath.Join(at, "file"))
				defer func() { check(t, os.Chmod(at, 0)) }()
				at = filepath.Join(at, "d")
			}
			at = filepath.Dir(at)
		},
		"300 levels":                      func(t *testing.T, victim string) { nest(t, victim, 300, 0o700) },
		"300 levels without permissions":  func(t *testing.T, victim string) { nest(t, victim, 300, 0o500) },
		"3000 levels without permissions": func(t *testing.T, victim string) { nest(t, victim, 3000, 0) },
	}
	for name, lay := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			check(t, os.Mkdir(filepath.Join(dir, "inside"), 0o700))
			check(t, os.Mkdir(filepath.Join(dir, "inside", "below"), 0o700))
			check(t, os.Mkdir(filepath.Join(dir, "outside"), 0o700))
			write(t, filepath.Join(dir, "outside", "kept"))
			lay(t, filepath.Join(dir, "inside", "below", "victim"))
			root, err := os.OpenRoot(filepath.Join(dir, "inside"))
			check(t, err)
			defer root.Close()
			check(t, Remove(root, "below/victim"))
			left, err := os.ReadDir(filepath.Join(dir, "inside", "below"))
			check(t, err)
			if len(left) > 0 {
				t.Errorf("left: %v", left)
			}
			if _, err := os.Stat(filepath.Join(dir, "outside", "kept")); err != nil {
				t.Errorf("removed too much: %v", err)
			}
		})
	}
}

// TestLoosenMovesUpWhatIsDeep runs as root too, to whom permissions do not matter.
func TestLoosenMovesUpWhatIsDeep(t *testing.T) {
	dir := t.TempDir()
	nest(t, filepath.Join(dir, "victim"), 3*maxDepth, 0o500)
	root, err := os.OpenRoot(dir)
	check(t, err)
	defer root.Close()
	left := []string{"victim"}
	pieces := 0
	for ; len(left) > 0; pieces++ {
		deeper, err := loosen(root, left[0])
		check(t, err)
		check(t, root.RemoveAll(left[0]))
		left = append(left[1:], deeper...)
	}
	if pieces != 3 {
		t.Errorf("removed in %d pieces", pieces)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
}

func TestSetAside(t *testing.T) {
	dir := t.TempDir()
	check(t, os.MkdirAll(filepath.Join(dir, "below", "victim"), 0o700))
	root, err := os.OpenRoot(dir)
	check(t, err)
	defer root.Close()
	aside, err := SetAside(root, "below/victim")
	check(t, err)
	if again, err := SetAside(root, aside); err != nil || again != aside || filepath.Dir(aside) != "below" {
		t.Errorf("set aside as %q, then %q (%v)", aside, again, err)
	}
	if _, err := root.Stat(aside); err != nil {
		t.Error(err)
	}
	if _, err := SetAside(root, "below/victim"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("setting nothing aside: %v", err)
	}
}

// nest makes directories inside each other and then sets their mode, from the innermost on. Paths that long need steps.
func nest(t *testing.T, victim string, levels int, mode os.FileMode) {
	t.Helper()
	check(t, os.Mkdir(victim, 0o700))
	at, err := os.OpenRoot(victim)
	check(t, err)
	roots := []*os.Root{at}
	for range levels - 1 {
		check(t, at.Mkdir("d", 0o700))
		at, err = at.OpenRoot("d")
		check(t, err)
		roots = append(roots, at)
	}
	for i := len(roots) - 2; i >= 0; i-- {
		check(t, roots[i].Chmod("d", mode))
	}
	for _, r := range roots {
		check(t, r.Close())
	}
	check(t, os.Chmod(victim, mode))
}

func write(t *testing.T, name string) {
	t.Helper()
	check(t, os.WriteFile(name, []byte("x"), 0o400))
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
