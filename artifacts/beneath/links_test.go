//go:build unix

package beneath_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"kruntimes.io/kruntimes/artifacts/beneath"
)

func TestLinks(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{os.WriteFile(at("file"), nil, 0o600), syscall.Mkfifo(at("pipe"), 0o600), os.Link(at("file"), at("other"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]uint64{"file": 2, "pipe": 1} {
		info, err := os.Lstat(at(name))
		if err != nil {
			t.Fatal(err)
		}
		if got := beneath.Links(info); got != want {
			t.Errorf("%s: want %d, got %d", name, want, got)
		}
	}
}
