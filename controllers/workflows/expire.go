package workflows

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

// expire asks for the deletion of a finished WorkflowRun after its time to live.
func expire(o observation, d *decision) {
	ttl, end := o.run.Spec.TTLSecondsAfterFinished, d.status.CompletionTime
	if ttl == nil || end == nil {
		return
	}
	d.recheck = end.Add(time.Duration(*ttl) * time.Second).Sub(o.now)
	if d.recheck <= 0 {
		d.recheck, d.expire = 0, true
	}
}

// timeToLive is how long a WorkflowRun is kept after its end, and whether that is bounded.
func timeToLive(run *workflowsv1alpha1.WorkflowRun) (time.Duration, bool) {
	if ttl := run.Spec.TTLSecondsAfterFinished; ttl != nil {
		return time.Duration(*ttl) * time.Second, true
	}
	return 0, false
}

// expire deletes exactly the WorkflowRun that was looked at: not a successor, and not one whose time to live was changed.
func (r *WorkflowRunReconciler) expire(ctx context.Context, run *workflowsv1alpha1.WorkflowRun) error {
	err := r.Client.Delete(ctx, run, client.Preconditions{UID: &run.UID, ResourceVersion: &run.ResourceVersion},
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the expired WorkflowRun: %w", err)
	}
	return nil
}
