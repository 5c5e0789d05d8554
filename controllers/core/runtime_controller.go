package core

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
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
)

const (
	// conflictDelay is how long the cache is given to catch up after a write on an old version was refused.
	conflictDelay = 100 * time.Millisecond
	// foreignDelay is how often a name that is taken by an object of somebody else, which is not watched, is looked at.
	foreignDelay = 30 * time.Second
)

// RuntimeReconciler keeps the Deployment, ServiceAccount and RoleBinding of every Runtime as its spec says, and writes
// the status of Runtimes. It writes nothing else, and nothing while nothing changes. The Deployment is owned by its Runtime;
// the other two stay until the Pods of a deleted Runtime are gone.
type RuntimeReconciler struct {
	// Client reads from the cache that CacheByObject describes, and writes.
	Client client.Client
	// Live reads from the API server. It is asked only about what the cache does not hold.
	Live client.Reader
	// Clock tells the time of transitions.
	Clock clock.PassiveClock
	// NodeImage is the image with runtimed and the runtime server that new and changed Runtimes get.
	NodeImage string
	// RuntimedClusterRole is the ClusterRole that is bound to the Pods of a Runtime in their namespace. After a change,
	// bindings to the earlier one stay until their Runtime is deleted: the manager has no right to delete RoleBindings.
	RuntimedClusterRole string
	// BoundWorkspaces counts the workspaces that are bound to a Pod. Nil: there are no workspaces.
	BoundWorkspaces func(ctx context.Context, pod *corev1.Pod) (int, error)
	// DefaultUser is the user and group of Pods whose template names none. Nil: the cluster assigns one.
	DefaultUser *int64
	// Artifacts are the limits that new and changed Runtimes get.
	Artifacts ArtifactLimits
}

// SetupWithManager registers the controller.
func (r *RuntimeReconciler) SetupWithManager(mgr ctrl.Manager) error {
	changed := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, predicate.Funcs{
		// Another one of the same name: a watch that breaks may swallow the deletion in between.
		UpdateFunc: func(e event.UpdateEvent) bool { return e.ObjectOld.GetUID() != e.ObjectNew.GetUID() },
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("runtime").
		For(&corev1alpha1.Runtime{}, builder.WithPredicates(changed)).
		Owns(&appsv1.Deployment{}).
		Watches(&corev1.ServiceAccount{}, handler.EnqueueRequestsFromMapFunc(annotatedRuntime)).
		Watches(&rbacv1.RoleBinding{}, handler.EnqueueRequestsFromMapFunc(annotatedRuntime)).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(annotatedRuntime)).
		Complete(r)
}

// annotatedRuntime is the Runtime for which an object was made.
func annotatedRuntime(_ context.Context, o client.Object) []reconcile.Request {
	name, ok := o.GetAnnotations()[corev1alpha1.AnnotationRuntime]
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}}}
}

// Reconcile brings what belongs to one Runtime in line with its spec, and its status in line with its Pods.
func (r *RuntimeReconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	runtime := &corev1alpha1.Runtime{}
	err := r.Client.Get(ctx, request.NamespacedName, runtime)
	if apierrors.IsNotFound(err) {
		return reconcile.Result{}, r.release(ctx, request.NamespacedName)
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading the Runtime: %w", err)
	}
	if !runtime.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil // Somebody's finalizer holds it. What belongs to it goes when it is gone.
	}
	seen, err := r.load(ctx, runtime)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("loading what belongs to the Runtime: %w", err)
	}
	plan, err := calculatePlan(runtime, seen, r.settings())
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("planning: %w", err)
	}
	failed := r.apply(ctx, plan)
	status := calculateStatus(runtime, seen, refusal(plan, failed), r.Clock.Now())
	patchErr := r.patchStatus(ctx, runtime, status)
	switch applyErr := errors.Join(failed...); {
	case apierrors.IsNotFound(patchErr): // Deleted since it was read, which is seen in a moment.
		return reconcile.Result{}, nil
	case apierrors.IsConflict(patchErr) && applyErr == nil:
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	case patchErr != nil: // To be tried again, however hopeless the rest is: the status does not say so yet.
		return reconcile.Result{}, errors.Join(applyErr, patchErr)
	case applyErr != nil && !hopeless(failed):
		return reconcile.Result{}, applyErr
	case len(plan.foreign) > 0:
		if applyErr != nil {
			ctrl.LoggerFrom(ctx).Error(applyErr, "Applied not everything")
		}
		return reconcile.Result{RequeueAfter: foreignDelay}, nil
	case applyErr != nil:
		return reconcile.Result{}, reconcile.TerminalError(applyErr)
	default:
		return reconcile.Result{}, nil
	}
}

func (r *RuntimeReconciler) settings() settings {
	return settings{
		pod:         podSettings{nodeImage: r.NodeImage, defaultUser: r.DefaultUser, artifactLimits: r.Artifacts.arguments()},
		clusterRole: r.RuntimedClusterRole,
	}
}
