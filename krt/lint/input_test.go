package lint

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kruntimes.io/kruntimes/krt/cli"
)

func TestWhatIsInADocument(t *testing.T) {
	item := func(line string) string {
		return strings.ReplaceAll(line, "WR", "apiVersion: workflows.kruntimes.io/v1alpha1, kind: WorkflowRun")
	}
	run := func(term string) string {
		return "apiVersion: kruntimes.io/v1alpha1\nkind: Run\nmetadata: {name: a}\nspec:\n  runtime: sh\n  source: {inline: x}\n  affinity:\n" +
			"    runAffinity:\n      requiredDuringSchedulingIgnoredDuringExecution:\n      - topologyKey: kruntimes.io/runtime-pod\n        labelSelector:\n" + term
	}
	cases := map[string]struct{ content, want string }{
		"calls, which are looked at with all files": {
			workflowRun("  name: ci\n", "    a: {uses: w}\n    b: {runs-on: sh, steps: [{name: s, uses: act}]}\n"), "",
		},
		"a list": {
			item("apiVersion: v1\nkind: List\nitems:\n- {WR, metadata: {name: a}, spec: {jobs: {a: {runs-on: sh, steps: [{name: s, run: x}]}}}}\n" +
				"- {WR, metadata: {name: b}, spec: {jobs: {a: {runs-on: sh, steps: [{name: s, rum: x}]}}}}\n- apiVersion: v1\n  kind: ConfigMap\n- 5\n"),
			"f:5:128: spec.jobs[a].steps[0]: a step has either run or uses, the name of an Action\n" +
				"f:5:138: unknown field \"rum\": did you mean \"run\"?\n" +
				"f:8:3: a manifest is a mapping with apiVersion, kind and more, and this is none\n",
		},
		"a list of one kind": {
			"apiVersion: workflows.kruntimes.io/v1alpha1\nkind: WorkflowRunList\nitems:\n- apiVersion: workflows.kruntimes.io/v1alpha1\n  kind: WorkflwRun\n",
			"f:5:9: there is no kind \"WorkflwRun\": did you mean \"WorkflowRun\"?\n",
		},
		"a list without items":  {"apiVersion: v1\nkind: List\n", "f:1:1: a List needs items, a list of manifests that are written out: nothing in it was checked\n"},
		"a list within a list":  {"kind: List\napiVersion: v1\nitems:\n- kind: List\n  apiVersion: v1\n  items: []\n", "f:4:3: a list within a list is not looked into: move its items to the list around it\n"},
		"too many documents":    {strings.Repeat("---\nkind: a\napiVersion: v1\n", maxDocuments+1), "f:30002:1: the file has more than 10000 documents: split it into several\n"},
		"a selector's operator": {run("          matchExpressions: [{key: a, operator: Nope}]\n"), "f:12:49: spec.affinity.runAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector.matchExpressions[0].operator: not a valid selector operator\n"},
		"a selector's label": {run("          matchLabels: {a b: c}\n"), "f:12:11: spec.affinity.runAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector.matchLabels: " +
			"name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character " +
			"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')\n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, lines(t, tc.content)); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

// A pipe that somebody names is read, and given up on ctrl-C; one that happens to lie in a directory is left alone.
func TestPipes(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe.yaml")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := invoke(t, "", "-f", dir)
	if err == nil || err.Error() != pipe+" is no regular file, and was not checked" || cli.ExitCode(err) != cli.ExitUsage {
		t.Errorf("a pipe in a directory: got error %v", err)
	}
	if _, err := invoke(t, "", "-f", "/dev/null"); err == nil || err.Error() != "/dev/null is neither a file nor a directory" {
		t.Errorf("a device: got error %v", err)
	}

	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, _, err := CheckFile(ctx, nil, pipe)
		done <- err
	}()
	cancel()
	expectEnd(t, done, context.Canceled)

	release, err := os.OpenFile(pipe, os.O_RDWR, 0) // does not wait, and lets go of whoever does
	if err != nil {
		t.Fatal(err)
	}
	defer release.Close()

	named := filepath.Join(dir, "named")
	if err := syscall.Mkfifo(named, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		_, findings, err := CheckFile(t.Context(), nil, named)
		if len(findings) != 1 {
			err = errors.Join(err, errors.New("want one finding"))
		}
		done <- err
	}()
	if err := os.WriteFile(named, []byte("kind: [\n"), 0); err != nil { // waits for a reader
		t.Error(err)
	}
	expectEnd(t, done, nil)
}

func expectEnd(t *testing.T, done <-chan error, want error) {
	t.Helper()
	select {
	case err := <-done:
		if !errors.Is(err, want) {
			t.Errorf("got error %v, want %v", err, want)
		}
	case <-time.After(time.Minute):
		t.Fatal("it goes on reading")
	}
}

// ctrl-C ends krt also while it takes a large file apart.
func TestTakingApartIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	documents, _ := split(ctx, "f", []byte(strings.Repeat("kind: a\n---\n", 100)))
	if len(documents) != 0 {
		t.Errorf("got %d documents", len(documents))
	}
}
