package staging

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// below writes a file below a directory that is handed over open.
func below(dir *os.File, name, content string, mode os.FileMode) error {
	root, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()))
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return root.WriteFile(name, []byte(content), mode)
}

func TestFillSource(t *testing.T) {
	broken := errors.New("broken")
	cases := map[string]struct {
		fill func(d *Directory, dir *os.File) error
		err  error
		want string
	}{
		"filled": {fill: func(_ *Directory, dir *os.File) error { return below(dir, "a", "x", 0o644) }, want: "x"},
		"failed half-way": {
			fill: func(_ *Directory, dir *os.File) error { return errors.Join(below(dir, "a", "x", 0o644), broken) }, err: broken,
		},
		"swapped for a link meanwhile": {
			fill: func(d *Directory, dir *os.File) error {
				return errors.Join(os.Rename(d.path+"/incoming", d.path+"/elsewhere"), os.Symlink("/etc", d.path+"/incoming"), below(dir, "a", "x", 0o644), broken)
			},
			err: broken,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := create(t, openArea(t), "")
			if err := d.FillSource(func(dir *os.File) error { return tc.fill(d, dir) }); !errors.Is(err, tc.err) {
				t.Errorf("want error %v, got %v", tc.err, err)
			}
			content, err := os.ReadFile(d.Work() + "/a")
			if string(content) != tc.want || (tc.want == "") != errors.Is(err, os.ErrNotExist) {
				t.Errorf("want %q, got %q, %v", tc.want, content, err)
			}
			if entries, err := os.ReadDir(d.Work()); err != nil || (tc.want == "" && len(entries) != 0) {
				t.Errorf("the working directory holds %v, %v", entries, err)
			}
			if _, err := os.Lstat(d.path + "/incoming"); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the unfinished directory is still there: %v", err)
			}
		})
	}
}

func TestEntrypoint(t *testing.T) {
	d := create(t, openArea(t), "")
	outside := filepath.Join(t.TempDir(), "f")
	must(t, os.WriteFile(outside, []byte("#!/bin/sh\n"), 0o755))
	must(t, d.FillSource(func(dir *os.File) error {
		return errors.Join(
			below(dir, "plain.py", "print()", 0o644), below(dir, "bin/run", "#! /usr/bin/env python3\n", 0o755),
			below(dir, "text", "echo", 0o755), below(dir, "script", "#!/bin/sh\n", 0o644), below(dir, "elf", "\x7fELF...", 0o755),
			below(dir, "odd", "#!\n", 0o755), below(dir, "empty", "", 0o755), below(dir, ".git/config", "x", 0o644), below(dir, "..x", "", 0o644),
		)
	}))
	for name, target := range map[string]string{"in": "bin/run", "out": outside, "up": "../outputs", "gone": "nothing", "loop": "loop", "dir": "bin"} {
		must(t, os.Symlink(target, filepath.Join(d.Work(), name)))
	}
	at := func(name string) string { return filepath.Join(d.Work(), name) }
	cases := map[string]struct {
		want Entrypoint
		err  string
	}{
		"plain.py":     {want: Entrypoint{Path: at("plain.py")}},
		"bin/run":      {want: Entrypoint{Path: at("bin/run"), Direct: true, Interpreter: "/usr/bin/env"}},
		"./bin//run":   {want: Entrypoint{Path: at("bin/run"), Direct: true, Interpreter: "/usr/bin/env"}},
		"text":         {want: Entrypoint{Path: at("text")}},
		"script":       {want: Entrypoint{Path: at("script")}},
		"elf":          {want: Entrypoint{Path: at("elf"), Direct: true}},
		"odd":          {want: Entrypoint{Path: at("odd"), Direct: true}},
		"empty":        {want: Entrypoint{Path: at("empty")}},
		"in":           {want: Entrypoint{Path: at("in"), Direct: true, Interpreter: "/usr/bin/env"}},
		"dir/run":      {want: Entrypoint{Path: at("dir/run"), Direct: true, Interpreter: "/usr/bin/env"}},
		"..x":          {want: Entrypoint{Path: at("..x")}},
		"nothing":      {err: `the repository holds no file "nothing"`},
		"gone":         {err: `the repository holds no file "gone"`},
		"text/x":       {err: `the repository holds no file "text/x"`},
		"bin":          {err: `the entrypoint "bin" cannot be used: it is a directory, not a regular file`},
		"dir":          {err: `the entrypoint "dir" cannot be used: it is a directory, not a regular file`},
		"out":          {err: `the entrypoint "out" cannot be used: `},
		"up":           {err: `the entrypoint "up" cannot be used: `},
		"loop":         {err: `the entrypoint "loop" cannot be used: `},
		"../outputs":   {err: `the entrypoint "../outputs" is not the path of a file in the repository`},
		"a/../../x":    {err: `the entrypoint "a/../../x" is not the path of a file in the repository`},
		"/bin/sh":      {err: `the entrypoint "/bin/sh" is not the path of a file in the repository`},
		".git/config":  {err: `the entrypoint ".git/config" is not the path of a file in the repository`},
		"./.git/index": {err: `the entrypoint "./.git/index" is not the path of a file in the repository`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := d.Entrypoint(name)
			if (err == nil) != (tc.err == "") || (err != nil && !strings.HasPrefix(err.Error(), tc.err)) {
				t.Fatalf("want error %q, got %v", tc.err, err)
			}
			if diff := cmp.Diff(tc.want, got); err == nil && diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
