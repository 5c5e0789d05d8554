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
	switch {
	case d.recheck > 0:
	case o.isAwaited:
		d.recheck = awaitCaller
	default:
		d.recheck, d.expire = 0, true
	}
}

// awaitCaller is how often it is looked whether the caller of an expired WorkflowRun has taken its end over.
const awaitCaller = time.Second

// loadCaller finds out whether a WorkflowRun that has ended, and shall not be kept, is awaited by its caller.
func (r *WorkflowRunReconciler) loadCaller(ctx context.Context, o *observation) error {
	uid := o.run.Labels[workflowsv1alpha1.LabelWorkflowRunUID]
	if _, expires := timeToLive(o.run); !expires || uid == "" {
		return nil
	}
	var callers workflowsv1alpha1.WorkflowRunList
	err := r.Client.List(ctx, &callers, client.InNamespace(o.run.Namespace), client.MatchingFields{indexUID: uid}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return fmt.Errorf("finding the caller: %w", err)
	}
	for i := range callers.Items {
		caller := r.memory.newest(&callers.Items[i])
		o.isAwaited = o.isAwaited || !caller.Status.Phase.IsTerminal() && !hasEnded(&caller.Status, identityOf(o.run))
	}
	return nil
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
