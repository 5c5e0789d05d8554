package olm

import (
	"context"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/manager"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

func runOf(namespace, name, workspace string) *corev1alpha1.Run {
	run := &corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1alpha1.RunSpec{Runtime: "sh", Source: &corev1alpha1.RunSource{Inline: "true"}}}
	if workspace != "" {
		run.Spec.Workspace = &corev1alpha1.WorkspaceReference{Name: workspace}
	}
	return run
}

// TestRunsWithAWorkspaceAreAskedAboutAndNoOthers has the API server ask a manager as OLM does, whose webhooks know no conditions,
// and then takes the manager away.
func TestRunsWithAWorkspaceAreAskedAboutAndNoOthers(t *testing.T) {
	install(t)
	health, address := healthAddress(t), ""
	stop := shared.StartManager(t, asBundle(t, func(o *manager.Options) { o.HealthAddress, address = health, o.Admission.Address }))
	waitUntilReady(t, health, true)
	for _, webhooks := range webhooksOf(t, address) {
		shared.Create(t, webhooks)
		t.Cleanup(func() {
			if err := shared.Admin().Delete(context.WithoutCancel(t.Context()), webhooks); err != nil {
				t.Errorf("deleting %s: %v", webhooks.GetName(), err)
			}
		})
	}
	ns := namespaceOf(t)
	workspace := &workspacesv1alpha1.PersistentWorkspace{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "ci"},
		Spec: workspacesv1alpha1.PersistentWorkspaceSpec{Runtime: "sh"}}
	shared.Create(t, workspace)
	runs := rbacv1.PolicyRule{APIGroups: []string{"kruntimes.io"}, Resources: []string{"runs"}, Verbs: []string{"create"}}
	use := rbacv1.PolicyRule{APIGroups: []string{"workspaces.kruntimes.io"}, Resources: []string{"persistentworkspaces/use"}, Verbs: []string{"use"}, ResourceNames: []string{"ci"}}
	ann := cluster.Client(t, shared.User(t, ns, "ann", runs, use))
	bob := cluster.Client(t, shared.User(t, ns, "bob", runs))
	cluster.Eventually(t, "the webhooks to be asked", func(ctx context.Context) (bool, error) {
		err := ann.Create(ctx, runOf(ns, "probe", "nowhere"), client.DryRunAll)
		return err != nil && strings.Contains(err.Error(), "has no PersistentWorkspace"), nil
	})

	allowed := runOf(ns, "allowed", "ci")
	expect(t, "a Run of who may use the workspace", ann.Create(t.Context(), allowed), "")
	if allowed.Labels[corev1alpha1.LabelNamesWorkspace] != "true" {
		t.Errorf("it has labels %v", allowed.Labels)
	}
	expect(t, "a Run of who may not", bob.Create(t.Context(), runOf(ns, "refused", "ci")), `the verb "use" on persistentworkspaces/use is missing`)
	planted := runOf(ns, "planted", "ci")
	planted.Labels = map[string]string{corev1alpha1.LabelNamesWorkspace: "false"}
	expect(t, "one with a planted mark", bob.Create(t.Context(), planted), `the verb "use" on persistentworkspaces/use is missing`)
	plain := runOf(ns, "plain", "")
	expect(t, "a Run without a workspace", bob.Create(t.Context(), plain), "")
	if len(plain.Labels) > 0 {
		t.Errorf("it has labels %v", plain.Labels)
	}
	circle := workflowRunOf(ns, "circle", workflowsv1alpha1.Job{Needs: []string{"a"}, RunsOn: "sh", Steps: []workflowsv1alpha1.Step{{Name: "s", Run: "true"}}})
	expect(t, "a WorkflowRun that can never work", shared.Admin().Create(t.Context(), circle), "the job needs itself")

	stop()
	expect(t, "a Run without a workspace while nobody answers", bob.Create(t.Context(), runOf(ns, "alone", "")), "")
	expect(t, "a Run with one while nobody answers", ann.Create(t.Context(), runOf(ns, "waits", "ci")), "no manager answers the API server; try again")
	marked := runOf(ns, "marked", "ci")
	marked.Labels = map[string]string{corev1alpha1.LabelNamesWorkspace: "true"}
	expect(t, "a marked one while nobody answers", ann.Create(t.Context(), marked), `failed calling webhook "workspace-use.kruntimes.io"`)
	circle = workflowRunOf(ns, "unheard", circle.Spec.Jobs["a"])
	expect(t, "a WorkflowRun while nobody answers", shared.Admin().Create(t.Context(), circle), "")
}

func workflowRunOf(namespace, name string, job workflowsv1alpha1.Job) *workflowsv1alpha1.WorkflowRun {
	return &workflowsv1alpha1.WorkflowRun{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: workflowsv1alpha1.WorkflowRunSpec{Jobs: map[string]workflowsv1alpha1.Job{"a": job}}}
}

// expect wants an error with these words; none where they are empty.
func expect(t *testing.T, what string, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%s: got error %v, want %q", what, err, want)
	}
}
