package workflows

import (
	"context"
	"math"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

// next is when to look at a WorkflowRun again although nothing changes. 0: never.
func next(o *observation, d *decision) time.Duration {
	switch {
	case d.snapshot:
		return soon
	case d.status.Phase.IsTerminal() && !o.run.Status.Phase.IsTerminal():
		// It has just ended: its time to live begins, and what is remembered of it shall not stay.
		return min(timeToLive(o.run), settleDelay)
	default:
		return d.recheck
	}
}

// timeToLive is how long a WorkflowRun is kept after its end; very long where that is not said.
func timeToLive(run *workflowsv1alpha1.WorkflowRun) time.Duration {
	if ttl := run.Spec.TTLSecondsAfterFinished; ttl != nil {
		return max(time.Duration(*ttl)*time.Second, soon)
	}
	return math.MaxInt64
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
