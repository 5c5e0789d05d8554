package lint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"kruntimes.io/kruntimes/krt/cli"
)

// workflowRun is a manifest with the given metadata and jobs.
func workflowRun(metadata, jobs string) string {
	return "apiVersion: workflows.kruntimes.io/v1alpha1\nkind: WorkflowRun\nmetadata:\n" + metadata + "spec:\n  jobs:\n" + jobs
}

const build = "    build: {runs-on: sh, outputs: {tag: {value: x}}, steps: [{name: a, run: make}]}\n"

func TestDeclaredOutputs(t *testing.T) {
	cases := map[string]struct{ metadata, want string }{
		"right ones": {metadata: "  name: ci\n  annotations:\n    kruntimes.io/workflow-output.tag: ${{ jobs.build.outputs.tag }}\n    other: ${{ x }}\n"},
		"wrong ones": {
			metadata: "  name: ci\n  annotations:\n    kruntimes.io/workflow-output.tag: v ${{ jobs.build.outputs.tga }}\n" +
				"    kruntimes.io/workflow-output.job: |\n      one\n      two ${{ jobs.biuld.outputs.tag }}\n    kruntimes.io/workflow-output.a.b: x\n",
			want: `f:6:41: metadata.annotations[kruntimes.io/workflow-output.tag]: ${{ jobs.build.outputs.tga }}: job "build" has no output "tga": did you mean "tag"?
f:9:11: metadata.annotations[kruntimes.io/workflow-output.job]: ${{ jobs.biuld.outputs.tag }}: "biuld" is not a job of this WorkflowRun: did you mean "build"?
f:10:39: metadata.annotations[kruntimes.io/workflow-output.a.b]: the name of an output must be letters, digits, '-' and '_', with a letter or digit at both ends, up to 47 characters
`,
		},
		"wrong ones beside metadata that is none": {
			metadata: "  name: 5\n",
			want:     "f:3:1: metadata: must be a mapping of names to texts, labels and more\n",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, lines(t, workflowRun(tc.metadata, build))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// lines are the findings in a file, one on each.
func lines(t *testing.T, content string) string {
	t.Helper()
	_, findings, err := CheckContent(t.Context(), "f", []byte(content))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range findings {
		b.WriteString(f.String() + "\n")
	}
	return b.String()
}

// The rest of too many errors is counted where the last of them is, not at the start of the definition.
func TestManyErrorsAreCounted(t *testing.T) {
	jobs := ""
	for i := range 130 {
		jobs += fmt.Sprintf("    j%03d: {runs-on: sh, needs: [nope], steps: [{name: a, run: make}]}\n", i)
	}
	got := strings.Split(strings.TrimSpace(lines(t, workflowRun("  name: ci\n", jobs)+"---\n"+workflowRun("  name: Wrong\n", build))), "\n")
	if len(got) != 102 {
		t.Fatalf("%d findings, want 102:\n%s", len(got), strings.Join(got, "\n"))
	}
	want := []string{
		`f:105:33: spec.jobs[j098].needs[0]: "nope" is not a job of this WorkflowRun`,
		`f:105:33: and 31 more errors`,
	}
	if diff := cmp.Diff(want, got[99:101]); diff != "" {
		t.Errorf("the last ones (-want +got):\n%s", diff)
	}
	if !strings.HasPrefix(got[101], "f:141:9: metadata.name: ") {
		t.Errorf("of the next document: %s", got[101])
	}
}

func TestALargeDefinitionIsOneFinding(t *testing.T) {
	jobs := ""
	for i := range 100 {
		jobs += fmt.Sprintf("    j%03d: {runs-on: sh, needs: [nope], steps: [{name: a, run: %q}]}\n", i, strings.Repeat("x", 8<<10))
	}
	got := lines(t, workflowRun("  name: Ci\n", jobs))
	if !strings.HasPrefix(got, "f:5:1: spec: the definition has ") || strings.Count(got, "\n") != 1 {
		t.Errorf("got %s", got)
	}
}

func TestALargeFileIsOneFinding(t *testing.T) {
	file := filepath.Join(t.TempDir(), "large.yaml")
	if err := os.WriteFile(file, []byte(strings.Repeat("- a: [\n", maxFile/7+1)), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := invoke(t, "", "-f", file)
	if want := file + ":1:1: the file has more than 16 MiB: split it into several\n"; out != want || cli.ExitCode(err) != cli.ExitFailed {
		t.Errorf("error %v, findings %s", err, out)
	}
}

func TestAFindingDoesNothingToATerminal(t *testing.T) {
	got := lines(t, "apiVersion: workflows.kruntimes.io/v1alpha1\nkind: \"Work\\e[2Jflow\"\n")
	if want := "f:2:7: there is no kind \"Work\\x1b[2Jflow\": "; !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want it to begin with %q", got, want)
	}
}

// ctrl-C ends krt also while it reads what nobody writes.
func TestReadingIsInterrupted(t *testing.T) {
	in, writer := io.Pipe()
	defer writer.Close()
	f := &cli.Factory{IO: genericiooptions.IOStreams{In: in, Out: io.Discard, ErrOut: io.Discard}, Name: "krt"}
	cmd := NewCmd(f, nil)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs([]string{"-f", "-"})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- cmd.ExecuteContext(ctx) }()
	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got error %v, want %v", err, context.Canceled)
		}
	case <-time.After(time.Minute):
		t.Fatal("it goes on reading")
	}
}
