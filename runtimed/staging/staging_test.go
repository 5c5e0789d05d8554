package staging

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kruntimes.io/kruntimes/runtimed/outputs"
)

const id = "0f8fad5b-d9cb-469f-a165-70867728950e.1"

func openArea(t *testing.T) *Area {
	t.Helper()
	a, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

func create(t *testing.T, a *Area, script string) *Directory {
	t.Helper()
	d, err := a.Create(id, script)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestCreate(t *testing.T) {
	a := openArea(t)
	d := create(t, a, "echo hi\n")
	modes := map[string]os.FileMode{
		d.Script(): 0o500, d.Outputs(): 0o600, d.Artifacts(): os.ModeDir | 0o700,
		d.Work(): os.ModeDir | 0o700, d.Home(): os.ModeDir | 0o700, d.Temp(): os.ModeDir | 0o700,
	}
	for path, want := range modes {
		info, err := os.Lstat(path)
		must(t, err)
		if info.Mode() != want {
			t.Errorf("%s: want mode %v, got %v", path, want, info.Mode())
		}
	}
	text, err := os.ReadFile(d.Script())
	must(t, err)
	if string(text) != "echo hi\n" {
		t.Errorf("got script %q", text)
	}
}

func TestCreateReplacesWhatIsThere(t *testing.T) {
	a := openArea(t)
	first := create(t, a, "one")
	must(t, os.WriteFile(filepath.Join(first.Work(), "left"), []byte("x"), 0o600))
	second := create(t, a, "")
	if _, err := os.Lstat(filepath.Join(second.Work(), "left")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old file is still there: %v", err)
	}
	if _, err := os.Lstat(second.Script()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an execution without source has a script: %v", err)
	}
}

func TestReadOutputs(t *testing.T) {
	cases := map[string]struct {
		script func(t *testing.T, d *Directory)
		want   string
		err    *outputs.Error
	}{
		"untouched": {script: func(*testing.T, *Directory) {}},
		"written": {
			script: func(t *testing.T, d *Directory) { must(t, os.WriteFile(d.Outputs(), []byte("a=b\n"), 0o600)) },
			want:   "a=b\n",
		},
		"replaced by a regular file": {
			script: func(t *testing.T, d *Directory) {
				must(t, os.WriteFile(d.Outputs()+".new", []byte("a=c\n"), 0o600))
				must(t, os.Rename(d.Outputs()+".new", d.Outputs()))
			},
			want: "a=c\n",
		},
		"removed": {
			script: func(t *testing.T, d *Directory) { must(t, os.Remove(d.Outputs())) },
			err:    &outputs.Error{Message: "the outputs file is gone: the script removed or moved it"},
		},
		"the whole directory removed": {
			script: func(t *testing.T, d *Directory) { must(t, os.RemoveAll(filepath.Dir(d.Outputs()))) },
			err:    &outputs.Error{Message: "the outputs file is gone: the script removed or moved it"},
		},
		"the whole directory swapped for a link": {
			script: func(t *testing.T, d *Directory) {
				must(t, os.WriteFile(d.Outputs(), []byte("mine=1\n"), 0o600))
				must(t, os.Rename(filepath.Dir(d.Outputs()), filepath.Dir(d.Outputs())+".moved"))
				must(t, os.Symlink("/etc", filepath.Dir(d.Outputs())))
			},
			want: "mine=1\n",
		},
		"a link to a file of the node": {
			script: func(t *testing.T, d *Directory) {
				must(t, os.Remove(d.Outputs()))
				must(t, os.Symlink("/etc/hostname", d.Outputs()))
			},
			err: &outputs.Error{Message: "the outputs file is a symbolic link, not a regular file"},
		},
		"a link to another file": {
			script: func(t *testing.T, d *Directory) {
				must(t, os.Remove(d.Outputs()))
				must(t, os.Symlink("work", d.Outputs()))
			},
			err: &outputs.Error{Message: "the outputs file is a symbolic link, not a regular file"},
		},
		"a hard link to another file": {
			script: func(t *testing.T, d *Directory) {
				other := filepath.Join(t.TempDir(), "secret")
				must(t, os.WriteFile(other, []byte("password=1\n"), 0o600))
				must(t, os.Remove(d.Outputs()))
				must(t, os.Link(other, d.Outputs()))
			},
			err: &outputs.Error{Message: "the outputs file cannot be read: it has 2 names: a hard link is not read"},
		},
		"a named pipe that nobody writes to": {
			script: func(t *testing.T, d *Directory) {
				must(t, os.Remove(d.Outputs()))
				must(t, syscall.Mkfifo(d.Outputs(), 0o600))
			},
			err: &outputs.Error{Message: "the outputs file is a named pipe, not a regular file"},
		},
		"a directory": {
			script: func(t *testing.T, d *Directory) {
				must(t, os.Remove(d.Outputs()))
				must(t, os.Mkdir(d.Outputs(), 0o700))
			},
			err: &outputs.Error{Message: "the outputs file is a directory, not a regular file"},
		},
		"100 MiB": {
			script: func(t *testing.T, d *Directory) { must(t, os.Truncate(d.Outputs(), 100<<20)) },
			err:    &outputs.Error{TooLarge: true, Message: "the outputs file holds 104857600 bytes, more than 1048576"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := create(t, openArea(t), "")
			tc.script(t, d)
			got, err := d.ReadOutputs()
			var outputsErr *outputs.Error
			if err != nil && !errors.As(err, &outputsErr) {
				t.Fatalf("not an *outputs.Error: %v", err)
			}
			if diff := cmp.Diff(tc.err, outputsErr); diff != "" {
				t.Errorf("-want +got error:\n%s", diff)
			}
			if string(got) != tc.want {
				t.Errorf("want %q, got %q", tc.want, got)
			}
		})
	}
}

func TestRemove(t *testing.T) {
	outside := t.TempDir()
	kept := filepath.Join(outside, "kept")
	must(t, os.WriteFile(kept, []byte("x"), 0o600))
	cases := map[string]func(t *testing.T, d *Directory){
		"untouched": func(*testing.T, *Directory) {},
		"gone":      func(t *testing.T, d *Directory) { must(t, os.RemoveAll(filepath.Dir(d.Work()))) },
		"a link out of the volume": func(t *testing.T, d *Directory) {
			must(t, os.Symlink(outside, filepath.Join(d.Work(), "link")))
		},
		"the directory itself swapped for a link": func(t *testing.T, d *Directory) {
			must(t, os.RemoveAll(filepath.Dir(d.Work())))
			must(t, os.Symlink(outside, filepath.Dir(d.Work())))
		},
		"directories without permissions": func(t *testing.T, d *Directory) {
			deep := filepath.Join(d.Work(), "a", "b", "c")
			must(t, os.MkdirAll(deep, 0o700))
			must(t, os.Symlink(outside, filepath.Join(deep, "link")))
			for _, p := range []string{deep, filepath.Dir(deep), d.Work(), filepath.Dir(d.Work())} {
				must(t, os.Chmod(p, 0))
			}
		},
	}
	for name, leave := range cases {
		t.Run(name, func(t *testing.T) {
			a := openArea(t)
			leave(t, create(t, a, "x"))
			must(t, a.Remove(id))
			names, err := a.Names()
			must(t, err)
			if len(names) != 0 {
				t.Errorf("left: %v", names)
			}
			if _, err := os.Stat(kept); err != nil {
				t.Errorf("a file outside was touched: %v", err)
			}
		})
	}
}

func TestCreateSaysWhatFailed(t *testing.T) {
	a := openArea(t)
	must(t, os.RemoveAll(a.path))
	_, err := a.Create(id, "x")
	if err == nil || !strings.Contains(err.Error(), "making the directory of execution") {
		t.Errorf("got %v", err)
	}
}

func TestSetAside(t *testing.T) {
	a := openArea(t)
	outside := t.TempDir()
	must(t, os.Mkdir(filepath.Join(a.path, id), 0))
	must(t, os.Symlink(outside, filepath.Join(a.path, "link")))
	for _, name := range []string{id, "link"} {
		aside, err := a.SetAside(name)
		must(t, err)
		create(t, a, "x") // under the name that has become free
		again, err := a.SetAside(aside)
		must(t, err)
		if again != aside {
			t.Errorf("%s was set aside twice, as %s", aside, again)
		}
		must(t, a.Remove(aside))
	}
	names, err := a.Names()
	must(t, err)
	if diff := cmp.Diff([]string{id}, names); diff != "" {
		t.Errorf("-want +got names:\n%s", diff)
	}
	if _, err := os.Stat(outside); err != nil {
		t.Errorf("what a link leads to was touched: %v", err)
	}
}

// TestPlace lays out an execution that shares its working directory.
func TestPlace(t *testing.T) {
	work := t.TempDir()
	stage := filepath.Join(work, ".kruntimes", "runs", "u")
	must(t, os.MkdirAll(stage, 0o755))
	must(t, os.WriteFile(filepath.Join(work, "shared"), []byte("text"), 0o600))
	place := func() *Place {
		root, err := os.OpenRoot(stage)
		must(t, err)
		return &Place{Work: work, Stage: stage, Root: root}
	}
	a := openArea(t)
	d, err := a.CreateIn("u.1", "echo", place())
	must(t, err)
	if d.Work() != work || d.Script() != stage+"/script" || d.Outputs() != stage+"/outputs" || d.Artifacts() != stage+"/artifacts" {
		t.Errorf("got %s, %s, %s, %s", d.Work(), d.Script(), d.Outputs(), d.Artifacts())
	}
	private := filepath.Join(a.path, "u.1")
	if d.Home() != private+"/home" || d.Temp() != private+"/tmp" {
		t.Errorf("got %s, %s", d.Home(), d.Temp())
	}
	if _, err := os.Lstat(private + "/work"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it has a working directory of its own: %v", err)
	}
	must(t, d.FillSource(func(dir *os.File) error { return below(dir, "bin/build", "#!/bin/sh\n", 0o755) }))
	entry, err := d.Entrypoint("bin/build")
	must(t, err)
	if want := stage + "/source/bin/build"; entry.Path != want {
		t.Errorf("want %s, got %s", want, entry.Path)
	}
	must(t, os.WriteFile(d.Outputs(), []byte("a=b\n"), 0o600))
	must(t, d.Close())
	d, err = a.Reopen("u.1", place())
	must(t, err)
	if got, err := d.ReadOutputs(); err != nil || string(got) != "a=b\n" {
		t.Errorf("got %q, %v", got, err)
	}
	must(t, d.Close())
	must(t, a.Remove("u.1"))
	if got, err := os.ReadFile(filepath.Join(work, "shared")); err != nil || string(got) != "text" {
		t.Errorf("got %q, %v", got, err)
	}
}
