package runtimed

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/test/envtest/cluster"
	"kruntimes.io/kruntimes/test/gitserver"
)

// fromGit is a Run of a file of a repository.
func fromGit(url, revision, entrypoint string, args ...string) corev1alpha1.RunSpec {
	return corev1alpha1.RunSpec{
		Source: &corev1alpha1.RunSource{Git: &corev1alpha1.GitSource{URL: url, Revision: revision}},
		Mode:   corev1alpha1.RunMode{Task: &corev1alpha1.TaskMode{Entrypoint: entrypoint, Args: args}},
	}
}

// program tells how it was started, and whether git would be content.
const program = `
test "$PWD" = "$KRUNTIME_WORKSPACE" && test -e .git/index && test -e lib/name
printf 'name=%s\nargs=%s\n' "$(cat lib/name)" "$*" >>"$KRUNTIME_OUTPUTS"
if command -v git >/dev/null; then
	test -z "$(git status --porcelain)"
	echo change >>lib/name && git -c user.name=t -c user.email=t commit -q -a -m change
fi
`

func repositoryOfPrograms() *gitserver.Repository {
	r := gitserver.New()
	lib := r.Tree(gitserver.Entry{Mode: gitserver.File, Name: "name", ID: r.Blob("value\n")})
	r.References["refs/heads/main"] = r.Commit(r.Tree(
		gitserver.Entry{Mode: gitserver.Executable, Name: "direct", ID: r.Blob("#!/bin/sh -e\n" + program)},
		gitserver.Entry{Mode: gitserver.Directory, Name: "lib", ID: lib},
		gitserver.Entry{Mode: gitserver.Executable, Name: "no-such", ID: r.Blob("#!/no/such/interpreter\n")},
		gitserver.Entry{Mode: gitserver.Link, Name: "out", ID: r.Blob("/bin/true")},
		gitserver.Entry{Mode: gitserver.File, Name: "plain", ID: r.Blob(program)},
	))
	return r
}

func TestGitSource(t *testing.T) {
	server := gitserver.Start(t, repositoryOfPrograms())
	t.Setenv("SSL_CERT_FILE", server.CAFile)
	n := startNode(t)
	url := server.URL + "/r.git"
	ran := succeeded(map[string]corev1alpha1.OutputValue{"name": "value", "args": "a b  c"})
	source := func(message string) outcome {
		return outcome{Phase: corev1alpha1.RunFailed, Reason: corev1alpha1.RunReasonSourceFailed, Message: message}
	}
	cases := map[string]struct {
		spec corev1alpha1.RunSpec
		want outcome
	}{
		"executable":       {fromGit(url, "", "direct", "a", "b  c"), ran},
		"interpreted":      {fromGit(url, "main", "plain", "a", "b  c"), ran},
		"no interpreter":   {fromGit(url, "", "no-such"), outcome{Phase: corev1alpha1.RunFailed, Reason: corev1alpha1.RunReasonInterpreterNotFound, Message: `The interpreter "/no/such/interpreter" does not exist in the Runtime's image, or cannot be executed`}},
		"no entrypoint":    {fromGit(url, "", "lib/nothing"), source(`The repository holds no file "lib/nothing"`)},
		"leaves":           {fromGit(url, "", "out"), source(`The entrypoint "out" cannot be used: statat out: path escapes from parent`)},
		"unknown revision": {fromGit(url, "nope", "plain"), source("Could not fetch " + url + ` at nope: there is no branch or tag "nope"`)},
	}
	t.Run("all", func(t *testing.T) {
		for name, tc := range cases {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				run := awaitEnd(t, n.submit(t, strings.ReplaceAll(name, " ", "-"), tc.spec))
				if diff := cmp.Diff(tc.want, outcomeOf(run)); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			})
		}
	})
	n.awaitClean(t)
	t.Logf("resident memory after the checkouts: %d KiB", resident(t, n.runtimed))
}

// TestGitSourceIsCancelled asks for the end of a Run whose repository never arrives.
func TestGitSourceIsCancelled(t *testing.T) {
	asked := make(chan struct{}, 2)
	r := repositoryOfPrograms()
	server := gitserver.Start(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if strings.HasSuffix(req.URL.Path, "/info/refs") {
			r.ServeHTTP(w, req)
			return
		}
		w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
		_, _ = io.WriteString(w, "00000008NAK\n")
		w.(http.Flusher).Flush()
		asked <- struct{}{}
		<-req.Context().Done()
	}))
	t.Setenv("SSL_CERT_FILE", server.CAFile)
	n := startNode(t)
	run := n.submit(t, "run", fromGit(server.URL+"/r.git", "", "plain"))
	timer := time.NewTimer(cluster.Deadline)
	defer timer.Stop()
	select {
	case <-asked:
	case <-timer.C:
		t.Fatal("nobody fetches")
	}
	requestCancel(t, run)
	want := outcome{Phase: corev1alpha1.RunCancelled, Reason: corev1alpha1.RunReasonCancelled, Message: "Cancelled before the execution started"}
	if diff := cmp.Diff(want, outcomeOf(awaitEnd(t, run))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	n.awaitClean(t)
}
