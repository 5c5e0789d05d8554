package cancel

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
)

func testRun(name string, phase corev1alpha1.RunPhase) *corev1alpha1.Run {
	return &corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "team", Labels: map[string]string{"name": name}},
		Spec: corev1alpha1.RunSpec{Runtime: "bash"}, Status: corev1alpha1.RunStatus{Phase: phase}}
}

func TestCancel(t *testing.T) {
	cases := map[string]struct {
		args []string
		// want is stdout, wantTalk stderr, wantCancelled the Runs whose end has been asked for afterwards.
		want, wantTalk, wantErr string
		wantCode                int
		wantCancelled           []string
	}{
		"by name":            {args: []string{"waiting", "run/running"}, want: "run.kruntimes.io/waiting cancel requested\nrun.kruntimes.io/running cancel requested\n", wantCancelled: []string{"running", "waiting"}},
		"one that has ended": {args: []string{"done"}, wantTalk: "krt: Run done has ended already (Succeeded)\n"},
		"one that does not exist, and another": {args: []string{"nope", "running"}, want: "run.kruntimes.io/running cancel requested\n", wantErr: `there is no Run "nope" in namespace "team"`,
			wantCode: cli.ExitFailed, wantCancelled: []string{"running"}},
		"one that may not be":     {args: []string{"protected", "running"}, want: "run.kruntimes.io/running cancel requested\n", wantErr: `cancelling Run protected: runs.kruntimes.io "protected" is forbidden: no`, wantCode: cli.ExitFailed, wantCancelled: []string{"running"}},
		"all":                     {args: []string{"--all"}, want: "run.kruntimes.io/running cancel requested\nrun.kruntimes.io/waiting cancel requested\n", wantErr: `cancelling Run protected: runs.kruntimes.io "protected" is forbidden: no`, wantCode: cli.ExitFailed, wantCancelled: []string{"running", "waiting"}},
		"by label":                {args: []string{"runs", "-l", "name=running"}, want: "run.kruntimes.io/running cancel requested\n", wantCancelled: []string{"running"}},
		"by label, but none":      {args: []string{"-l", "name=nope"}, wantTalk: "There is no Run to end in namespace \"team\".\n"},
		"a dry run":               {args: []string{"running", "--dry-run"}, want: "run.kruntimes.io/running would be cancelled (dry run)\n"},
		"a dry run by the server": {args: []string{"running", "--dry-run=server"}, want: "run.kruntimes.io/running would be cancelled (server dry run)\n"},
		"a dry run of all":        {args: []string{"--all", "--dry-run=client"}, want: "run.kruntimes.io/protected would be cancelled (dry run)\nrun.kruntimes.io/running would be cancelled (dry run)\nrun.kruntimes.io/waiting would be cancelled (dry run)\n"},
		"no dry run":              {args: []string{"running", "--dry-run=none"}, want: "run.kruntimes.io/running cancel requested\n", wantCancelled: []string{"running"}},
		"a dry run by a word":     {args: []string{"running", "--dry-run", "server"}, wantErr: `"server" stands alone, as if it were a name`, wantCode: cli.ExitUsage},
		"names and --all":         {args: []string{"running", "--all"}, wantErr: "give names, -l or --all, only one of them", wantCode: cli.ExitUsage},
		"nothing":                 {wantErr: "which Run or WorkflowRun?", wantCode: cli.ExitUsage},
		"a selector that is none": {args: []string{"-l", "a=b=c"}, wantErr: "--selector a=b=c: found '=', expected: ',' or 'end of string'", wantCode: cli.ExitUsage},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(cli.NewScheme()).WithObjects(
				testRun("done", corev1alpha1.RunSucceeded), testRun("protected", corev1alpha1.RunRunning),
				testRun("running", corev1alpha1.RunRunning), testRun("waiting", corev1alpha1.RunPending)).Build(), interceptor.Funcs{
				Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
					if obj.GetName() == "protected" {
						return apierrors.NewForbidden(schema.GroupResource{Group: "kruntimes.io", Resource: "runs"}, obj.GetName(), errors.New("no"))
					}
					return c.Patch(ctx, obj, patch, opts...)
				},
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					var asked client.ListOptions
					asked.ApplyOptions(opts)
					asked.FieldSelector = nil // the fake client knows equality only; the API server is asked in test/envtest/krt
					return c.List(ctx, list, &asked)
				}})
			f := &cli.Factory{IO: genericiooptions.IOStreams{Out: &out, ErrOut: &errOut}, Name: "krt",
				Client: func() (client.WithWatch, error) { return c, nil }, Namespace: func() (string, error) { return "team", nil }}
			cmd := NewCmd(f, nil)
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			cmd.SetArgs(append([]string{}, tc.args...)) // nil would mean those of the test binary
			gotErr := ""
			err := cmd.ExecuteContext(t.Context())
			if err != nil {
				gotErr = err.Error()
			}
			if diff := cmp.Diff([]string{tc.want, tc.wantTalk, tc.wantErr}, []string{out.String(), errOut.String(), gotErr}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if code := cli.ExitCode(err); code != tc.wantCode {
				t.Errorf("exit code %d, want %d", code, tc.wantCode)
			}
			var list corev1alpha1.RunList
			if err := c.List(t.Context(), &list); err != nil {
				t.Fatal(err)
			}
			var cancelled []string
			for _, run := range list.Items {
				if run.Spec.CancelRequested {
					cancelled = append(cancelled, run.Name)
				}
			}
			if diff := cmp.Diff(tc.wantCancelled, cancelled); diff != "" {
				t.Errorf("cancelled (-want +got):\n%s", diff)
			}
		})
	}
}
