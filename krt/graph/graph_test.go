package graph

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/test/golden"
)

func jobs() map[string]workflowsv1alpha1.Job {
	steps := func(n int) []workflowsv1alpha1.Step { return make([]workflowsv1alpha1.Step, n) }
	return map[string]workflowsv1alpha1.Job{
		"build": {RunsOn: "sh", Steps: steps(3)}, "scan": {RunsOn: "python", Steps: steps(1)},
		"test": {RunsOn: "sh", Needs: []string{"build"}, Steps: steps(2)}, "package": {RunsOn: "sh", Needs: []string{"build"}, Steps: steps(2)},
		"lint": {RunsOn: "sh", Needs: []string{"build"}, Steps: steps(2)}, "deploy": {Uses: "roll-out", Needs: []string{"test", "scan", "package"}},
	}
}

func invoke(t *testing.T, in string, args ...string) (out, errOut string, err error) {
	t.Helper()
	evil := &workflowsv1alpha1.Workflow{ObjectMeta: metav1.ObjectMeta{Name: "evil", Namespace: "team"}}
	evil.Spec.Jobs = map[string]workflowsv1alpha1.Job{
		`a"];x`: {RunsOn: "\x1b[2J<b>`\\", Needs: []string{"nowhere"}, Steps: make([]workflowsv1alpha1.Step, 1)},
		"end":   {Uses: `u"#1;&`, Needs: []string{`a"];x`, `a"];x`}},
	}
	release := &workflowsv1alpha1.Workflow{ObjectMeta: metav1.ObjectMeta{Name: "release", Namespace: "team"}, Spec: workflowsv1alpha1.WorkflowSpec{Jobs: jobs()}}
	run := &workflowsv1alpha1.WorkflowRun{ObjectMeta: metav1.ObjectMeta{Name: "r1", Namespace: "team", UID: "1"}, Spec: workflowsv1alpha1.WorkflowRunSpec{Jobs: jobs()}}
	run.Status = workflowsv1alpha1.WorkflowRunStatus{Phase: workflowsv1alpha1.WorkflowRunning, Jobs: map[string]workflowsv1alpha1.JobStatus{
		"build": {Phase: workflowsv1alpha1.JobSucceeded}, "scan": {Phase: workflowsv1alpha1.JobSucceeded}, "test": {Phase: workflowsv1alpha1.JobSucceeded},
		"package": {Phase: workflowsv1alpha1.JobSucceeded}, "lint": {Phase: workflowsv1alpha1.JobFailed}, "deploy": {Phase: workflowsv1alpha1.JobRunning, WorkflowRunName: "r1-call-deploy"},
	}}
	c := fake.NewClientBuilder().WithScheme(cli.NewScheme()).WithObjects(release, run, evil).Build()
	var stdout, stderr bytes.Buffer
	f := &cli.Factory{IO: genericiooptions.IOStreams{In: strings.NewReader(in), Out: &stdout, ErrOut: &stderr}, Name: "krt",
		Client: func() (client.WithWatch, error) { return c, nil }, Namespace: func() (string, error) { return "team", nil }}
	cmd := NewCmd(f, nil)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(append([]string{}, args...)) // nil would mean those of the test binary
	err = cmd.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

func TestGraphs(t *testing.T) {
	for file, args := range map[string][]string{
		"workflow.txt": {"workflow", "release"}, "workflow.mmd": {"workflow/release", "-o", "mermaid"}, "workflow.dot": {"workflow", "release", "-o", "dot"},
		"workflowrun.txt": {"workflowrun", "r1"}, "workflowrun.mmd": {"wfrun/r1", "-o", "mermaid"}, "workflowrun.dot": {"workflowrun", "r1", "-o", "dot"},
		"evil.txt": {"workflow", "evil"}, "evil.mmd": {"workflow", "evil", "-o", "mermaid"}, "evil.dot": {"workflow", "evil", "-o", "dot"},
	} {
		t.Run(file, func(t *testing.T) {
			out, errOut, err := invoke(t, "", args...)
			if err != nil || errOut != "" {
				t.Fatalf("error %v, stderr %s", err, errOut)
			}
			golden.Check(t, file, out)
		})
	}
}

func TestGraphOfAFile(t *testing.T) {
	const good = "apiVersion: workflows.kruntimes.io/v1alpha1\nkind: WorkflowRun\nmetadata: {generateName: ci-}\nspec:\n  jobs:\n    a: {runs-on: sh, steps: [{name: s, run: x}]}\n    b: {uses: w, needs: [a]}\n"
	const text = "WorkflowRun ci-: 2 jobs in 2 stages\n  1 ─ a  1 step on sh\n     ↓\n  2 ─ b  calls w       needs a\n"
	circle := strings.Replace(good, " a: {", " a: {needs: [b], ", 1)
	cases := map[string]struct {
		in         string
		args       []string
		want       string
		wantErrOut string
		wantErr    string
		wantCode   int
	}{
		"one":                     {in: good, want: text},
		"one beside others":       {in: "apiVersion: v1\nkind: ConfigMap\n---\n" + good, want: text},
		"two":                     {in: good + "---\n" + good, want: text + "\n" + text},
		"two in another language": {in: good + "---\n" + good, args: []string{"-o", "dot"}, wantErr: "-o dot prints one graph, and there are 2", wantCode: cli.ExitUsage},
		"one that is wrong": {in: circle, want: "WorkflowRun ci-: 2 jobs in 2 stages\n  1 ─ a  1 step on sh  needs b\n     ↓\n  2 ─ b  calls w       needs a\n",
			wantErrOut: "krt: <stdin> is not valid: see what is wrong with `krt lint -f -`\n"},
		"none":              {in: "apiVersion: v1\nkind: ConfigMap\n", wantErr: "<stdin> holds neither a Workflow nor a WorkflowRun", wantCode: cli.ExitUsage},
		"a file and a name": {in: good, args: []string{"workflow", "release"}, wantErr: "give a file or names, not both", wantCode: cli.ExitUsage},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out, errOut, err := invoke(t, tc.in, append([]string{"-f", "-"}, tc.args...)...)
			gotErr := ""
			if err != nil {
				gotErr = err.Error()
			}
			if diff := cmp.Diff([]string{tc.want, tc.wantErrOut, tc.wantErr}, []string{out, errOut, gotErr}); diff != "" || cli.ExitCode(err) != tc.wantCode {
				t.Errorf("exit code %d (-want +got):\n%s", cli.ExitCode(err), diff)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	cases := map[string]struct {
		args     []string
		want     string
		wantCode int
	}{
		"nothing":                      {want: "the graph of what?", wantCode: cli.ExitUsage},
		"a kind without jobs":          {args: []string{"action", "x"}, want: "Actions have no jobs: name a Workflow or a WorkflowRun", wantCode: cli.ExitUsage},
		"a kind without a name":        {args: []string{"workflow"}, want: "the graph of which Workflow?", wantCode: cli.ExitUsage},
		"a format that is none":        {args: []string{"workflow", "release", "-o", "svg"}, want: "--output svg: there is no such format", wantCode: cli.ExitUsage},
		"one that is not there":        {args: []string{"workflow", "nope"}, want: `there is no Workflow "nope" in namespace "team"`, wantCode: cli.ExitFailed},
		"two where one can be printed": {args: []string{"workflow", "release", "evil", "-o", "mermaid"}, want: "-o mermaid prints one graph, and there are 2", wantCode: cli.ExitUsage},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, _, err := invoke(t, "", tc.args...)
			if err == nil || err.Error() != tc.want || cli.ExitCode(err) != tc.wantCode {
				t.Errorf("error %v with code %d, want %q with %d", err, cli.ExitCode(err), tc.want, tc.wantCode)
			}
		})
	}
}
