package workflows

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/statuspatch"
)

// Indexes of the cache.
const (
	// indexOwner finds the Runs of a WorkflowRun by the WorkflowRun's UID.
	indexOwner = "workflows.kruntimes.io/owner"
	// indexUID finds a WorkflowRun by its UID.
	indexUID = "metadata.uid"
)

const (
	// conflictDelay is how long a conflicting write waits for the cache to catch up.
	conflictDelay = 20 * time.Millisecond
	// soon is when a reconciliation goes on with its next action.
	soon = time.Nanosecond
	// settleDelay is when a WorkflowRun that has ended is looked at once more, to forget it once the cache shows its end.
	settleDelay = 30 * time.Second
)

// WorkflowRunReconciler executes WorkflowRuns: it creates the Runs of their steps and is the only writer of their status.
type WorkflowRunReconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Live reads from the API server. A child is asked for there before it is taken for deleted.
	Live client.Reader
	// Clock tells the times of a status.
	Clock clock.PassiveClock

	memory *memory
}

// CacheByObject says what the cache holds for the controller: of finished WorkflowRuns, only what their end rests on.
func CacheByObject() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{&workflowsv1alpha1.WorkflowRun{}: {Transform: trimWorkflowRun}}
}

// IndexFields registers the indexes that the controller reads.
func IndexFields(ctx context.Context, indexer client.FieldIndexer) error {
	err := indexer.IndexField(ctx, &corev1alpha1.Run{}, indexOwner, func(o client.Object) []string {
		if uid := o.GetLabels()[workflowsv1alpha1.LabelWorkflowRunUID]; uid != "" {
			return []string{uid}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("indexing Runs by WorkflowRun: %w", err)
	}
	err = indexer.IndexField(ctx, &workflowsv1alpha1.WorkflowRun{}, indexUID, func(o client.Object) []string {
		return []string{string(o.GetUID())}
	})
	if err != nil {
		return fmt.Errorf("indexing WorkflowRuns by UID: %w", err)
	}
	return nil
}

// SetupWithManager registers the controller.
func (r *WorkflowRunReconciler) SetupWithManager(mgr ctrl.Manager) error {
	r.memory = newMemory()
	return ctrl.NewControllerManagedBy(mgr).
		Named("workflowrun").
		For(&workflowsv1alpha1.WorkflowRun{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1alpha1.Run{}, handler.EnqueueRequestsFromMapFunc(r.ownerOf), builder.WithPredicates(childChanges())).
		Complete(r)
}

// childChanges lets through what moves a WorkflowRun on, or what people want to see in it: that a child runs, has ended,
// or is gone. An assignment alone is not worth a write.
func childChanges() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false }, // The controller made it.
		GenericFunc: func(event.GenericEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return true },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok1 := e.ObjectOld.(*corev1alpha1.Run)
			after, ok2 := e.ObjectNew.(*corev1alpha1.Run)
			return ok1 && ok2 && before.Status.Phase != after.Status.Phase &&
				(after.Status.Phase == corev1alpha1.RunRunning || after.Status.Phase.IsTerminal())
		},
	}
}

// ownerOf finds the WorkflowRun of a child by the UID in its label, which outlives an owner reference that was removed.
func (r *WorkflowRunReconciler) ownerOf(ctx context.Context, child client.Object) []reconcile.Request {
	uid := child.GetLabels()[workflowsv1alpha1.LabelWorkflowRunUID]
	if uid == "" {
		return nil
	}
	var owners workflowsv1alpha1.WorkflowRunList
	err := r.Client.List(ctx, &owners, client.InNamespace(child.GetNamespace()), client.MatchingFields{indexUID: uid}, client.UnsafeDisableDeepCopy)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Could not find the WorkflowRun of a Run", "uid", uid)
		return nil
	}
	requests := make([]reconcile.Request, 0, len(owners.Items))
	for i := range owners.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&owners.Items[i])})
	}
	return requests
}

// Reconcile moves one WorkflowRun on by one action: load, calculate, apply, patch.
func (r *WorkflowRunReconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	o, err := r.load(ctx, request.NamespacedName)
	if err != nil || o == nil {
		return reconcile.Result{}, err
	}
	d := calculate(*o)
	err = r.apply(ctx, o, &d)
	if err == nil && !d.expire {
		err = r.patch(ctx, request.NamespacedName, o, d.status)
	}
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	case err != nil:
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	return reconcile.Result{RequeueAfter: next(o, &d)}, nil
}

// patch writes the status when it differs from what is stored.
func (r *WorkflowRunReconciler) patch(ctx context.Context, key types.NamespacedName, o *observation, status workflowsv1alpha1.WorkflowRunStatus) error {
	after := &workflowsv1alpha1.WorkflowRun{ObjectMeta: *o.run.ObjectMeta.DeepCopy(), Status: status}
	patch, err := statuspatch.ForWorkflowRun(o.run, after)
	if err != nil || patch == nil {
		return err
	}
	if err := r.Client.Status().Patch(ctx, after, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("patching the status: %w", err)
	}
	r.memory.wrote(key, after)
	logProgress(ctx, &o.run.Status, &status)
	return nil
}
