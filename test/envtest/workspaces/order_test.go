package workspaces

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
)

// permutations returns the orders in which some things can be done.
func permutations(things []string) [][]string {
	if len(things) <= 1 {
		return [][]string{things}
	}
	var all [][]string
	for i, first := range things {
		rest := append(append([]string(nil), things[:i]...), things[i+1:]...)
		for _, p := range permutations(rest) {
			all = append(all, append([]string{first}, p...))
		}
	}
	return all
}

// TestDeletionInAnyOrderEnds deletes a workspace, its Pod, its Runtime, an active Run of it and its WorkflowRun in each
// order. Nobody collects garbage here, so what a deletion takes along elsewhere is one of the others. The namespace is no
// party: it deletes the same objects, in some order.
func TestDeletionInAnyOrderEnds(t *testing.T) {
	shared.StartManager(t)
	for _, order := range permutations([]string{"workspace", "Pod", "Runtime", "Run", "WorkflowRun"}) {
		t.Run(strings.Join(order, ", "), func(t *testing.T) {
			t.Parallel()
			ns := shared.Namespace(t)
			owner := &workflowsv1alpha1.WorkflowRun{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "w"},
				Spec: workflowsv1alpha1.WorkflowRunSpec{Jobs: map[string]workflowsv1alpha1.Job{
					"j": {RunsOn: "none", Steps: []workflowsv1alpha1.Step{{Name: "s", Run: "true"}}}}}}
			shared.Create(t, owner)
			pod := bind(t, ns, func(w *workspacesv1alpha1.PersistentWorkspace) {
				w.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, workflowsv1alpha1.GroupVersion.WithKind("WorkflowRun"))}
			})
			startJanitor(t, pod)
			run := newRun(ns, "r", "ws")
			shared.Create(t, run)
			assign(t, run, pod)
			objects := map[string]client.Object{"workspace": newWorkspace(ns, "ws"), "Pod": pod, "Runtime": newRuntime(ns, "sh"),
				"Run": run, "WorkflowRun": owner}
			for _, name := range order {
				shared.Delete(t, objects[name])
			}
			for _, name := range order {
				awaitGone(t, objects[name])
			}
		})
	}
}
