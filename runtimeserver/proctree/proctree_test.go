package proctree

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// table makes a proc file system that holds the given processes: pid to parent. With children, it has the files that
// list them.
func table(t *testing.T, parentsByPID map[int]int, children bool) string {
	t.Helper()
	root := t.TempDir()
	childrenByPID := map[int][]string{}
	for pid, parent := range parentsByPID {
		childrenByPID[parent] = append(childrenByPID[parent], fmt.Sprint(pid))
	}
	for pid, parent := range parentsByPID {
		dir := filepath.Join(root, fmt.Sprint(pid))
		put(t, filepath.Join(dir, "stat"), fmt.Sprintf("%d (a) b (c) S %d 1 1 0 -1", pid, parent))
		list := childrenByPID[pid]
		slices.Sort(list)
		// The second thread has all but the first child.
		for i, tid := range []int{pid, pid + 1000} {
			file := filepath.Join(dir, "task", fmt.Sprint(tid), "stat")
			if children {
				some := list[:min(1, len(list))]
				if i == 1 {
					some = list[min(1, len(list)):]
				}
				put(t, filepath.Join(filepath.Dir(file), "children"), strings.Join(some, " ")+" ")
			}
			put(t, file, "")
		}
	}
	if err := os.Symlink("1", filepath.Join(root, "self")); err != nil {
		t.Fatal(err)
	}
	return root
}

func put(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestReader(t *testing.T) {
	parents := map[int]int{1: 0, 10: 1, 11: 1, 12: 1, 20: 10, 21: 11, 30: 21, 40: 2}
	for name, children := range map[string]bool{"by the lists of children": true, "by the parents of all": false} {
		t.Run(name, func(t *testing.T) {
			reader := NewReader(table(t, parents, children))
			if reader.byTask != children {
				t.Fatalf("byTask is %v", reader.byTask)
			}
			got := reader.Children(1)
			slices.Sort(got)
			if diff := cmp.Diff([]int{10, 11, 12}, got); diff != "" {
				t.Errorf("children of 1 (-want +got):\n%s", diff)
			}
			got = reader.Descendants(1)
			if slices.Index(got, 11) > slices.Index(got, 21) || slices.Index(got, 21) > slices.Index(got, 30) {
				t.Errorf("got %v, want parents before children", got)
			}
			slices.Sort(got)
			if diff := cmp.Diff([]int{10, 11, 12, 20, 21, 30}, got); diff != "" {
				t.Errorf("descendants of 1 (-want +got):\n%s", diff)
			}
			got = reader.Descendants(10, 11, 21)
			slices.Sort(got)
			if diff := cmp.Diff([]int{20, 30}, got); diff != "" {
				t.Errorf("descendants of 10, 11 and 21 (-want +got):\n%s", diff)
			}
			if got := reader.Descendants(999); len(got) > 0 {
				t.Errorf("descendants of a process that is gone: %v", got)
			}
		})
	}
}

func TestReaderOfTheRealTable(t *testing.T) {
	child := exec.Command("sleep", "1000")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	})
	for name, reader := range map[string]*Reader{
		"as the kernel offers": NewReader("/proc"), "by the parents of all": {root: "/proc"},
	} {
		if got := reader.Descendants(os.Getpid()); !slices.Contains(got, child.Process.Pid) {
			t.Errorf("%s: got %v, want %d in it", name, got, child.Process.Pid)
		}
	}
}

func TestKill(t *testing.T) {
	reader := NewReader("/proc")
	shell := exec.Command("/bin/sh", "-c", "sleep 1000 & echo; exec sleep 1000")
	output, err := shell.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := output.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	victims := append(reader.Descendants(shell.Process.Pid), shell.Process.Pid)
	reader.KillEach(shell.Process.Pid)
	_ = shell.Wait() // Returns when the last of them closed the pipe.
	if got := shell.ProcessState.String(); got != "signal: killed" || len(victims) != 2 {
		t.Errorf("got %q and %d victims", got, len(victims))
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("12 (sh) S 7 12 12 0"))
	f.Add([]byte("12 (a) R 1 (b)) S 7 12"))
	f.Add([]byte("12 ("))
	f.Fuzz(func(t *testing.T, stat []byte) {
		if state, parent, ok := parseStat(stat); ok && (parent < 0 || len(state) == 0) {
			t.Errorf("got the state %q and the parent %d", state, parent)
		}
	})
}

func TestParseStat(t *testing.T) {
	cases := map[string]struct {
		stat       string
		wantState  string
		wantParent int
		wantOK     bool
	}{
		"a plain name":               {stat: "12 (sh) S 7 12 12 0", wantState: "S", wantParent: 7, wantOK: true},
		"a name that looks like it":  {stat: "12 (sh) S 1 1 1) T 7 12 12 0", wantState: "T", wantParent: 7, wantOK: true},
		"no name":                    {stat: "12 S 7"},
		"cut short":                  {stat: "12 (sh) S"},
		"a parent that is no number": {stat: "12 (sh) S x"},
		"a parent below zero":        {stat: "12 (sh) S -1 0"},
		"nothing":                    {},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			state, parent, ok := parseStat([]byte(c.stat))
			if string(state) != c.wantState || parent != c.wantParent || ok != c.wantOK {
				t.Errorf("got %q, %d, %v, want %q, %d, %v", state, parent, ok, c.wantState, c.wantParent, c.wantOK)
			}
		})
	}
}
