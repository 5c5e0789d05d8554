package workspaces

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
)

const (
	// conflictDelay is how long a conflicting write waits for the cache to catch up.
	conflictDelay = 20 * time.Millisecond
	// staleDelay is how long a decision waits that a live read did not confirm. The event that corrects the cache comes
	// earlier as a rule.
	staleDelay = time.Second
)

// PersistentWorkspaceReconciler binds PersistentWorkspaces to Pods, releases and deletes those that nobody uses any more,
// and is the only writer of their status.
type PersistentWorkspaceReconciler struct {
	// Client reads from the cache that CacheByObject and IndexFields describe, and writes.
	Client client.Client
	// Live reads from the API server. It is asked before a Pod is taken for gone, and before a workspace is bound to a Pod
	// or deleted because no Run uses it.
	Live client.Reader
	// Clock tells how long a workspace is unused, and the times of conditions.
	Clock clock.PassiveClock

	uses *uses
}

// SetupWithManager registers the controller.
func (r *PersistentWorkspaceReconciler) SetupWithManager(mgr ctrl.Manager) error {
	r.uses = newUses()
	return ctrl.NewControllerManagedBy(mgr).
		Named("persistentworkspace").
		For(&workspacesv1alpha1.PersistentWorkspace{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.workspacesOfPod), builder.WithPredicates(podChanges())).
		WatchesMetadata(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.workspacesOfNode), builder.WithPredicates(arrivals())).
		Watches(&corev1alpha1.Runtime{}, handler.EnqueueRequestsFromMapFunc(r.workspacesOfRuntime), builder.WithPredicates(existence())).
		Watches(&corev1alpha1.Run{}, r.runEnds()).
		Complete(r)
}

// Reconcile moves one workspace on by one action: load, calculate, confirm, apply, patch.
func (r *PersistentWorkspaceReconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	o, err := r.load(ctx, request.NamespacedName)
	if err != nil || o == nil {
		return reconcile.Result{}, err
	}
	d := calculate(o)
	if d.isFinal() {
		switch isConfirmed, err := r.confirm(ctx, o, &d); {
		case err != nil:
			return reconcile.Result{}, err
		case !isConfirmed:
			return reconcile.Result{RequeueAfter: staleDelay}, nil
		}
	}
	isOver, err := r.apply(ctx, o, &d)
	if err == nil && !isOver {
		err = r.patch(ctx, o, &d)
	}
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	case err != nil:
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	return reconcile.Result{RequeueAfter: d.recheck}, nil
}
