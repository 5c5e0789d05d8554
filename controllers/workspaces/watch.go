package workspaces

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
)

// podChanges lets through what may give a waiting workspace its Pod, or changes how a bound one can be used.
func podChanges() predicate.Predicate {
	return predicate.Funcs{
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok1 := e.ObjectOld.(*corev1.Pod)
			after, ok2 := e.ObjectNew.(*corev1.Pod)
			return ok1 && ok2 && (before.UID != after.UID || isCandidate(before) != isCandidate(after) ||
				hasEnded(before) != hasEnded(after) || before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
				corev1alpha1.PodIsReady(before) != corev1alpha1.PodIsReady(after))
		},
	}
}

// existence lets through that an object comes to be, is to go, or is gone.
func existence() predicate.Predicate {
	return predicate.Funcs{
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero()
		},
	}
}

// workspacesOfPod finds the workspaces that are bound to a Pod, and those that wait for one of its Runtime.
func (r *PersistentWorkspaceReconciler) workspacesOfPod(ctx context.Context, pod client.Object) []reconcile.Request {
	requests := r.find(ctx, pod.GetNamespace(), indexPod, pod.GetName())
	for _, runtime := range runtimeOf(pod) {
		requests = append(requests, r.find(ctx, pod.GetNamespace(), indexWaiting, runtime)...)
	}
	return requests
}

// workspacesOfRuntime finds the workspaces that wait for a Pod of a Runtime.
func (r *PersistentWorkspaceReconciler) workspacesOfRuntime(ctx context.Context, runtime client.Object) []reconcile.Request {
	return r.find(ctx, runtime.GetNamespace(), indexWaiting, runtime.GetName())
}

// find returns the workspaces that an index has under a value. An event comes once: an error cannot be waited out here, and
// nothing but an index that nobody registered, or the end of ctx, makes one.
func (r *PersistentWorkspaceReconciler) find(ctx context.Context, namespace, index, value string) []reconcile.Request {
	var found workspacesv1alpha1.PersistentWorkspaceList
	err := r.Client.List(ctx, &found, client.InNamespace(namespace), client.MatchingFields{index: value}, client.UnsafeDisableDeepCopy)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil
	case err != nil:
		panic(fmt.Sprintf("listing the workspaces with %s %s: %v", index, value, err)) // a bug, seen by every test of the controller
	}
	requests := make([]reconcile.Request, 0, len(found.Items))
	for i := range found.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&found.Items[i])})
	}
	return requests
}

// runEnds has a workspace looked at when a Run that refers to it has ended or is gone. That a Run begins to use it changes
// nothing until it ends.
func (r *PersistentWorkspaceReconciler) runEnds() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) {
			if workspace, run := usedBy(e.Object); run != nil && run.Status.Phase.IsTerminal() {
				q.Add(reconcile.Request{NamespacedName: workspace})
			}
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			before, isRun := e.ObjectOld.(*corev1alpha1.Run)
			if !isRun {
				return
			}
			isNews := func(after *corev1alpha1.Run) bool {
				return before.UID != after.UID || before.Status.Phase.IsTerminal() != after.Status.Phase.IsTerminal()
			}
			if before.UID != e.ObjectNew.GetUID() {
				r.gone(before, q)
			}
			if workspace, run := usedBy(e.ObjectNew); run != nil && isNews(run) {
				q.Add(reconcile.Request{NamespacedName: workspace})
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			if run, ok := e.Object.(*corev1alpha1.Run); ok {
				r.gone(run, q)
			}
		},
	}
}

// gone notes the end of a Run that is there no more: what it used, it used until it finished, or until now.
func (r *PersistentWorkspaceReconciler) gone(last *corev1alpha1.Run, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	workspace, run := usedBy(last)
	if run == nil {
		return
	}
	at := r.Clock.Now()
	if run.Status.Phase.IsTerminal() {
		at = endOf(run)
	}
	r.uses.ended(workspace, at)
	q.Add(reconcile.Request{NamespacedName: workspace})
}

// usedBy returns the workspace that a Run refers to, and the Run; no Run when it refers to none.
func usedBy(o client.Object) (types.NamespacedName, *corev1alpha1.Run) {
	run, ok := o.(*corev1alpha1.Run)
	if !ok || run.Spec.Workspace == nil {
		return types.NamespacedName{}, nil
	}
	return types.NamespacedName{Namespace: run.Namespace, Name: run.Spec.Workspace.Name}, run
}
