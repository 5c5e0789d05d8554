package workflows

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
)

// Indexes of the cache.
const (
	// indexOwner finds the Runs, the child WorkflowRuns and the workspaces of a WorkflowRun by the WorkflowRun's UID.
	indexOwner = "workflows.kruntimes.io/owner"
	// indexUID finds a WorkflowRun by its UID.
	indexUID = "metadata.uid"
)

// CacheByObject says what the cache holds for the controller: of finished WorkflowRuns, only what their end rests on.
func CacheByObject() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{&workflowsv1alpha1.WorkflowRun{}: {Transform: trimWorkflowRun}}
}

// IndexFields registers the indexes that the controller reads. The cache holds Runs and workspaces as their own groups
// describe them.
func IndexFields(ctx context.Context, indexer client.FieldIndexer) error {
	for _, kind := range []client.Object{&corev1alpha1.Run{}, &workflowsv1alpha1.WorkflowRun{}, &workspacesv1alpha1.PersistentWorkspace{}} {
		err := indexer.IndexField(ctx, kind, indexOwner, func(o client.Object) []string {
			if uid := o.GetLabels()[workflowsv1alpha1.LabelWorkflowRunUID]; uid != "" {
				return []string{uid}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("indexing %T by WorkflowRun: %w", kind, err)
		}
	}
	err := indexer.IndexField(ctx, &workflowsv1alpha1.WorkflowRun{}, indexUID, func(o client.Object) []string {
		return []string{string(o.GetUID())}
	})
	if err != nil {
		return fmt.Errorf("indexing WorkflowRuns by UID: %w", err)
	}
	return nil
}

// trimWorkflowRun drops from a finished WorkflowRun what only its execution needed: ten thousand of them cost little.
func trimWorkflowRun(o any) (any, error) {
	run, ok := o.(*workflowsv1alpha1.WorkflowRun)
	if !ok {
		return o, nil
	}
	run.ManagedFields = nil
	if run.Status.Phase.IsTerminal() {
		run.Spec.Jobs, run.Status.Jobs, run.Status.Outputs, run.Annotations = nil, nil, nil, nil
	}
	return run, nil
}
