package workflows

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

// becameTerminal tells whether a decision ends the WorkflowRun, so that its time to live begins.
func becameTerminal(o *observation, d *decision) bool {
	return d.status.Phase.IsTerminal() && !o.run.Status.Phase.IsTerminal() && o.run.Spec.TTLSecondsAfterFinished != nil
}

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
