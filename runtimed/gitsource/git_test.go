package gitsource

import (
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kruntimes.io/kruntimes/test/gitserver"
)

// git runs git, which must succeed, in dir.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{
		"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t",
		"GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t", "LC_ALL=C",
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// hasGit tells whether git is there; what it says is checked in addition.
func hasGit() bool {
	_, err := exec.LookPath("git")
	return err == nil
}

// checkWithGit asks git what it thinks of a checkout.
func checkWithGit(t *testing.T, got fetched) {
	t.Helper()
	if !hasGit() {
		return
	}
	if out := git(t, got.path, "status", "--porcelain", "--untracked-files=all", "--ignored"); out != "" {
		t.Errorf("git status says:\n%s", out)
	}
	// Without a second look at the content: what the index says of the files is right as well.
	if out := git(t, got.path, "diff-files", "--name-only"); out != "" {
		t.Errorf("git diff-files says:\n%s", out)
	}
	git(t, got.path, "fsck", "--full", "--no-dangling")
	if head := strings.TrimSpace(git(t, got.path, "rev-parse", "HEAD")); head != got.commit {
		t.Errorf("git takes %s for HEAD, want %s", head, got.commit)
	}
}

// TestServerOfGit fetches from git's own server.
func TestServerOfGit(t *testing.T) {
	if !hasGit() {
		t.Skip("git is not installed; the other tests speak to a server of their own")
	}
	backend := filepath.Join(strings.TrimSpace(git(t, t.TempDir(), "--exec-path")), "git-http-backend")
	if _, err := os.Stat(backend); err != nil {
		t.Skip("git has no http-backend")
	}
	root := t.TempDir()
	work := filepath.Join(root, "work")
	git(t, root, "init", "-q", "-b", "trunk", work)
	for i := range 20 { // enough that git packs differences
		name := filepath.Join(work, "dir", "f"+strings.Repeat("x", i))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(strings.Repeat("a line that all of them have\n", 500+i)), 0o644); err != nil {
			t.Fatal(err)
		}
		git(t, work, "add", ".")
		git(t, work, "commit", "-q", "-m", "m")
	}
	git(t, work, "tag", "-a", "-m", "m", "v1", "HEAD~3")
	git(t, work, "branch", "feature/x", "HEAD~1")
	git(t, root, "clone", "-q", "--bare", work, "r.git")
	handler := &cgi.Handler{Path: backend, Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1"}}
	server := gitserver.Start(t, handler)
	old := strings.TrimSpace(git(t, work, "rev-parse", "HEAD~10"))
	for name, tc := range map[string]struct{ revision, commit string }{
		"the default branch": {"", "HEAD"},
		"a branch":           {"feature/x", "HEAD~1"},
		"an annotated tag":   {"v1", "HEAD~3"},
		"an old commit":      {old, "HEAD~10"},
	} {
		t.Run(name, func(t *testing.T) {
			got := fetch(t, opts(server), Source{URL: server.URL + "/r.git", Revision: tc.revision})
			if got.err != nil {
				t.Fatal(got.err)
			}
			if want := strings.TrimSpace(git(t, work, "rev-parse", tc.commit)); got.commit != want {
				t.Errorf("want commit %s, got %s", want, got.commit)
			}
			checkWithGit(t, got)
			shallow := git(t, got.path, "rev-list", "--count", "HEAD") == "1\n"
			if want := tc.revision != old; shallow != want {
				t.Errorf("shallow: want %v, got %v", want, shallow)
			}
			if name == "a branch" {
				if out := git(t, got.path, "status", "-sb"); out != "## feature/x...origin/feature/x\n" {
					t.Errorf("got %q", out)
				}
			}
		})
	}
	got := fetch(t, opts(server), Source{URL: server.URL + "/r.git", Revision: strings.Repeat("1", 40)})
	if want := ": there is no commit"; !strings.Contains(got.message(), want) {
		t.Errorf("want %q, got %v", want, got.err)
	}
}
