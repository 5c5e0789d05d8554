package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// scene is a volume and what lies beside it.
type scene struct {
	t      *testing.T
	volume *Volume
	path   string
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{t: t, path: filepath.Join(t.TempDir(), "workspace")}
	s.must(os.Mkdir(s.path, 0o700))
	s.must(os.Mkdir(filepath.Join(s.path, "..", "outside"), 0o700))
	s.write("../outside/kept", "kept")
	v, err := Open(s.path)
	s.must(err)
	s.volume = v
	t.Cleanup(func() {
		s.must(v.Close())
		if got := s.read("../outside/kept"); got != "kept" {
			t.Errorf("what lies outside was changed: %q", got)
		}
	})
	return s
}

func (s *scene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) write(name, text string) {
	s.t.Helper()
	s.must(os.WriteFile(filepath.Join(s.path, name), []byte(text), 0o600))
}

// read returns the text of a file, or an empty one where there is none.
func (s *scene) read(name string) string {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.path, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.t.Fatal(err)
	}
	return string(text)
}

func (s *scene) prepare(name, uid string) *Workspace {
	s.t.Helper()
	w, err := s.volume.Prepare(name, uid)
	s.must(err)
	s.t.Cleanup(func() { _ = w.Close() })
	return w
}

// remove removes a workspace, in whose way nothing lies.
func (s *scene) remove(name string) {
	s.t.Helper()
	obstacle, err := s.volume.Remove(name)
	s.must(errors.Join(obstacle, err))
}

func (s *scene) exists(name string) bool {
	s.t.Helper()
	_, err := os.Lstat(filepath.Join(s.path, name))
	return err == nil
}

