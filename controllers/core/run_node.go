package core

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

// A Node that is gone takes its Pods with it, but Kubernetes removes them up to a minute later, and they look healthy until
// then. Their Runs are not left waiting for that.

// indexPodNode finds the Pods of a Node by the Node's name.
const indexPodNode = "kruntimes.io/node"

// podNode is the key of a Pod in indexPodNode.
func podNode(o client.Object) []string {
	if pod, ok := o.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
		return []string{pod.Spec.NodeName}
	}
	return nil
}

// trimNode keeps the name.
func trimNode(o any) (any, error) {
	if node, ok := o.(*metav1.PartialObjectMetadata); ok {
		node.Labels, node.Annotations, node.ManagedFields = nil, nil, nil
	}
	return o, nil
}

// deletions lets deletions through.
func deletions() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return true },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// runsOfNode finds the active Runs on the Pods of a Node, as runsOfPod does for a Pod.
func (r *RunReconciler) runsOfNode(ctx context.Context, node client.Object) []reconcile.Request {
	var pods corev1.PodList
	err := r.Client.List(ctx, &pods, client.MatchingFields{indexPodNode: node.GetName()}, client.UnsafeDisableDeepCopy)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil
	case err != nil:
		panic(fmt.Sprintf("listing the Pods of Node %s: %v", node.GetName(), err)) // a bug, as there
	}
	var requests []reconcile.Request
	for i := range pods.Items {
		requests = append(requests, r.runsOfPod(ctx, &pods.Items[i])...)
	}
	return requests
}

// hasNode tells whether the Node of a Pod is there. Before it is believed that it is gone, the API server is asked.
func (r *RunReconciler) hasNode(ctx context.Context, pod *corev1.Pod) (bool, error) {
	if pod.Spec.NodeName == "" {
		return true, nil
	}
	for _, reader := range []client.Reader{r.Client, r.Live} {
		node := &metav1.PartialObjectMetadata{}
		node.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
		err := reader.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, node)
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("reading Node %s: %w", pod.Spec.NodeName, err)
		}
		if err == nil {
			return true, nil
		}
	}
	return false, nil
}
