package gitsource

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/google/go-cmp/cmp"

	"kruntimes.io/kruntimes/test/gitserver"
)

// answering answers with a status, a content type and a body.
func answering(status int, kind, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

func TestFailures(t *testing.T) {
	const notGit = ": the server does not speak the protocol of git"
	refs := newHistory()
	cases := map[string]struct {
		handler  http.Handler
		revision string
		want     string
	}{
		"an unknown branch":       {refs, "nope", ` at nope: there is no branch or tag "nope"`},
		"an unknown reference":    {refs, "refs/heads/nope", ` at refs/heads/nope: there is no branch or tag "refs/heads/nope"`},
		"a short commit id":       {refs, refs.third.String()[:10], ` at ` + refs.third.String()[:10] + `: there is no branch or tag "` + refs.third.String()[:10] + `"; a commit id must be written in full, with 40 digits`},
		"an unknown commit":       {refs, strings.Repeat("1", 40), " at " + strings.Repeat("1", 40) + ": there is no commit " + strings.Repeat("1", 40) + " on any branch or tag"},
		"a tag of a directory":    {refs, "tree", " at tree: the revision is a tree, not a commit"},
		"an empty repository":     {gitserver.New(), "", ": the repository is empty"},
		"no repository":           {http.NotFoundHandler(), "", ": there is no git repository at this URL (404)"},
		"a private repository":    {answering(401, "text/plain", "secret"), "", ": the repository does not exist or is not public: the server asks for credentials (401), and credentials are not supported in this version"},
		"a forbidden repository":  {answering(403, "text/plain", ""), "", ": the repository does not exist or is not public: the server asks for credentials (403), and credentials are not supported in this version"},
		"a broken server":         {answering(500, "text/plain", ""), "", ": the server answers with 500 Internal Server Error"},
		"a web page":              {answering(200, "text/html", "<html>"), "", ": the URL is not that of a git repository: the server answers with text/html"},
		"nonsense":                {answering(200, advertisementType, "<html>"), "", notGit},
		"nonsense in lines":       {answering(200, advertisementType, "000ahello\n0000"), "", notGit},
		"nothing":                 {answering(200, advertisementType, ""), "", ": the repository is empty"},
		"half a list":             {answering(200, advertisementType, "003f"+strings.Repeat("1", 40)+" refs/heads/main\x00x\n"), "", ": the server ended its answer early"},
		"an error of the server":  {answering(200, advertisementType, "0021ERR access denied\x1b[31m, sorry\n"), "", ": the server says: access denied [31m, sorry"},
		"objects named otherwise": {answering(200, advertisementType, "0056"+strings.Repeat("1", 64)+" refs/heads/main\x00x\n0000"), "", ": the repository names its objects by SHA-256, which is not supported"},
		"no default branch": {
			func() http.Handler {
				r := newHistory()
				r.Head = "refs/heads/gone"
				return r
			}(), "", ": the repository has no default branch: set spec.source.git.revision",
		},
		"an unknown commit of a server that hands out everything": {
			func() http.Handler {
				r := newHistory()
				r.AllowAny = true
				return r
			}(), strings.Repeat("1", 40),
			" at " + strings.Repeat("1", 40) + ": the server has no commit " + strings.Repeat("1", 40) +
				", or does not hand it out: upload-pack: not our ref " + strings.Repeat("1", 40),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, fetchFrom(t, tc.handler, tc.revision).message()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestAddresses tries URLs that are refused before anybody is asked, and such that nobody answers at.
func TestAddresses(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	const ssh = ": ssh needs a key, and credentials are not supported in this version: use the https URL of a public repository"
	const https = ": the URL must start with https://"
	cases := map[string]string{
		"ssh://git@example.com/a.git":     "could not use ssh://git@example.com/a.git" + ssh,
		"ssh://example.com:22/a.git":      "could not use ssh://example.com:22/a.git" + ssh,
		"http://example.com/a.git":        "could not use http://example.com/a.git" + https,
		"file:///etc":                     "could not use file:///etc" + https,
		"git://example.com/a":             "could not use git://example.com/a" + https,
		"ext::sh -c touch":                "could not use ext::sh -c touch" + https,
		"HTTPS://example.com/a":           "could not use https://example.com/a" + https,
		"/etc":                            "could not use /etc" + https,
		"git@example.com:a/b.git":         "could not use the URL: this is not a URL",
		"https://":                        "could not use https:: the URL names no host",
		"https://u:secret@example.com/a":  "could not use https://u:xxxxx@example.com/a: credentials are not supported in this version: leave the user name and password out of the URL",
		"https://example.com/a?b=c":       "could not use https://example.com/a?b=c: the URL must end with the path of the repository, without ? and #",
		"https://example.com/a#b":         "could not use https://example.com/a#b: the URL must end with the path of the repository, without ? and #",
		"https://" + closed + "/a.git":    "could not fetch https://" + closed + "/a.git: the host cannot be reached: dial tcp " + closed + ": connect: connection refused",
		"https://example.com/a\x00--help": "could not use the URL: this is not a URL",
	}
	for address, want := range cases {
		t.Run(address, func(t *testing.T) {
			t.Parallel()
			got := fetch(t, Options{}, Source{URL: address})
			if got.err == nil || got.err.Error() != want {
				t.Errorf("want %q, got %v", want, got.err)
			}
		})
	}
}

func TestUntrustedServer(t *testing.T) {
	server := gitserver.Start(t, newHistory())
	other := gitserver.Start(t, newHistory())
	pool := filepath.Join(t.TempDir(), "none")
	if err := os.WriteFile(pool, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string]string{"nobody is trusted": pool, "somebody else is": other.CAFile} {
		t.Run(name, func(t *testing.T) {
			got := fetch(t, Options{Env: []string{"SSL_CERT_FILE=" + file, "SSL_CERT_DIR=/nonexistent"}}, Source{URL: server.URL + "/r.git"})
			if want := ": the server's certificate is not trusted: x509: "; file == pool && !strings.HasPrefix(got.message(), want) {
				t.Errorf("want %q, got %v", want, got.err)
			}
			if file != pool && got.err != nil {
				t.Errorf("test servers share one certificate, yet: %v", got.err)
			}
		})
	}
}

// stalling answers with the references of r, tells that it was asked for objects, and then never ends.
func stalling(t *testing.T, r *gitserver.Repository) (*gitserver.Server, <-chan struct{}) {
	asked := make(chan struct{}, 1)
	server := gitserver.Start(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if strings.HasSuffix(req.URL.Path, "/info/refs") {
			r.ServeHTTP(w, req)
			return
		}
		w.Header().Set("Content-Type", resultType)
		_, _ = io.WriteString(w, "00000008NAK\n000e\x01PACK\x00\x00\x00\x02")
		w.(http.Flusher).Flush()
		asked <- struct{}{}
		<-req.Context().Done()
	}))
	return server, asked
}

func TestCancel(t *testing.T) {
	server, asked := stalling(t, newHistory().Repository)
	path := t.TempDir()
	dir, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dir.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := NewFetcher(opts(server)).Fetch(ctx, dir, Source{URL: server.URL + "/r.git"})
		ended <- err
	}()
	await(t, asked)
	cancel()
	if err := await(t, ended); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	// The child is gone, so nobody writes there any more.
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

func await[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	timer := time.NewTimer(deadline)
	defer timer.Stop()
	select {
	case v := <-c:
		return v
	case <-timer.C:
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

func TestTimeout(t *testing.T) {
	server, _ := stalling(t, newHistory().Repository)
	o := opts(server)
	o.Timeout = 2 * time.Second
	if diff := cmp.Diff(": not done after 2s", fetch(t, o, Source{URL: server.URL + "/r.git"}).message()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestOrphan takes a child's parent away.
func TestOrphan(t *testing.T) {
	server, asked := stalling(t, newHistory().Repository)
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dir.Close() }()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", Subcommand)
	cmd.Env, cmd.ExtraFiles = opts(server).Env, []*os.File{dir}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := json.NewEncoder(stdin).Encode(request{Source: Source{URL: server.URL + "/r.git"}}); err != nil {
		t.Fatal(err)
	}
	await(t, asked)
	if err := stdin.Close(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if err := await(t, ended); err != nil {
		t.Errorf("got %v", err)
	}
}

func TestChildProcess(t *testing.T) {
	child := func(name string) Options {
		return Options{Command: []string{"/proc/self/exe", name}, Env: []string{"SSL_CERT_FILE=/ca"}}
	}
	t.Setenv("SECRET", "secret")
	got := fetch(t, child("tell"), Source{URL: "https://example.com/r.git"})
	if want := "/ HOME= PATH= GOMAXPROCS=2 SSL_CERT_FILE=/ca"; !strings.HasPrefix(got.commit, want) || strings.Contains(got.commit, "secret") {
		t.Errorf("want %q, got %q, %v", want, got.commit, got.err)
	}
	for name, want := range map[string]string{
		"hog": ": the repository is too large: unpacking it takes too much memory",
		"die": ": the process that fetches ended early: exit status 7 ouch [31m",
	} {
		if diff := cmp.Diff(want, fetch(t, child(name), Source{URL: "https://example.com/r.git"}).message()); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
	got = fetch(t, Options{Command: []string{"/nonexistent"}}, Source{URL: "https://example.com/r.git"})
	if want := ": starting the process that fetches: "; !strings.HasPrefix(got.message(), want) {
		t.Errorf("want %q, got %v", want, got.err)
	}
}

// TestParallel bounds the children: with one slot, the second checkout waits until the first is cancelled.
func TestParallel(t *testing.T) {
	server, asked := stalling(t, newHistory().Repository)
	o := opts(server)
	o.Parallel = 1
	f := NewFetcher(o)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 2)
	for range 2 {
		dir, err := os.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = dir.Close() }()
		go func() {
			_, err := f.Fetch(ctx, dir, Source{URL: server.URL + "/r.git"})
			ended <- err
		}()
	}
	await(t, asked)
	if n := len(f.slots); n != 1 {
		t.Errorf("%d checkouts at once", n)
	}
	cancel()
	for range 2 {
		if err := await(t, ended); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
}

func TestSafeReference(t *testing.T) {
	for name, want := range map[string]bool{
		"refs/heads/main": true, "refs/heads/a/b": true, "refs/heads/ä": true, `refs/heads/a"b`: true,
		"refs/heads/../x": false, "refs/heads/.x": false, "refs/heads/x.lock": false, "refs/heads/a b": false, "HEAD": false,
		"refs/heads/a\nb": false, "refs/heads//a": false, "refs/heads/a.": false, "refs/heads/a@{1}": false, `refs/heads/a\b`: false,
	} {
		if got := safeReference(name); got != want {
			t.Errorf("%q: want %v, got %v", name, want, got)
		}
	}
	f := facts{source: Source{URL: "https://x/y"}, want: wanted{reference: "refs/heads/../../x"}, commit: plumbing.ZeroHash}
	if head := f.files()[".git/HEAD"]; head != plumbing.ZeroHash.String()+"\n" {
		t.Errorf("an unsafe branch became the HEAD %q", head)
	}
}
