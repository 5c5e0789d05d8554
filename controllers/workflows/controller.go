package workflows

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/statuspatch"
	"kruntimes.io/kruntimes/telemetry/events"
)

const (
	// conflictDelay is how long a conflicting write waits for the cache to catch up.
	conflictDelay = 20 * time.Millisecond
	// nextAction is when a reconciliation goes on with its next action, which no event announces: its own write is none.
	nextAction = time.Millisecond
	// lookAgain is when an active WorkflowRun, or one that has just ended, is looked at again though nothing was heard: a
	// watch that breaks may swallow a child that came and went, and what is remembered of an end shall not stay.
	lookAgain = time.Minute
)

// WorkflowRunReconciler executes WorkflowRuns: it creates the Runs of their steps and is the only writer of their status.
type WorkflowRunReconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Live reads from the API server. A child is asked for there before it is taken for deleted.
	Live client.Reader
	// Clock tells the times of a status.
	Clock clock.PassiveClock
	// Workspaces says which jobs get a workspace. Nil: none does.
	Workspaces *JobWorkspaces
	// Recorder stores the events that tell which jobs fail. Nil: they are not told.
	Recorder *events.Recorder

	memory *memory
}

// SetupWithManager registers the controller.
func (r *WorkflowRunReconciler) SetupWithManager(mgr ctrl.Manager) error {
	r.memory = newMemory()
	b := ctrl.NewControllerManagedBy(mgr).
		Named("workflowrun").
		For(&workflowsv1alpha1.WorkflowRun{}, builder.WithPredicates(ownChanges())).
		Watches(&corev1alpha1.Run{}, handler.EnqueueRequestsFromMapFunc(r.ownerOf), builder.WithPredicates(childChanges())).
		Watches(&workflowsv1alpha1.WorkflowRun{}, handler.EnqueueRequestsFromMapFunc(r.ownerOf), builder.WithPredicates(callChanges()))
	if r.Workspaces != nil {
		b = b.Watches(&workspacesv1alpha1.PersistentWorkspace{}, handler.EnqueueRequestsFromMapFunc(r.ownerOf),
			builder.WithPredicates(workspaceChanges()))
	}
	return b.Complete(r)
}

// ownChanges lets through that a WorkflowRun is there, has another spec, or is another one of the same name: a watch that
// breaks may swallow the deletion in between.
func ownChanges() predicate.Predicate {
	return predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool { return e.ObjectOld.GetUID() != e.ObjectNew.GetUID() },
	})
}

// childChanges lets through what moves a WorkflowRun on, or what people want to see in it: that a child runs, has ended,
// or is gone. An assignment alone is not worth a write. A child that appears as ended was missed by a watch that broke.
func childChanges() predicate.Predicate {
	isNews := func(run *corev1alpha1.Run) bool {
		return run.Status.Phase == corev1alpha1.RunRunning || run.Status.Phase.IsTerminal() || waitsFor(run) != ""
	}
	return predicate.Funcs{
		GenericFunc: func(event.GenericEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return true },
		CreateFunc: func(e event.CreateEvent) bool {
			run, ok := e.Object.(*corev1alpha1.Run)
			return ok && isNews(run)
		},
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok1 := e.ObjectOld.(*corev1alpha1.Run)
			after, ok2 := e.ObjectNew.(*corev1alpha1.Run)
			return ok1 && ok2 && isNews(after) &&
				(before.Status.Phase != after.Status.Phase || waitsFor(before) != waitsFor(after))
		},
	}
}

// callChanges lets through that a child WorkflowRun has ended, or is gone.
func callChanges() predicate.Predicate {
	ended := func(object client.Object) bool {
		run, ok := object.(*workflowsv1alpha1.WorkflowRun)
		return ok && run.Status.Phase.IsTerminal()
	}
	return predicate.Funcs{
		GenericFunc: func(event.GenericEvent) bool { return false },
		CreateFunc:  func(e event.CreateEvent) bool { return ended(e.Object) },
		UpdateFunc:  func(e event.UpdateEvent) bool { return ended(e.ObjectNew) && !ended(e.ObjectOld) },
		DeleteFunc:  func(event.DeleteEvent) bool { return true },
	}
}

