package admission

import (
	"context"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/groups"
	"kruntimes.io/kruntimes/manager"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// TestAWorkflowRunReachesItsOwnWorkspaceOnly lets the controller work: its Runs are admitted as children, without a review, and a
// WorkflowRun whose names lead to the workspace of somebody else gets another one.
func TestAWorkflowRunReachesItsOwnWorkspaceOnly(t *testing.T) {
	asked := &reviews{}
	ns := shared.Namespace(t)
	startManager(t, ns, asked.record(t), func(o *manager.Options) { o.Groups = groups.All() })
	shared.Create(t, newWorkspace(ns, "secret-build"))
	asked.take()
	mallory := newClient(t, shared.User(t, ns, "mallory", rbacv1.PolicyRule{APIGroups: []string{"workflows.kruntimes.io"},
		Resources: []string{"workflowruns"}, Verbs: []string{"create"}}))
	for _, name := range []string{"plain", "secret"} {
		run := newWorkflowRun(ns, name)
		if err := mallory.Create(t.Context(), run); err != nil {
			t.Fatal(err)
		}
		made := &corev1alpha1.RunList{}
		cluster.Eventually(t, "a Run of WorkflowRun "+name, func(ctx context.Context) (bool, error) {
			err := shared.Admin().List(ctx, made, client.InNamespace(ns), client.MatchingLabels{workflowsv1alpha1.LabelWorkflowRunUID: string(run.UID)})
			return len(made.Items) == 1, err
		})
		reference := made.Items[0].Spec.Workspace
		if reference == nil {
			t.Fatalf("Run %s has no workspace", made.Items[0].Name)
		}
		workspace := newWorkspace(ns, reference.Name)
		if err := shared.Admin().Get(t.Context(), client.ObjectKeyFromObject(workspace), workspace); err != nil {
			t.Fatal(err)
		}
		if !metav1.IsControlledBy(workspace, run) {
			t.Errorf("Run %s executes in %s, which is not that of WorkflowRun %s", made.Items[0].Name, workspace.Name, name)
		}
	}
	expectNoRunIn(t, ns, "secret-build")
	if specs := asked.take(); len(specs) > 0 {
		t.Errorf("the API server was asked about the controller: %v", specs)
	}
}
