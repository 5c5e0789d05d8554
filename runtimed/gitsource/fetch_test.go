package gitsource

import (
	"net/http"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/google/go-cmp/cmp"

	"kruntimes.io/kruntimes/test/gitserver"
)

// history is a repository with three commits, and references of all kinds to them.
type history struct {
	*gitserver.Repository
	first, second, third, note plumbing.Hash
}

func newHistory() history {
	r := gitserver.New()
	tree := func(content string) plumbing.Hash {
		return r.Tree(gitserver.Entry{Mode: gitserver.File, Name: "a", ID: r.Blob(content)})
	}
	h := history{Repository: r}
	h.first = r.Commit(tree("1"))
	h.second = r.Commit(tree("2"), h.first)
	h.third = r.Commit(tree("3"), h.second)
	h.note = r.Tag("v2", "commit", h.second)
	nested := r.Tag("v2-again", "tag", h.note)
	r.References = map[string]plumbing.Hash{
		"refs/heads/main": h.third, "refs/heads/release/1": h.second, "refs/heads/both": h.third, "refs/tags/both": h.second,
		"refs/tags/v2": h.note, "refs/tags/v2-again": nested, "refs/tags/light": h.second, "refs/pull/1/head": h.second,
		"refs/heads/" + h.second.String(): h.third, "refs/tags/tree": r.Tag("tree", "tree", tree("1")),
	}
	return h
}

func TestRevisions(t *testing.T) {
	h := newHistory()
	cases := map[string]struct {
		revision string
		want     plumbing.Hash
		head     string
	}{
		"the default branch":          {"", h.third, "ref: refs/heads/main"},
		"HEAD":                        {"HEAD", h.third, "ref: refs/heads/main"},
		"a branch":                    {"release/1", h.second, "ref: refs/heads/release/1"},
		"a branch before a tag":       {"both", h.third, "ref: refs/heads/both"},
		"a tag by its full name":      {"refs/tags/both", h.second, h.second.String()},
		"a tag":                       {"light", h.second, h.second.String()},
		"an annotated tag":            {"v2", h.second, h.second.String()},
		"a tag of a tag":              {"v2-again", h.second, h.second.String()},
		"a reference that is neither": {"refs/pull/1/head", h.second, h.second.String()},
		"a commit":                    {h.third.String(), h.third, h.third.String()},
		"a commit in capitals":        {strings.ToUpper(h.third.String()), h.third, h.third.String()},
		"a commit, although a branch has its name": {h.second.String(), h.second, h.second.String()},
		"a commit that no branch or tag points to": {h.first.String(), h.first, h.first.String()},
	}
	for kind, change := range map[string]func(r *gitserver.Repository){
		"a server that hands out what it names": func(*gitserver.Repository) {},
		"a server that hands out everything":    func(r *gitserver.Repository) { r.AllowAny = true },
		"a server without shallow clones":       func(r *gitserver.Repository) { r.Deep = true },
	} {
		h := newHistory()
		change(h.Repository)
		server := gitserver.Start(t, h)
		for name, tc := range cases {
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				got := fetch(t, opts(server), Source{URL: server.URL + "/r.git", Revision: tc.revision})
				if got.err != nil {
					t.Fatal(got.err)
				}
				if got.commit != tc.want.String() {
					t.Errorf("want commit %s, got %s", tc.want, got.commit)
				}
				if head := strings.TrimSpace(read(t, got.path+"/.git/HEAD")); head != tc.head {
					t.Errorf("want HEAD %q, got %q", tc.head, head)
				}
				content := map[plumbing.Hash]string{h.first: "1", h.second: "2", h.third: "3"}[tc.want]
				if diff := cmp.Diff(map[string]string{"a": "-rw-r--r-- " + content}, files(t, got.path)); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			})
		}
	}
}