// workspaceChanges lets through that a workspace cannot be used any more.
func workspaceChanges() predicate.Predicate {
	spent := func(object client.Object) bool {
		w, ok := object.(*workspacesv1alpha1.PersistentWorkspace)
		return ok && isSpent(w)
	}
	return predicate.Funcs{
		GenericFunc: func(event.GenericEvent) bool { return false },
		CreateFunc:  func(e event.CreateEvent) bool { return spent(e.Object) },
		UpdateFunc:  func(e event.UpdateEvent) bool { return spent(e.ObjectNew) && !spent(e.ObjectOld) },
		DeleteFunc:  func(e event.DeleteEvent) bool { return !spent(e.Object) },
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
	switch {
	case err != nil && ctx.Err() != nil:
		return nil
	case err != nil:
		panic(fmt.Sprintf("finding the WorkflowRun of UID %s: %v", uid, err)) // A bug: only an index that is not there makes it.
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
	if wait := r.memory.pace(o); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	d := calculate(*o)
	if err := r.apply(ctx, o, &d); apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	} else if err != nil || d.expire {
		return reconcile.Result{}, err
	}
	switch err := r.patch(ctx, o, d.status); {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	case err != nil && isFinal(err) && !apierrors.IsForbidden(err):
		return reconcile.Result{RequeueAfter: nextAction}, r.giveUp(ctx, o, err)
	case err != nil:
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	return reconcile.Result{RequeueAfter: next(o, &d)}, nil
}

// next is when to look at a WorkflowRun again although nothing is heard of it. 0: never.
func next(o *observation, d *decision) time.Duration {
	if d.snapshot || len(d.provision) > 0 || leavesWorkspaces(o, d) {
		return nextAction
	}
	after := d.recheck
	if isOver := o.run.Status.Phase.IsTerminal(); !isOver && (after == 0 || after > lookAgain) {
		after = lookAgain
	}
	if ttl, ok := timeToLive(o.run); ok && d.status.Phase.IsTerminal() && !o.run.Status.Phase.IsTerminal() {
		after = min(after, max(ttl, nextAction))
	}
	return after
}

// leavesWorkspaces tells whether there are workspaces to delete once the status is stored: their jobs have ended with it, or
// something else had to be done first.
func leavesWorkspaces(o *observation, d *decision) bool {
	if d.status.Phase.IsTerminal() {
		return len(d.remove) == 0 && len(o.workspaces)+len(o.removable()) > 0
	}
	for job := range o.workspaces {
		if d.status.Jobs[job].Phase.IsTerminal() {
			return true
		}
	}
	return len(d.remove) == 0 && len(o.removable()) > 0 && !o.endsEarly()
}

// patch writes the status when it differs from what is stored.
func (r *WorkflowRunReconciler) patch(ctx context.Context, o *observation, status workflowsv1alpha1.WorkflowRunStatus) error {
	after := &workflowsv1alpha1.WorkflowRun{ObjectMeta: *o.run.ObjectMeta.DeepCopy(), Status: status}
	patch, err := statuspatch.ForWorkflowRun(o.run, after)
	if err != nil || patch == nil {
		return err
	}
	if err := r.Client.Status().Patch(ctx, after, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("patching the status: %w", err)
	}
	r.memory.wrote(after, o.now)
	logProgress(ctx, &o.run.Status, &status)
	r.Recorder.Publish(jobEvents(o.run, &o.run.Status, &status)...)
	return nil
}

// giveUp ends a WorkflowRun whose status the API server refuses for good: its children are cancelled, and what is stored
// of it stays.
func (r *WorkflowRunReconciler) giveUp(ctx context.Context, o *observation, cause error) error {
	if err := r.cancel(ctx, uncancelled(o.offspring())); err != nil {
		return err
	}
	status := *o.run.Status.DeepCopy()
	end(*o, &status, workflowsv1alpha1.WorkflowFailed, workflowsv1alpha1.ReasonStatusRefused, "the API server refuses the status: "+reasonOf(cause))
	if err := r.patch(ctx, o, status); err != nil {
		return errors.Join(cause, err)
	}
	return nil
}
