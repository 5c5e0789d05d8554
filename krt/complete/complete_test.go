package complete

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
)

func factory() *cli.Factory {
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, Namespace: "team"} }
	elsewhere := &corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{Name: "build-3", Namespace: "other"}}
	c := fake.NewClientBuilder().WithScheme(cli.NewScheme()).WithObjects(elsewhere,
		&corev1alpha1.Run{ObjectMeta: meta("build-1"), Status: corev1alpha1.RunStatus{Phase: corev1alpha1.RunRunning}},
		&corev1alpha1.Run{ObjectMeta: meta("build-2"), Status: corev1alpha1.RunStatus{Phase: corev1alpha1.RunSucceeded}},
		&corev1alpha1.Run{ObjectMeta: meta("test-1"), Status: corev1alpha1.RunStatus{Phase: corev1alpha1.RunPending}},
		&corev1alpha1.Runtime{ObjectMeta: meta("bash"), Status: corev1alpha1.RuntimeStatus{ReadyReplicas: 1}},
		&corev1alpha1.Runtime{ObjectMeta: meta("python")},
		&workspacesv1alpha1.PersistentWorkspace{ObjectMeta: meta("notes"), Spec: workspacesv1alpha1.PersistentWorkspaceSpec{Runtime: "python"},
			Status: workspacesv1alpha1.PersistentWorkspaceStatus{Phase: workspacesv1alpha1.WorkspacePending}},
		&workspacesv1alpha1.PersistentWorkspace{ObjectMeta: meta("src"), Spec: workspacesv1alpha1.PersistentWorkspaceSpec{Runtime: "bash"},
			Status: workspacesv1alpha1.PersistentWorkspaceStatus{Phase: workspacesv1alpha1.WorkspaceBound}},
	).Build()
	return &cli.Factory{Client: func() (client.WithWatch, error) { return c, nil }, Namespace: func() (string, error) { return "team", nil }}
}

func TestCompletions(t *testing.T) {
	f := factory()
	open := func(r *corev1alpha1.Run) bool { return !r.Status.Phase.IsTerminal() }
	kinds := Kinds(map[string]Func{"run": Runs(f, nil), "runtime": Runtimes(f)}, "run", "runtime")
	cases := map[string]struct {
		fn         Func
		args       []string
		toComplete string
		want       []cobra.Completion
	}{
		"Runs with their phases":          {fn: Runs(f, nil), want: []cobra.Completion{"build-1\tRunning", "build-2\tSucceeded", "test-1\tPending"}},
		"Runs that begin like that":       {fn: Runs(f, nil), toComplete: "build", want: []cobra.Completion{"build-1\tRunning", "build-2\tSucceeded"}},
		"Runs that are not there already": {fn: Runs(f, nil), args: []string{"build-1"}, want: []cobra.Completion{"build-2\tSucceeded", "test-1\tPending"}},
		"Runs of a sort":                  {fn: Runs(f, open), want: []cobra.Completion{"build-1\tRunning", "test-1\tPending"}},
		"Runtimes":                        {fn: Runtimes(f), want: []cobra.Completion{"bash\tready", "python\tno Pod ready"}},
		"workspaces":                      {fn: Workspaces(f), want: []cobra.Completion{"notes\tPending, python", "src\tBound, bash"}},
		"a kind first":                    {fn: kinds, want: []cobra.Completion{"run", "runtime"}},
		"names of the kind then":          {fn: kinds, args: []string{"runtime"}, toComplete: "b", want: []cobra.Completion{"bash\tready"}},
		"nothing for an unknown kind":     {fn: kinds, args: []string{"pod"}},
		"one Run":                         {fn: OneRun(f), toComplete: "t", want: []cobra.Completion{"test-1\tPending"}},
		"one Run after the kind":          {fn: OneRun(f), args: []string{"run"}, toComplete: "t", want: []cobra.Completion{"test-1\tPending"}},
		"nothing after one Run":           {fn: OneRun(f), args: []string{"build-1"}},
		"words":                           {fn: Words("a", "b"), want: []cobra.Completion{"a", "b"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			cmd := &cobra.Command{}
			cmd.SetContext(t.Context())
			got, directive := tc.fn(cmd, tc.args, tc.toComplete)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if directive != cobra.ShellCompDirectiveNoFileComp {
				t.Errorf("directive %d: files must not be offered", directive)
			}
		})
	}
}

func TestOnlyWorkspacesOfTheChosenRuntimeAreOffered(t *testing.T) {
	cmd := &cobra.Command{}
	cmd.Flags().String("runtime", "bash", "")
	cmd.SetContext(t.Context())
	got, _ := Workspaces(factory())(cmd, nil, "")
	if diff := cmp.Diff([]cobra.Completion{"src\tBound, bash"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWithoutAClusterNothingIsOffered(t *testing.T) {
	f := factory()
	f.Client = func() (client.WithWatch, error) { return nil, errors.New("no cluster") }
	cmd := &cobra.Command{}
	cmd.SetContext(t.Context())
	if got, _ := Runs(f, nil)(cmd, nil, ""); got != nil {
		t.Errorf("offered %v", got)
	}
}
