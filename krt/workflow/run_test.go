package workflow

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
)

// manifest is a WorkflowRun whose metadata is as said.
func manifest(metadata string) string {
	return fmt.Sprintf(`apiVersion: workflows.kruntimes.io/v1alpha1
kind: WorkflowRun
metadata: {%s}
spec:
  jobs:
    build:
      runs-on: sh
      steps:
      - {name: test, run: "true"}
`, metadata)
}

func TestRun(t *testing.T) {
	const configMap = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"
	cases := map[string]struct {
		in          string
		args        []string
		want        string
		wantErr     string
		wantCode    int
		wantCreated []string
	}{
		"one":                     {in: manifest("name: a"), want: "a\n", wantCreated: []string{"team/a"}},
		"one, quietly":            {in: manifest("name: a"), args: []string{"-q"}, wantCreated: []string{"team/a"}},
		"several":                 {in: manifest("name: a") + "---\n" + manifest("name: b"), want: "a\nb\n", wantCreated: []string{"team/a", "team/b"}},
		"a name of the caller":    {in: manifest("generateName: a-"), args: []string{"--name", "c"}, want: "c\n", wantCreated: []string{"team/c"}},
		"a namespace in the file": {in: manifest("name: a, namespace: other"), want: "a\n", wantCreated: []string{"other/a"}},
		"a name that is taken, and another": {in: manifest("name: taken") + "---\n" + manifest("name: b"), want: "b\n",
			wantErr: `there is a WorkflowRun "taken" in namespace "team" already`, wantCode: cli.ExitFailed, wantCreated: []string{"team/b"}},
		"one name for several": {in: manifest("name: a") + "---\n" + manifest("name: b"), args: []string{"--name", "c"},
			wantErr: "- holds 2 WorkflowRuns, and --follow and --name are for one", wantCode: cli.ExitUsage},
		"another kind": {in: manifest("name: a") + configMap, wantErr: "<stdin>:11:1: <stdin> holds an object of kind ConfigMap, and only WorkflowRuns are created here", wantCode: cli.ExitUsage},
		"a mistake": {in: strings.Replace(manifest("name: a"), "runs-on", "run-on", 1), wantCode: cli.ExitUsage,
			wantErr: "<stdin> is not valid, and nothing was created:\n" +
				"<stdin>:6:5: spec.jobs[build].runs-on: a job with steps needs runs-on, the name of a Runtime\n" +
				"<stdin>:7:7: unknown field \"run-on\": did you mean \"runs-on\"?"},
		"nothing":             {wantErr: "<stdin> holds no manifest", wantCode: cli.ExitUsage},
		"a dry run":           {in: manifest("generateName: a-"), args: []string{"--dry-run", "-o", "jsonpath={.kind} {.metadata.generateName}"}, want: "WorkflowRun a-"},
		"a dry run to follow": {in: manifest("name: a"), args: []string{"--dry-run", "--follow"}, wantErr: "--dry-run creates nothing, so there is nothing to --follow", wantCode: cli.ExitUsage},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			c := fake.NewClientBuilder().WithScheme(cli.NewScheme()).WithObjects(
				&workflowsv1alpha1.WorkflowRun{ObjectMeta: metav1.ObjectMeta{Name: "taken", Namespace: "team"}}).Build()
			f := &cli.Factory{IO: genericiooptions.IOStreams{In: strings.NewReader(tc.in), Out: &out, ErrOut: &errOut}, Name: "krt", Now: time.Now,
				ConfigFlags: genericclioptions.NewConfigFlags(true),
				Client:      func() (client.WithWatch, error) { return c, nil }, Namespace: func() (string, error) { return "team", nil }}
			cmd := NewCmd(f)
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			cmd.SetArgs(append([]string{"run", "-f", "-"}, tc.args...))
			gotErr := ""
			err := cmd.ExecuteContext(t.Context())
			if err != nil {
				gotErr = err.Error()
			}
			if diff := cmp.Diff([]string{tc.want, "", tc.wantErr}, []string{out.String(), errOut.String(), gotErr}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if code := cli.ExitCode(err); code != tc.wantCode {
				t.Errorf("exit code %d, want %d", code, tc.wantCode)
			}
			var list workflowsv1alpha1.WorkflowRunList
			if err := c.List(t.Context(), &list); err != nil {
				t.Fatal(err)
			}
			var created []string
			for _, run := range list.Items {
				if run.Name != "taken" {
					created = append(created, run.Namespace+"/"+run.Name)
				}
			}
			if diff := cmp.Diff(tc.wantCreated, created); diff != "" {
				t.Errorf("created (-want +got):\n%s", diff)
			}
		})
	}
}
