package state

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func open(t *testing.T, dir, bootID string) *Store {
	t.Helper()
	s, err := Open(dir, bootID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestMarkersSurviveARestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	first := open(t, dir, "boot-1")
	if got := first.Marked(); len(got) != 0 {
		t.Fatalf("a new directory has markers: %v", got)
	}
	for _, id := range []string{"a.1", "b.1", "b.2"} {
		if err := first.Mark(id); err != nil {
			t.Fatal(err)
		}
	}
	if err := first.Mark("a.1"); !errors.Is(err, ErrMarked) {
		t.Errorf("want ErrMarked for the second mark, got %v", err)
	}
	for range 2 {
		if err := first.Unmark("b.1"); err != nil {
			t.Errorf("unmarking: %v", err)
		}
	}
	second := open(t, dir, "boot-1")
	if diff := cmp.Diff([]string{"a.1", "b.2"}, second.Marked()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if err := second.Mark("a.1"); !errors.Is(err, ErrMarked) {
		t.Errorf("want ErrMarked after the restart, got %v", err)
	}
}

func TestBootChanged(t *testing.T) {
	dir := t.TempDir()
	steps := []struct {
		bootID string
		want   bool
		judge  []string
	}{
		{bootID: "boot-1"}, {bootID: "boot-1"}, {bootID: "boot-2", want: true},
		{bootID: "boot-2", want: true, judge: []string{"a.1", "b.2"}}, {bootID: "boot-2"},
	}
	for i, step := range steps {
		s := open(t, dir, step.bootID)
		if got := s.BootChanged(); got != step.want {
			t.Errorf("start %d with %s: want %v, got %v", i, step.bootID, step.want, got)
		}
		if step.judge != nil {
			for range 2 { // what is marked already stays so
				if err := s.Judge(step.judge); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if diff := cmp.Diff([]string{"a.1", "b.2"}, open(t, dir, "boot-2").Marked()); diff != "" {
		t.Errorf("marked (-want +got):\n%s", diff)
	}
}

// TestJudgingWithoutAnotherBootMarksNothing keeps the first list of every restart off the disk.
func TestJudgingWithoutAnotherBootMarksNothing(t *testing.T) {
	dir := t.TempDir()
	if err := open(t, dir, "boot-1").Judge([]string{"a.1"}); err != nil {
		t.Fatal(err)
	}
	if marked := open(t, dir, "boot-1").Marked(); len(marked) > 0 {
		t.Errorf("marked %v", marked)
	}
}

func TestNonce(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, "boot-1")
	for _, want := range []string{"", "first", "second"} {
		if want != "" {
			if err := s.SaveNonce(want); err != nil {
				t.Fatal(err)
			}
		}
		got, err := open(t, dir, "boot-1").Nonce()
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("want %q, got %q", want, got)
		}
	}
	info, err := os.Stat(filepath.Join(dir, nonceFile))
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("want mode 0600, got %o", got)
	}
}

func TestOpenReportsWhatItCannotRead(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, bootIDFile), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, "boot-1"); err == nil {
		t.Error("want an error for a boot-id that is a directory")
	}
}