func TestPrepareKeepsWhatIsThere(t *testing.T) {
	s := newScene(t)
	w := s.prepare("a.b-c", "1")
	if want := filepath.Join(s.path, "persistent/a.b-c"); w.Path != want {
		t.Errorf("want %s, got %s", want, w.Path)
	}
	s.write("persistent/a.b-c/file", "text")
	s.prepare("a.b-c", "1")
	s.prepare("other", "2")
	if got := s.read("persistent/a.b-c/file"); got != "text" {
		t.Errorf("got %q", got)
	}
	names, err := s.volume.Names()
	s.must(err)
	if diff := cmp.Diff([]string{"a.b-c", "other"}, names); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestASuccessorOfTheSameNameStartsEmpty(t *testing.T) {
	s := newScene(t)
	s.prepare("ws", "1")
	s.write("persistent/ws/secret", "of the first")
	s.prepare("ws", "2")
	if s.exists("persistent/ws/secret") {
		t.Error("the second workspace holds files of the first")
	}
	s.must(os.RemoveAll(filepath.Join(s.path, ".kruntimes"))) // nobody knows whose directory it is
	s.write("persistent/ws/secret", "of the second")
	s.prepare("ws", "2")
	if s.exists("persistent/ws/secret") {
		t.Error("files of an unknown owner were kept")
	}
}

// TestFirstRunsRace prepares a workspace from many sides at once, after another one of its name.
func TestFirstRunsRace(t *testing.T) {
	s := newScene(t)
	s.prepare("ws", "0")
	var all sync.WaitGroup
	errs := make([]error, 32)
	for i := range errs {
		all.Go(func() {
			w, err := s.volume.Prepare("ws", "1")
			if err == nil {
				err = w.root.WriteFile(fmt.Sprint(i), nil, 0o600)
			}
			errs[i] = err
		})
	}
	all.Wait()
	s.must(errors.Join(errs...))
	entries, err := os.ReadDir(filepath.Join(s.path, "persistent/ws"))
	s.must(err)
	if len(entries) != len(errs) {
		t.Errorf("%d of %d files are there", len(entries), len(errs))
	}
}

func TestRemoveRemovesExactlyTheDirectory(t *testing.T) {
	s := newScene(t)
	s.remove("never-there")
	s.prepare("ws", "1")
	s.prepare("ws-2", "2")
	s.write("persistent/ws-2/file", "text")
	s.write("own", "the volume's")
	s.must(os.Symlink("../ws-2", filepath.Join(s.path, "persistent/ws/neighbour")))
	s.must(os.Symlink("../../../outside", filepath.Join(s.path, "persistent/ws/out")))
	s.must(syscall.Mkfifo(filepath.Join(s.path, "persistent/ws/pipe"), 0o600))
	s.must(os.MkdirAll(filepath.Join(s.path, "persistent/ws", strings.Repeat("d/", 300)), 0o700))
	s.must(os.Chmod(filepath.Join(s.path, "persistent/ws/d/d"), 0o500))
	s.must(os.Chmod(filepath.Join(s.path, "persistent/ws"), 0))
	s.remove("ws")
	s.remove("ws")
	if s.exists("persistent/ws") || s.exists(".kruntimes/workspaces/ws") {
		t.Error("something of the workspace is left")
	}
	if s.read("persistent/ws-2/file") != "text" || s.read("own") != "the volume's" || s.read(".kruntimes/workspaces/ws-2") != "2\n" {
		t.Error("something else was removed")
	}
	if left, err := os.ReadDir(filepath.Join(s.path, "persistent")); err != nil || len(left) != 1 {
		t.Errorf("left: %v (%v)", left, err)
	}
}

// TestRemoveGoesOn removes what an earlier removal left behind when it was killed.
func TestRemoveGoesOn(t *testing.T) {
	s := newScene(t)
	s.prepare("ws", "1")
	s.must(os.MkdirAll(filepath.Join(s.path, "persistent/.removed-x/d"), 0o700))
	s.remove("ws")
	if left, err := os.ReadDir(filepath.Join(s.path, "persistent")); err != nil || len(left) > 0 {
		t.Errorf("left: %v (%v)", left, err)
	}
}

// TestPlantedLinks replaces every directory on the way by a link to somewhere else. Nothing is prepared then; a removal comes
// to its end, and tells what is in the way of directories above that of the workspace.
func TestPlantedLinks(t *testing.T) {
	cases := map[string]struct {
		link, target string
		obstacle     string
	}{
		"persistent leads out":               {"persistent", "../outside", "persistent: it is no directory, but a symbolic link: remove it"},
		"persistent leads in":                {"persistent", "other", "persistent: it is no directory, but a symbolic link: remove it"},
		"the workspace leads out":            {"persistent/ws", "../../outside", ""},
		"the workspace leads to another one": {"persistent/ws", "victim", ""},
		"the owners lead out":                {".kruntimes", "../outside", ".kruntimes: it is no directory, but a symbolic link: remove it"},
		"an owner leads out":                 {".kruntimes/workspaces/ws", "../../../outside/kept", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.must(os.Mkdir(filepath.Join(s.path, "other"), 0o700))
			s.prepare("ws", "1")
			s.prepare("victim", "2")
			s.write("persistent/victim/file", "text")
			planted := filepath.Join(s.path, tc.link)
			s.must(os.RemoveAll(planted))
			s.must(os.Symlink(tc.target, planted))
			w, err := s.volume.Prepare("ws", "1")
			if err == nil {
				s.must(w.root.WriteFile("new", nil, 0o600))
				s.must(w.Close())
			}
			// A planted owner is no obstacle; other links are told.
			if isOwner := strings.HasSuffix(tc.link, "workspaces/ws"); (err == nil) != isOwner {
				t.Errorf("preparing it: %v", err)
			}
			s.removeDespite(tc.obstacle)
			if s.exists("../outside/new") || s.exists("other/ws") || s.exists("persistent/victim/new") {
				t.Error("something was made elsewhere")
			}
			if tc.link != "persistent" {
				if got := s.read("persistent/victim/file"); got != "text" {
					t.Errorf("the other workspace was changed: %q", got)
				}
			}
		})
	}
}

// removeDespite removes the workspace ws, in whose way something may lie.
func (s *scene) removeDespite(want string) {
	s.t.Helper()
	obstacle, err := s.volume.Remove("ws")
	s.must(err)
	got := ""
	if obstacle != nil {
		got = obstacle.Error()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.t.Errorf("what is in the way (-want +got):\n%s", diff)
	}
}

