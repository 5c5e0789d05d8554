package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// unprivileged is a user to whom rights matter, as they do to runtimed in a Pod.
const unprivileged = 65532

// asUnprivileged calls f as a user who is not root: in this process, or in a child that has this test to itself.
func asUnprivileged(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	if os.Getuid() != 0 {
		f(t)
		return
	}
	dir, err := os.MkdirTemp("", "unprivileged") //nolint:usetesting // t.TempDir lies where nobody but root may enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	binary := filepath.Join(dir, "test")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(self)
	if err = errors.Join(err, os.WriteFile(binary, text, 0o755), os.Chown(dir, unprivileged, unprivileged)); err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), binary, "-test.run=^"+t.Name()+"$", "-test.v")
	child.Dir, child.Env = dir, []string{"TMPDIR=" + dir}
	child.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: unprivileged, Gid: unprivileged}}
	output, err := child.CombinedOutput()
	if err != nil || !strings.Contains(string(output), "--- PASS: "+t.Name()) {
		t.Errorf("as user %d: %v\n%s", unprivileged, err, output)
	}
}

// own are all the directories and files that runtimed makes for a workspace, the volume first.
var own = []string{
	".", "persistent", "persistent/ws", "persistent/ws/.kruntimes", "persistent/ws/.kruntimes/runs",
	".kruntimes", ".kruntimes/workspaces", ".kruntimes/workspaces/ws",
}

// setModes gives what is there of own a mode, whatever it had.
func (s *scene) setModes(mode fs.FileMode) {
	s.t.Helper()
	set := func(name string, mode fs.FileMode) {
		if err := os.Chmod(filepath.Join(s.path, name), mode); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.t.Fatal(err)
		}
	}
	for _, name := range own {
		set(name, ownerRights)
	}
	for _, name := range slices.Backward(own) {
		set(name, mode)
	}
}

// TestRightsAreGivenBack takes rights from everything that is runtimed's own: the workspace can still be used, what is in it
// stays, and it can be removed.
func TestRightsAreGivenBack(t *testing.T) {
	asUnprivileged(t, func(t *testing.T) {
		for _, mode := range []fs.FileMode{0, 0o100, 0o400, 0o500, 0o600, 0o077} {
			t.Run(fmt.Sprintf("%#o", mode), func(t *testing.T) {
				s := newScene(t)
				defer s.setModes(ownerRights)
				stage(t, s.prepare("ws", "1"))
				s.write("persistent/ws/file", "text")
				s.prepare("other", "2")
				s.setModes(mode)
				w := s.prepare("ws", "1")
				stage(t, w)
				s.setModes(ownerRights)
				if got := s.read("persistent/ws/file"); got != "text" {
					t.Errorf("what was in the workspace is %q", got)
				}
				s.setModes(mode)
				if names, err := s.volume.Names(); err != nil || len(names) != 2 {
					t.Errorf("names: %v, %v", names, err)
				}
				s.setModes(mode)
				s.remove("ws")
				s.setModes(ownerRights)
				if s.exists("persistent/ws") || s.exists(".kruntimes/workspaces/ws") || !s.exists("persistent/other") {
					t.Error("too little or too much was removed")
				}
			})
		}
	})
}

func stage(t *testing.T, w *Workspace) {
	t.Helper()
	staged, err := w.Stage("run")
	if err == nil {
		err = errors.Join(staged.Root.WriteFile("script", nil, 0o600), staged.Root.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestTheLongestName uses and removes a workspace whose name is as long as the API allows.
func TestTheLongestName(t *testing.T) {
	s := newScene(t)
	name := strings.Repeat("n", 253)
	s.prepare(name, "1")
	s.write(filepath.Join("persistent", name, "file"), "text")
	s.prepare(name, "2")
	if s.exists(filepath.Join("persistent", name, "file")) {
		t.Error("a successor holds files of the one before")
	}
	s.write(".kruntimes/workspaces/.removed-3", "of one who was killed")
	s.remove(name)
	for _, in := range []string{"persistent", ".kruntimes/workspaces"} {
		if left, err := os.ReadDir(filepath.Join(s.path, in)); err != nil || len(left) > 0 {
			t.Errorf("left in %s: %v, %v", in, left, err)
		}
	}
}
