package workflows

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

// load reads all that a decision about a WorkflowRun rests on. It returns no observation when the WorkflowRun is gone or
// about to go. What it returns is shared with the cache and must not be changed.
func (r *WorkflowRunReconciler) load(ctx context.Context, key types.NamespacedName) (*observation, error) {
	run := &workflowsv1alpha1.WorkflowRun{}
	if err := r.Client.Get(ctx, key, run, client.UnsafeDisableDeepCopy); apierrors.IsNotFound(err) {
		r.memory.forget(key)
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading the WorkflowRun: %w", err)
	}
	run = r.memory.newest(key, run)
	if !run.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	o := &observation{run: run, held: r.memory.holds(key), now: r.Clock.Now()}
	if run.Status.Phase.IsTerminal() || !isInitialized(&run.Status) {
		return o, nil
	}
	return o, r.loadChildren(ctx, o)
}

// loadChildren finds the Runs of a WorkflowRun: those of the index, and live those that the status names and the index
// lacks. The cache may lag behind, so only the API server is believed that a child is gone.
func (r *WorkflowRunReconciler) loadChildren(ctx context.Context, o *observation) error {
	names := recorded(&o.run.Status)
	var runs corev1alpha1.RunList
	err := r.Client.List(ctx, &runs, client.InNamespace(o.run.Namespace),
		client.MatchingFields{indexOwner: string(o.run.UID)}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return fmt.Errorf("listing the Runs of the WorkflowRun: %w", err)
	}
	o.children = make(map[identity]*corev1alpha1.Run, len(runs.Items))
	for i := range runs.Items {
		child := &runs.Items[i]
		id := identityOf(child)
		if other, ok := o.children[id]; ok {
			child = prefer(other, child, names[id])
		}
		o.children[id] = child
	}
	o.missing = map[identity]bool{}
	for id, name := range names {
		if o.children[id] != nil {
			continue
		}
		child := &corev1alpha1.Run{}
		err := r.Live.Get(ctx, client.ObjectKey{Namespace: o.run.Namespace, Name: name}, child)
		switch {
		case apierrors.IsNotFound(err), err == nil && !belongs(child, o.run, id):
			o.missing[id] = true
		case err != nil:
			return fmt.Errorf("reading Run %s: %w", name, err)
		default:
			o.children[id] = child
		}
	}
	return nil
}
