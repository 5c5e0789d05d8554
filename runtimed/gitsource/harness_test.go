package gitsource

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kruntimes.io/kruntimes/test/gitserver"
)

// deadline bounds everything that a test waits for.
const deadline = time.Minute

// TestMain makes this executable the child process, too, and some that behave otherwise.
func TestMain(m *testing.M) {
	if len(os.Args) != 2 || !slices.Contains([]string{Subcommand, "tell", "hog", "die"}, os.Args[1]) {
		os.Exit(m.Run())
	}
	switch os.Args[1] {
	case Subcommand:
		ctx, cancel := contextWithDeadline()
		err := Serve(ctx, os.Stdin, os.Stdout)
		cancel()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "tell": // what it finds
		dir, _ := os.Getwd()
		_ = json.NewEncoder(os.Stdout).Encode(answer{Commit: dir + " " + strings.Join(os.Environ(), " ")})
	case "hog": // more memory than it may take
		confine(Limits{Memory: 64 << 20})
		held := make([]byte, 1<<30)
		for i := 0; i < len(held); i += 4096 {
			held[i] = 1
		}
		_ = json.NewEncoder(os.Stdout).Encode(answer{Commit: "nothing stopped it"})
	case "die":
		fmt.Fprintln(os.Stderr, "ouch\x1b[31m\nmore")
		os.Exit(7)
	}
}

// fetched is what a checkout left.
type fetched struct {
	path   string
	commit string
	err    error
}

// opts are those of a Fetcher that trusts server.
func opts(server *gitserver.Server) Options {
	return Options{Env: []string{"SSL_CERT_FILE=" + server.CAFile}}
}

// fetch checks out into a new directory.
func fetch(t *testing.T, o Options, source Source) fetched {
	t.Helper()
	path := t.TempDir()
	dir, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dir.Close() }()
	commit, err := NewFetcher(o).Fetch(t.Context(), dir, source)
	return fetched{path: path, commit: commit, err: err}
}

// fetchFrom serves handler and checks revision out.
func fetchFrom(t *testing.T, handler http.Handler, revision string) fetched {
	t.Helper()
	server := gitserver.Start(t, handler)
	return fetch(t, opts(server), Source{URL: server.URL + "/r.git", Revision: revision})
}

// message is the error of f without the address of the server, which changes.
func (f fetched) message() string {
	if f.err == nil {
		return ""
	}
	_, what, _ := strings.Cut(f.err.Error(), "/r.git")
	return what
}

// files lists all below a directory but .git: files with their mode and content, links with their target.
func files(t *testing.T, path string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(path, func(at string, d fs.DirEntry, err error) error {
		if err != nil || at == path {
			return err
		}
		name, _ := filepath.Rel(path, at)
		if name == ".git" {
			return fs.SkipDir
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		content := ""
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			content, err = os.Readlink(at)
		case info.Mode().IsRegular():
			var data []byte
			data, err = os.ReadFile(at)
			content = string(data)
		}
		found[name] = info.Mode().String() + " " + content
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
