package workflows

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

// logProgress logs the changes that an operator wants to see, after they are stored.
func logProgress(ctx context.Context, before, after *workflowsv1alpha1.WorkflowRunStatus) {
	log := ctrl.LoggerFrom(ctx)
	if !isInitialized(before) && !after.Phase.IsTerminal() {
		log.Info("Accepted WorkflowRun", "jobs", len(after.Jobs), "snapshot", after.SnapshotName)
	}
	if after.Phase.IsTerminal() && !before.Phase.IsTerminal() {
		log.Info("Finished WorkflowRun", "phase", after.Phase, "message", after.Message)
	}
}
