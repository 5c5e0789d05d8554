package workspaces

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// A Node that is gone takes its Pods with it, but Kubernetes removes them up to a minute later, and they look ready until then.
// A workspace that was bound to such a Pod would be lost before anybody could use it.

// nodeOf is the name of a Pod's Node.
func nodeOf(o client.Object) []string {
	if pod, ok := o.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
		return []string{pod.Spec.NodeName}
	}
	return nil
}

// hasNode tells whether the Node of a Pod is there, as a reader shows it. A Pod that names none is on none that could go.
func hasNode(ctx context.Context, reader client.Reader, pod *corev1.Pod) (bool, error) {
	if pod.Spec.NodeName == "" {
		return true, nil
	}
	node := &metav1.PartialObjectMetadata{}
	node.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	err := reader.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, node)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading Node %s: %w", pod.Spec.NodeName, err)
	}
	return err == nil, nil
}

// arrivals lets through that an object comes to be. That a Node goes gives no waiting workspace its Pod.
func arrivals() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return true },
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// workspacesOfNode finds the workspaces that wait for a Pod of a Runtime which has one on a Node.
func (r *PersistentWorkspaceReconciler) workspacesOfNode(ctx context.Context, node client.Object) []reconcile.Request {
	var pods corev1.PodList
	err := r.Client.List(ctx, &pods, client.MatchingFields{indexPodNode: node.GetName()}, client.UnsafeDisableDeepCopy)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil
	case err != nil:
		panic(fmt.Sprintf("listing the Pods of Node %s: %v", node.GetName(), err)) // a bug, as in find
	}
	var requests []reconcile.Request
	for i := range pods.Items {
		for _, runtime := range runtimeOf(&pods.Items[i]) {
			requests = append(requests, r.find(ctx, pods.Items[i].Namespace, indexWaiting, runtime)...)
		}
	}
	return requests
}
