package core

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// toldInterval is how often a namespace is told at most. Kubernetes looks at all that is in there each time.
const toldInterval = 10 * time.Second

// NamespaceReconciler lets namespaces with Pods of Runtimes go as soon as these have ended. Kubernetes deletes the Pods of a
// namespace first; where they are not gone within seconds it looks again after half of their longest grace period, however
// soon they end, and deletes nothing else before: five minutes, with the grace period of a Runtime that names none. But it also
// looks five seconds after each change of the namespace. So the end of the last Pod is told in a condition of the namespace.
type NamespaceReconciler struct {
	// Client reads Pods from the cache that CacheByObject describes, and writes.
	Client client.Client
	// Live reads namespaces from the API server. It is asked when the last Pod of a namespace is gone.
	Live client.Reader
	// Clock tells the time of the condition.
	Clock clock.PassiveClock
}

// SetupWithManager registers the controller.
func (r *NamespaceReconciler) SetupWithManager(mgr ctrl.Manager) error {
	namespace := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: o.GetNamespace()}}}
	})
	// The end of a Pod may have come while there was no manager. Then the Runtimes of its namespace are still there.
	found := predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return e.IsInInitialList },
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("namespace-deletion").
		Watches(&corev1.Pod{}, namespace, builder.WithPredicates(deletions())).
		Watches(&corev1alpha1.Runtime{}, namespace, builder.WithPredicates(found)).
		Complete(r)
}

// Reconcile tells of the end of the last Pod of a Runtime in a namespace that is being deleted.
func (r *NamespaceReconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, client.InNamespace(request.Name), client.Limit(1), client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing Pods: %w", err)
	}
	if len(pods.Items) > 0 {
		return reconcile.Result{}, nil // The end of the last one comes back to this.
	}
	namespace := &corev1.Namespace{}
	if err := r.Live.Get(ctx, client.ObjectKey{Name: request.Name}, namespace); err != nil {
		if apierrors.IsNotFound(err) {
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, fmt.Errorf("reading the namespace: %w", err)
	}
	now := r.Clock.Now()
	tell, again := planTelling(namespace, now)
	if !tell {
		return reconcile.Result{RequeueAfter: again}, nil
	}
	err := r.tell(ctx, namespace, now)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // It is gone, or another one has its name.
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("telling that the Pods are gone: %w", err)
	}
	ctrl.LoggerFrom(ctx).Info("Told that the Pods of a namespace in deletion are gone")
	return reconcile.Result{}, nil
}

// planTelling decides whether a namespace without Pods of Runtimes is told so now, and else after how long to ask again; zero for never.
func planTelling(namespace *corev1.Namespace, now time.Time) (tell bool, again time.Duration) {
	if namespace.DeletionTimestamp.IsZero() {
		return false, 0
	}
	again = max(0, toldAt(namespace).Add(toldInterval).Sub(now))
	return again == 0, again
}

// toldAt is when a namespace was told last; zero when it was not.
func toldAt(namespace *corev1.Namespace) time.Time {
	for _, c := range namespace.Status.Conditions {
		if c.Type == corev1alpha1.NamespaceConditionRuntimePodsRemaining {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// tell writes the condition.
func (r *NamespaceReconciler) tell(ctx context.Context, namespace *corev1.Namespace, now time.Time) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": namespace.UID},
		"status": map[string]any{"conditions": []corev1.NamespaceCondition{{
			Type: corev1alpha1.NamespaceConditionRuntimePodsRemaining, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(now),
			Reason: corev1alpha1.ReasonRuntimePodsGone, Message: "All Pods of Runtimes are gone",
		}}},
	})
	if err != nil {
		return fmt.Errorf("encoding the condition: %w", err)
	}
	return r.Client.Status().Patch(ctx, namespace, client.RawPatch(types.StrategicMergePatchType, patch))
}
