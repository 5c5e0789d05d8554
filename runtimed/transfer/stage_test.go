package transfer

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/artifacts"
)

// desk is a working directory with a private one in it, as in a workspace.
type desk struct {
	dir           string
	work, private *os.Root
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{dir: filepath.Join(t.TempDir(), "work")}
	private := filepath.Join(d.dir, ".kruntimes/runs/u")
	if err := os.MkdirAll(private, 0o755); err != nil {
		t.Fatal(err)
	}
	for at, root := range map[string]**os.Root{d.dir: &d.work, private: &d.private} {
		opened, err := os.OpenRoot(at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = opened.Close() })
		*root = opened
	}
	return d
}

func (d *desk) stage(ctx context.Context, s *scene, namespace types.UID, inputs ...corev1alpha1.ArtifactInput) error {
	return s.mover().Stage(ctx, Staging{NamespaceUID: namespace, Inputs: inputs, Work: d.work, Private: d.private})
}

// tree is what lies in the working directory and beside it: texts of files, "->" and target of links, "/" for directories
// that are empty. Nothing may be left in the private directory.
func (d *desk) tree(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	root := filepath.Dir(d.dir)
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(root, path)
		if err = errors.Join(err, relErr); err != nil || rel == "." {
			return err
		}
		rel = strings.TrimPrefix(rel, "work/")
		switch {
		case e.IsDir():
			if entries, err := os.ReadDir(path); err != nil || len(entries) > 0 {
				return err
			}
			found[rel] = "/"
		case e.Type() == fs.ModeSymlink:
			target, err := os.Readlink(path)
			found[rel] = "->" + target
			return err
		case e.Type().IsRegular():
			text, err := os.ReadFile(path)
			found[rel] = string(text)
			return err
		default:
			found[rel] = e.Type().String()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found[".kruntimes/runs/u"] != "/" {
		t.Errorf("the private directory is not empty: %v", found)
	}
	delete(found, ".kruntimes/runs/u")
	return found
}

func input(ref corev1alpha1.ArtifactRef, path string) corev1alpha1.ArtifactInput {
	return corev1alpha1.ArtifactInput{Artifact: ref, Path: path}
}

func TestStage(t *testing.T) {
	s := newScene(t)
	refs := s.collect(map[string]string{"file": "new", "tree/a": "new a", "tree/sub/b": "new b"}, "file", "tree/")
	cases := map[string]struct {
		before map[string]string
		ref    string
		path   string
		want   map[string]string
		err    string
	}{
		"a file": {nil, "file", "f", map[string]string{"f": "new"}, ""},
		"a file below directories that are not there":      {nil, "file", "x/y/ ü", map[string]string{"x/y/ ü": "new"}, ""},
		"a file below a directory that is there":           {map[string]string{"x/z": "old"}, "file", "x/y", map[string]string{"x/y": "new", "x/z": "old"}, ""},
		"a file in place of one":                           {map[string]string{"f": "old"}, "file", "f", map[string]string{"f": "new"}, ""},
		"a file where a directory is":                      {map[string]string{"f/x": "old"}, "file", "f", map[string]string{"f/x": "old"}, `staging "f": "f" is in the way: it is a directory`},
		"a file where a link is":                           {map[string]string{"../out": "old", "f": "->../out"}, "file", "f", map[string]string{"out": "old", "f": "->../out"}, `staging "f": "f" is in the way: it is a symbolic link`},
		"a file below a link":                              {map[string]string{"../out/x": "old", "d": "->../out"}, "file", "d/x", map[string]string{"out/x": "old", "d": "->../out"}, `staging "d/x": d: it is no directory, but a symbolic link: remove it`},
		"a file below a file":                              {map[string]string{"d": "old"}, "file", "d/x", map[string]string{"d": "old"}, `staging "d/x": d: it is no directory, but a file: remove it`},
		"a directory":                                      {nil, "tree", "t", map[string]string{"t/a": "new a", "t/sub/b": "new b"}, ""},
		"a directory below directories that are not there": {nil, "tree", "x/t", map[string]string{"x/t/a": "new a", "x/t/sub/b": "new b"}, ""},
		"a directory is merged": {map[string]string{"t/a": "old a", "t/sub/c": "old c", "t/d": "old d"}, "tree", "t",
			map[string]string{"t/a": "new a", "t/sub/b": "new b", "t/sub/c": "old c", "t/d": "old d"}, ""},
		"a directory where a file is": {map[string]string{"t": "old"}, "tree", "t", map[string]string{"t": "old"}, `staging "t": "t" is in the way: it is a file`},
		"a directory over a link in it, and nothing changes": {map[string]string{"../out/x": "old", "t/a": "old", "t/sub": "->../../out"}, "tree", "t",
			map[string]string{"out/x": "old", "t/a": "old", "t/sub": "->../../out"}, `staging "t": "t/sub" is in the way: it is a symbolic link`},
		"a directory over a link in place of its file": {map[string]string{"../out": "old", "t/sub/b": "->../../../out"}, "tree", "t",
			map[string]string{"out": "old", "t/sub/b": "->../../../out"}, `staging "t": "t/sub/b" is in the way: it is a symbolic link`},
		"the reserved directory": {nil, "file", ".kruntimes/x", map[string]string{}, `staging ".kruntimes/x": the path must not lie below .kruntimes, which is reserved`},
		"a path that climbs":     {nil, "file", "a/../../x", map[string]string{}, `staging "a/../../x": the path must be relative, without '..', '.' or empty parts`},
		"an absolute path":       {nil, "file", "/x", map[string]string{}, `staging "/x": the path must be relative, without '..', '.' or empty parts`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			write(t, d.dir, tc.before)
			err := d.stage(t.Context(), s, namespace, input(refs[tc.ref], tc.path))
			if text := textOf(err); text != tc.err {
				t.Errorf("want error %q, got %q", tc.err, text)
			}
			if diff := cmp.Diff(tc.want, d.tree(t)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	if s.failed.Load() > 0 {
		t.Error("the store is blamed")
	}
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestStageModes(t *testing.T) {
	old := syscall.Umask(0o077)
	t.Cleanup(func() { syscall.Umask(old) })
	s := newScene(t)
	refs := s.collect(map[string]string{"file": "new", "tree/a": "new a"}, "file", "tree/")
	d := newDesk(t)
	if err := d.stage(t.Context(), s, namespace, input(refs["file"], "f"), input(refs["tree"], "t")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{"f": 0o644, "t": fs.ModeDir | 0o755} {
		info, err := os.Lstat(filepath.Join(d.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != want {
			t.Errorf("%s: want mode %s, got %s", name, want, info.Mode())
		}
	}
}

func TestStageOverAPipe(t *testing.T) {
	s, d := newScene(t), newDesk(t)
	refs := s.collect(map[string]string{"file": "new"}, "file")
	if err := syscall.Mkfifo(filepath.Join(d.dir, "f"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := d.stage(t.Context(), s, namespace, input(refs["file"], "f"))
	if want := `staging "f": "f" is in the way: it is a special file`; textOf(err) != want {
		t.Errorf("want %q, got %v", want, err)
	}
}

// TestStageRefuses expects clear words, and nothing under the path.
func TestStageRefuses(t *testing.T) {
	s := newScene(t)
	ref := s.collect(map[string]string{"file": "new"}, "file")["file"]
	at := filepath.Join(s.dir, ref.Location.Filesystem.Path)
	changed := func(change func(r *corev1alpha1.ArtifactRef)) corev1alpha1.ArtifactRef {
		r := *ref.DeepCopy()
		change(&r)
		return r
	}
	cases := map[string]struct {
		ref       corev1alpha1.ArtifactRef
		namespace types.UID
		damage    func() error
		want      string
	}{
		"it belongs to another namespace": {ref: ref, namespace: "another",
			want: `staging "f": artifact "file" belongs to another namespace`},
		"it lies in another kind of store": {ref: changed(func(r *corev1alpha1.ArtifactRef) {
			r.Driver, r.Location = corev1alpha1.ArtifactDriverS3, corev1alpha1.ArtifactLocation{S3: &corev1alpha1.S3Location{Bucket: "b", Key: "runs/" + string(runUID) + "/artifacts/file"}}
		}), want: "not in this artifact store"},
		"its path leads out": {ref: changed(func(r *corev1alpha1.ArtifactRef) {
			r.Location.Filesystem.Path = "runs/" + string(runUID) + "/artifacts/../owner.json"
		}), want: "not in this artifact store"},
		"it does not exist": {ref: changed(func(r *corev1alpha1.ArtifactRef) {
			r.Name, r.Location.Filesystem.Path = "other", "runs/"+string(runUID)+"/artifacts/other"
		}), want: "no such artifact"},
		"its Run is unknown": {ref: changed(func(r *corev1alpha1.ArtifactRef) {
			r.Location.Filesystem.Path = "runs/00000000-0000-0000-0000-000000000000/artifacts/file"
		}), want: "no such artifact"},
		"its digest is another": {ref: changed(func(r *corev1alpha1.ArtifactRef) {
			r.Digest = "sha256:" + strings.Repeat("0", 64)
		}), want: "the bytes differ"},
		"a file is no archive": {ref: changed(func(r *corev1alpha1.ArtifactRef) { r.Type = corev1alpha1.ArtifactDirectory }),
			want: `staging "f": `},
		"the bytes were changed": {ref: ref, damage: func() error { return os.WriteFile(at, []byte("bad"), 0o600) }, want: "the bytes differ"},
		"the bytes were cut":     {ref: ref, damage: func() error { return os.Truncate(at, 1) }, want: "the bytes differ"},
		"it was removed":         {ref: ref, damage: func() error { return os.Remove(at) }, want: "no such artifact"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.damage != nil {
				if err := tc.damage(); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := os.WriteFile(at, []byte("new"), 0o600); err != nil {
						t.Error(err)
					}
				})
			}
			d := newDesk(t)
			if tc.namespace == "" {
				tc.namespace = namespace
			}
			err := d.stage(t.Context(), s, tc.namespace, input(tc.ref, "f"))
			if !strings.Contains(textOf(err), tc.want) {
				t.Errorf("want %q, got %v", tc.want, err)
			}
			if diff := cmp.Diff(map[string]string{}, d.tree(t)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// breaking is a store whose content breaks off at first, and can only be read.
type breaking struct {
	artifacts.Store
	times int
}

func (b *breaking) Open(ctx context.Context, ref corev1alpha1.ArtifactRef) (io.ReadCloser, error) {
	content, err := b.Store.Open(ctx, ref)
	if err != nil {
		return nil, err
	}
	read := io.Reader(content)
	if b.times--; b.times >= 0 {
		read = io.MultiReader(io.LimitReader(content, 1), failing{})
	}
	return struct {
		io.Reader
		io.Closer
	}{read, content}, nil
}

type failing struct{}

func (failing) Read([]byte) (int, error) {
	return 0, artifacts.NewStoreError("reading", "connection reset", true, nil)
}

func TestStageTriesAgain(t *testing.T) {
	s := newScene(t)
	refs := s.collect(map[string]string{"file": "new", "tree/a": "new a"}, "file", "tree/")
	for _, ref := range refs {
		b := &breaking{Store: s.store, times: 2}
		broken := &scene{t: t, dir: s.dir, store: b, clock: s.clock}
		d := newDesk(t)
		if err := d.stage(t.Context(), broken, namespace, input(ref, "f")); err != nil {
			t.Errorf("%s: %v", ref.Name, err)
		}
		if broken.failed.Load() != 2 {
			t.Errorf("%s: %d failures were told, want 2", ref.Name, broken.failed.Load())
		}
		d.tree(t)
	}
}

// TestStageLeavesNothingHalf ends in the middle of a transfer.
func TestStageLeavesNothingHalf(t *testing.T) {
	s, d := newScene(t), newDesk(t)
	ref := s.collect(map[string]string{"file": "new"}, "file")["file"]
	ctx, cancel := context.WithCancel(t.Context())
	s.store = &cancelling{Store: s.store, cancel: cancel}
	if err := d.stage(ctx, s, namespace, input(ref, "f")); err == nil {
		t.Error("it was staged")
	}
	if _, err := os.Lstat(filepath.Join(d.dir, "f")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something is there: %v", err)
	}
}

// cancelling is a store whose content ends its reader in the middle, and then goes on.
type cancelling struct {
	artifacts.Store
	cancel func()
}

func (c *cancelling) Open(ctx context.Context, ref corev1alpha1.ArtifactRef) (io.ReadCloser, error) {
	content, err := c.Store.Open(ctx, ref)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(io.LimitReader(content, 1), &calling{c.cancel}, content), content}, nil
}

type calling struct{ call func() }

func (c *calling) Read([]byte) (int, error) {
	c.call()
	return 0, io.EOF
}

// TestStageBounds stages more than this runtimed takes, though the store holds it: read, and copied from file to file.
func TestStageBounds(t *testing.T) {
	s := newScene(t)
	ref := s.collect(map[string]string{"file": strings.Repeat("x", 1000)}, "file")["file"]
	for name, store := range map[string]artifacts.Store{"copied": s.store, "read": &breaking{Store: s.store}} {
		mover := (&scene{t: t, dir: s.dir, store: store, clock: s.clock}).mover()
		mover.Limits.MaxBytes = 999
		d := newDesk(t)
		err := mover.Stage(t.Context(), Staging{
			NamespaceUID: namespace, Inputs: []corev1alpha1.ArtifactInput{input(ref, "f")}, Work: d.work, Private: d.private,
		})
		if want := `staging "f": it has more than 999 bytes`; textOf(err) != want {
			t.Errorf("%s: want %q, got %v", name, want, err)
		}
		if diff := cmp.Diff(map[string]string{}, d.tree(t)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}