// TestPlantedFiles puts files and pipes in the place of directories, as TestPlantedLinks does with links.
func TestPlantedFiles(t *testing.T) {
	for _, at := range []string{"persistent", ".kruntimes", ".kruntimes/workspaces", "persistent/ws"} {
		for kind, plant := range map[string]func(string) error{
			"file": func(at string) error { return os.WriteFile(at, nil, 0o600) },
			"FIFO": func(at string) error { return syscall.Mkfifo(at, 0o600) },
		} {
			t.Run(at+" "+kind, func(t *testing.T) {
				s := newScene(t)
				s.prepare("ws", "1")
				s.must(os.Rename(filepath.Join(s.path, at), filepath.Join(s.path, "moved")))
				s.must(plant(filepath.Join(s.path, at)))
				obstacle := at + ": it is no directory, but a " + kind + ": remove it"
				if at == "persistent/ws" {
					obstacle = "ws: it is no directory, but a " + kind + ": remove it"
				}
				if _, err := s.volume.Prepare("ws", "1"); err == nil || err.Error() != "preparing workspace ws: "+obstacle {
					t.Errorf("preparing it: %v", err)
				}
				if at == "persistent/ws" {
					obstacle = "" // it is removed
				}
				s.removeDespite(obstacle)
				if !s.exists("moved") {
					t.Error("what was moved away is removed")
				}
			})
		}
	}
}

func TestStage(t *testing.T) {
	s := newScene(t)
	w := s.prepare("ws", "1")
	staged := func() []string {
		names, err := w.Staged()
		s.must(err)
		return names
	}
	if got := staged(); len(got) > 0 {
		t.Errorf("staged: %v", got)
	}
	s.must(w.Unstage("never-there"))
	one, err := w.Stage("run-1")
	s.must(err)
	if want := filepath.Join(s.path, "persistent/ws/.kruntimes/runs/run-1"); one.Path != want {
		t.Errorf("want %s, got %s", want, one.Path)
	}
	s.must(one.Root.WriteFile("outputs", []byte("of the first attempt"), 0o600))
	two, err := w.Stage("run-2")
	s.must(err)
	again, err := w.Stage("run-1")
	s.must(err)
	if s.exists("persistent/ws/.kruntimes/runs/run-1/outputs") {
		t.Error("a second attempt sees what the first one has left")
	}
	s.must(again.Root.WriteFile("outputs", []byte("a=b"), 0o600))
	reopened, err := s.volume.Reopen("ws")
	s.must(err)
	back, err := reopened.Restage("run-1")
	s.must(err)
	if text, err := back.Root.ReadFile("outputs"); err != nil || string(text) != "a=b" {
		t.Errorf("got %q, %v", text, err)
	}
	if diff := cmp.Diff([]string{"run-1", "run-2"}, staged()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	s.write("persistent/ws/shared", "text")
	s.must(w.Unstage("run-1"))
	if diff := cmp.Diff([]string{"run-2"}, staged()); diff != "" || s.read("persistent/ws/shared") != "text" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, root := range []*os.Root{one.Root, two.Root, again.Root, back.Root} {
		s.must(root.Close())
	}
	s.must(reopened.Close())
}

// TestStageRefusesLinks plants a link where runtimed stages.
func TestStageRefusesLinks(t *testing.T) {
	for _, link := range []string{".kruntimes", ".kruntimes/runs"} {
		for _, target := range []string{"../../../outside", "../victim", "inside", "/"} {
			s := newScene(t)
			w := s.prepare("ws", "1")
			s.prepare("victim", "2")
			s.must(os.MkdirAll(filepath.Join(w.Path, "inside"), 0o700))
			s.must(os.MkdirAll(filepath.Dir(filepath.Join(w.Path, link)), 0o700))
			s.must(os.Symlink(target, filepath.Join(w.Path, link)))
			if _, err := w.Stage("run"); err == nil || !strings.Contains(err.Error(), link) || !strings.Contains(err.Error(), "remove it") {
				t.Errorf("%s -> %s: %v", link, target, err)
			}
			if err := w.Unstage("run"); err == nil {
				t.Errorf("%s -> %s: no error", link, target)
			}
		}
	}
}