// TestFiles checks out every kind of entry.
func TestFiles(t *testing.T) {
	r := gitserver.New()
	large := strings.Repeat("all work and no play\n", 1<<16)
	sub := r.Tree(
		gitserver.Entry{Mode: gitserver.File, Name: ".gitattributes", ID: r.Blob("* text eol=crlf filter=evil\n")},
		gitserver.Entry{Mode: gitserver.File, Name: "large", ID: r.Blob(large)},
		gitserver.Entry{Mode: gitserver.File, Name: "larger", ID: r.Blob(large + "x")},
	)
	r.References["refs/heads/main"] = r.Commit(r.Tree(
		gitserver.Entry{Mode: gitserver.File, Name: ".gitmodules", ID: r.Blob("[submodule \"m\"]\n\tpath = m\n\turl = https://example.com/m\n")},
		gitserver.Entry{Mode: "100664", Name: "group", ID: r.Blob("")},
		gitserver.Entry{Mode: gitserver.Link, Name: "in", ID: r.Blob("s/large")},
		gitserver.Entry{Mode: gitserver.Submodule, Name: "m", ID: plumbing.NewHash(strings.Repeat("1", 40))},
		gitserver.Entry{Mode: gitserver.Link, Name: "out", ID: r.Blob("/etc/passwd")},
		gitserver.Entry{Mode: gitserver.Directory, Name: "s", ID: sub},
		gitserver.Entry{Mode: gitserver.Directory, Name: "t", ID: sub},
		gitserver.Entry{Mode: gitserver.Executable, Name: "Ärger \"quoted\"", ID: r.Blob("#!/bin/sh\n")},
	))
	got := fetchFrom(t, r, "")
	if got.err != nil {
		t.Fatal(got.err)
	}
	const dir, file, link = "drwxr-xr-x ", "-rw-r--r-- ", "Lrwxrwxrwx "
	want := map[string]string{
		".gitmodules": file + "[submodule \"m\"]\n\tpath = m\n\turl = https://example.com/m\n", "Ärger \"quoted\"": "-rwxr-xr-x #!/bin/sh\n",
		"group": file, "in": link + "s/large", "out": link + "/etc/passwd", "m": dir, "s": dir, "t": dir,
		"s/.gitattributes": file + "* text eol=crlf filter=evil\n", "s/large": file + large, "s/larger": file + large + "x",
		"t/.gitattributes": file + "* text eol=crlf filter=evil\n", "t/large": file + large, "t/larger": file + large + "x",
	}
	if diff := cmp.Diff(want, files(t, got.path)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	checkWithGit(t, got)
}

func TestRedirects(t *testing.T) {
	h := newHistory()
	mux := http.NewServeMux()
	mux.Handle("/new/r.git/", h)
	to := func(target string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, target+r.URL.Path[strings.Index(r.URL.Path, "/info"):]+"?"+r.URL.RawQuery, http.StatusMovedPermanently)
		}
	}
	mux.Handle("/old/r.git/info/refs", to("/new/r.git"))
	mux.Handle("/plain/r.git/info/refs", to("http://127.0.0.1:1/x"))
	mux.Handle("/git/r.git/info/refs", to("git://127.0.0.1/x"))
	mux.Handle("/file/r.git/info/refs", to("file:///etc"))
	mux.Handle("/loop/r.git/info/refs", to("/loop/r.git"))
	mux.Handle("/user/r.git/info/refs", to("https://a:b@127.0.0.1/x"))
	mux.Handle("/login/r.git/info/refs", http.RedirectHandler("/login", http.StatusFound))
	mux.Handle("/post/r.git/info/refs", h)
	mux.Handle("/post/r.git/git-upload-pack", http.RedirectHandler("/new/r.git/git-upload-pack", http.StatusTemporaryRedirect))
	server := gitserver.Start(t, mux)
	cases := map[string]string{
		"/old":   "",
		"/plain": ": the server redirects to http://127.0.0.1:1/x/info/refs?service=git-upload-pack, which is not followed: only https is",
		"/git":   ": the server redirects to git://127.0.0.1/x/info/refs?service=git-upload-pack, which is not followed: only https is",
		"/file":  ": the server redirects to file:///etc/info/refs?service=git-upload-pack, which is not followed: only https is",
		"/user":  ": the server redirects to https://a:xxxxx@127.0.0.1/x/info/refs?service=git-upload-pack, which is not followed: only https is",
		"/loop":  ": the server redirects too often",
		"/login": ": the server redirects to " + server.URL + "/login, which is not a repository",
		"/post":  ": the server redirects to " + server.URL + "/new/r.git/git-upload-pack, which is not a repository",
	}
	for path, want := range cases {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			got := fetch(t, opts(server), Source{URL: server.URL + path + "/r.git"})
			if diff := cmp.Diff(want, got.message()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if want == "" && got.commit != h.third.String() {
				t.Errorf("got commit %s", got.commit)
			}
		})
	}
}
