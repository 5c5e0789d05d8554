package definitions

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/statuspatch"
	"kruntimes.io/kruntimes/workflow/calls"
	"kruntimes.io/kruntimes/workflow/validate"
)

const (
	// conflictDelay is how long a conflicting write waits for the cache to catch up.
	conflictDelay = 20 * time.Millisecond
	// concurrency is how many Workflows are judged at a time. To judge one may cost half a second where hundreds call each
	// other, and no execution waits for it: it shall not take the processors from the other controllers.
	concurrency = 2
)

// WorkflowReconciler says whether Workflows can be used, and is the only writer of their status.
type WorkflowReconciler struct {
	// Client reads from the cache that CacheByObject and IndexFields describe, and writes.
	Client client.Client
	// Clock tells the times of conditions.
	Clock clock.PassiveClock
}

// SetupWithManager registers the controller.
func (r *WorkflowReconciler) SetupWithManager(mgr ctrl.Manager) error {
	callers := handler.EnqueueRequestsFromMapFunc(r.callersOf)
	return ctrl.NewControllerManagedBy(mgr).
		Named("workflow").
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency}).
		For(&workflowsv1alpha1.Workflow{}, builder.WithPredicates(own())).
		Watches(&workflowsv1alpha1.Workflow{}, callers, builder.WithPredicates(changes())).
		Watches(&workflowsv1alpha1.Action{}, callers, builder.WithPredicates(changes())).
		Complete(r)
}

// Reconcile judges one Workflow: load, calculate, patch.
func (r *WorkflowReconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	workflow := &workflowsv1alpha1.Workflow{}
	if err := r.Client.Get(ctx, request.NamespacedName, workflow, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	o := &observation{status: workflow.Status, generation: workflow.Generation, invalid: validate.Workflow(&workflow.Spec), now: r.Clock.Now()}
	if len(o.invalid) == 0 {
		var err error
		if o.unresolved, err = calls.Workflow(Of(ctx, r.Client, request.Namespace), workflow.Name, &workflow.Spec); err != nil {
			return reconcile.Result{}, err
		}
	}
	after := &workflowsv1alpha1.Workflow{ObjectMeta: *workflow.ObjectMeta.DeepCopy(), Status: calculate(o)}
	patch, err := statuspatch.ForWorkflow(workflow, after)
	if err != nil {
		return reconcile.Result{}, err
	}
	return write(ctx, r.Client, after, patch)
}

// ActionReconciler says whether Actions can be used, and is the only writer of their status. They call nothing.
type ActionReconciler struct {
	// Client reads from the cache that CacheByObject describes, and writes.
	Client client.Client
	// Clock tells the times of conditions.
	Clock clock.PassiveClock
}

// SetupWithManager registers the controller.
func (r *ActionReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("action").
		For(&workflowsv1alpha1.Action{}, builder.WithPredicates(own())).
		Complete(r)
}

// Reconcile judges one Action: load, calculate, patch.
func (r *ActionReconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	action := &workflowsv1alpha1.Action{}
	if err := r.Client.Get(ctx, request.NamespacedName, action, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	o := &observation{status: action.Status, generation: action.Generation, invalid: validate.Action(&action.Spec), now: r.Clock.Now()}
	after := &workflowsv1alpha1.Action{ObjectMeta: *action.ObjectMeta.DeepCopy(), Status: calculate(o)}
	patch, err := statuspatch.ForAction(action, after)
	if err != nil {
		return reconcile.Result{}, err
	}
	return write(ctx, r.Client, after, patch)
}

// write stores the status of after where it differs from what is stored.
func write(ctx context.Context, writer client.StatusClient, after client.Object, patch []byte) (reconcile.Result, error) {
	if patch == nil {
		return reconcile.Result{}, nil
	}
	switch err := writer.Status().Patch(ctx, after, client.RawPatch(types.MergePatchType, patch)); {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("patching the status: %w", err)
	}
	return reconcile.Result{}, nil
}
