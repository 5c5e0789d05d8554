package devcluster

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"
)

// put makes files, with their directories, below dir.
func put(t *testing.T, dir string, contentByName map[string]string) {
	t.Helper()
	for name, content := range contentByName {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// filesIn returns the content of all files below dir by name, without the marks of this package.
func filesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || slices.Contains([]string{markName, ownerName, "lock"}, entry.Name()) {
			return err
		}
		content, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, dir+"/")] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestADirectoryOfSomebodyElseIsLeftAlone holds names that a cluster uses too.
func TestADirectoryOfSomebodyElseIsLeftAlone(t *testing.T) {
	cases := map[string]map[string]string{
		"a project":               {"logs/app.log": "mine", "pki/ca.key": "mine", "up.log": "mine"},
		"a file":                  {"notes": "mine"},
		"a state of unknown kind": {"state.json": `{"sockets":"/"}`, "lock": ""},
	}
	for name, content := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			put(t, dir, content)
			before := filesIn(t, dir)
			var notOurs *NotOursError
			if _, err := takeStateDir(dir); !errors.As(err, &notOurs) || notOurs.Dir != dir {
				t.Errorf("got error %v, want a NotOursError", err)
			}
			if cleaned, err := Clean(t.Context(), dir, clock.RealClock{}); cleaned || err != nil {
				t.Errorf("Clean() = %t, %v", cleaned, err)
			}
			if diff := cmp.Diff(before, filesIn(t, dir)); diff != "" {
				t.Errorf("files (-before +after):\n%s", diff)
			}
			if _, err := os.Lstat(filepath.Join(dir, markName)); err == nil {
				t.Error("the directory was marked")
			}
		})
	}
}

func TestADirectoryIsClaimedOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	if err := Claim(dir); err != nil {
		t.Fatalf("a new directory: %v", err)
	}
	put(t, dir, map[string]string{"up.log": "words"})
	if err := Claim(dir); err != nil {
		t.Errorf("a directory of ours: %v", err)
	}
	if diff := cmp.Diff(map[string]string{"up.log": "words"}, filesIn(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// TestOnlyDirectoriesOfOursAreRemoved writes into the state what may have been written by anybody.
func TestOnlyDirectoriesOfOursAreRemoved(t *testing.T) {
	parent := t.TempDir()
	t.Setenv("TMPDIR", parent)
	if socketParent() != parent {
		parent = "/tmp"
	}
	state := t.TempDir()
	ours, err := makeSocketDir(state)
	if err != nil {
		t.Fatal(err)
	}
	others, err := makeSocketDir("/another/state")
	if err != nil {
		t.Fatal(err)
	}
	unmarked, err := makeSocketDir(state)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(unmarked, ownerName)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _, _ = os.RemoveAll(ours), os.RemoveAll(others), os.RemoveAll(unmarked) })
	victim := t.TempDir()
	put(t, victim, map[string]string{ownerName: state})
	link := filepath.Join(parent, "krt-0")
	if err := os.Symlink(victim, link); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(link) })
	cases := map[string]struct {
		path string
		want bool
	}{
		"none":                       {},
		"that of this cluster":       {path: ours, want: true},
		"that of another cluster":    {path: others},
		"one of the same name":       {path: unmarked},
		"one elsewhere":              {path: victim},
		"a link to one elsewhere":    {path: link},
		"a way round":                {path: ours + "/../../" + strings.TrimPrefix(victim, "/")},
		"the root of the filesystem": {path: "/"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := isSocketDir(tc.path, state); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
	put(t, state, map[string]string{"state.json": `{"sockets":"` + victim + `"}`})
	if _, err := prepareStateDir(state); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{}, filesIn(t, victim)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(filepath.Join(victim, ownerName)); err != nil {
		t.Errorf("a directory of somebody else was emptied: %v", err)
	}
}

func TestCleanRemovesWhatAKilledClusterLeft(t *testing.T) {
	state := t.TempDir()
	if cleaned, err := Clean(t.Context(), filepath.Join(state, "none"), clock.RealClock{}); cleaned || err != nil {
		t.Errorf("without a directory: Clean() = %t, %v", cleaned, err)
	}
	release, err := takeStateDir(state)
	if err != nil {
		t.Fatal(err)
	}
	sockets, err := makeSocketDir(state)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(sockets) })
	put(t, state, map[string]string{"pki/ca.key": "secret", "etcd/db": "data", "kubeconfig": "secret", "logs/etcd.log": "words", "up.log": "words"})
	// A part that takes its time, and a process that only has the number of one.
	part := exec.Command("sh", "-c", "sleep 0.3; :", state+"/pki")
	if err := part.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = part.Wait()
	}()
	if err := writeStateFile(state, State{PID: 1, Sockets: sockets, Parts: []Part{{Name: "part", PID: part.Process.Pid}, {Name: "gone", PID: os.Getppid()}}}); err != nil {
		t.Fatal(err)
	}
	var running *RunningError
	if _, err := Clean(t.Context(), state, clock.RealClock{}); !errors.As(err, &running) {
		t.Errorf("while the cluster runs: %v, want a RunningError", err)
	}
	release()
	if cleaned, err := Clean(t.Context(), state, clock.RealClock{}); !cleaned || err != nil {
		t.Fatalf("Clean() = %t, %v", cleaned, err)
	}
	select {
	case <-ended:
	case <-time.After(time.Second): // between its last word and its end
		t.Error("it did not wait for the part")
	}
	if diff := cmp.Diff(map[string]string{"logs/etcd.log": "words", "up.log": "words"}, filesIn(t, state)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(sockets); !os.IsNotExist(err) {
		t.Errorf("the directory for sockets is left: %v", err)
	}
	if cleaned, err := Clean(t.Context(), state, clock.RealClock{}); cleaned || err != nil {
		t.Errorf("the second time: Clean() = %t, %v", cleaned, err)
	}
}
