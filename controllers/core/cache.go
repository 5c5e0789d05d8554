package core

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

// Indexes of the cache.
const (
	// indexPodRuntime finds the Pods of a Runtime by the Runtime's name.
	indexPodRuntime = "kruntimes.io/runtime"
	// indexRunPod finds the active Runs of a Pod by the Pod's name. Finished Runs are not in it.
	indexRunPod = "kruntimes.io/assigned-pod"
)

// CacheByObject says what the cache holds for the controllers of this package: only objects that carry our label, and of
// Runs and Pods only the fields that are decided on, so that ten thousand finished Runs with their scripts and outputs
// cost little memory. Of Nodes it holds the names.
func CacheByObject() map[client.Object]cache.ByObject {
	managed := labels.SelectorFromSet(labels.Set{corev1alpha1.LabelManagedBy: corev1alpha1.ManagedBy})
	return map[client.Object]cache.ByObject{
		&corev1.Pod{}:            {Label: corev1alpha1.RuntimePodSelector(), Transform: trimPod},
		&corev1.Node{}:           {Transform: trimNode},
		&appsv1.Deployment{}:     {Label: managed},
		&corev1.ServiceAccount{}: {Label: managed},
		&rbacv1.RoleBinding{}:    {Label: managed},
		&corev1alpha1.Run{}:      {Transform: trimRun},
		&corev1alpha1.Runtime{}:  {},
	}
}

// IndexFields registers the indexes that the controllers of this package read.
func IndexFields(ctx context.Context, indexer client.FieldIndexer) error {
	err := indexer.IndexField(ctx, &corev1.Pod{}, indexPodRuntime, func(o client.Object) []string {
		if name, ok := o.GetAnnotations()[corev1alpha1.AnnotationRuntime]; ok {
			return []string{name}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("indexing Pods by Runtime: %w", err)
	}
	if err := indexer.IndexField(ctx, &corev1.Pod{}, indexPodNode, podNode); err != nil {
		return fmt.Errorf("indexing Pods by Node: %w", err)
	}
	err = indexer.IndexField(ctx, &corev1alpha1.Run{}, indexRunPod, func(o client.Object) []string {
		if run, ok := o.(*corev1alpha1.Run); ok && run.Status.Phase.IsActive() {
			return []string{run.Status.AssignedPod}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("indexing Runs by Pod: %w", err)
	}
	return nil
}

// trimPod keeps what says whether a Pod is there, and why it is not ready.
func trimPod(o any) (any, error) {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	pod.ManagedFields = nil
	pod.Spec = corev1.PodSpec{NodeName: pod.Spec.NodeName}
	return pod, nil
}

// trimRun keeps what the life of a Run is decided on. Patches of the status are made of what changed, so the fields that
// are dropped here are not dropped there.
func trimRun(o any) (any, error) {
	run, ok := o.(*corev1alpha1.Run)
	if !ok {
		return o, nil
	}
	run.ManagedFields, run.Annotations = nil, nil
	run.Spec = corev1alpha1.RunSpec{
		Runtime:                 run.Spec.Runtime,
		CancelRequested:         run.Spec.CancelRequested,
		TTLSecondsAfterFinished: run.Spec.TTLSecondsAfterFinished,
		RetryPolicy:             run.Spec.RetryPolicy,
		Workspace:               run.Spec.Workspace, // The workspace controller finds the Runs of a workspace by it.
	}
	if run.Labels[workflowsv1alpha1.LabelWorkflowRunUID] == "" { // The WorkflowRun controller reads them of its children.
		run.Status.Outputs, run.Status.Artifacts = nil, nil
	}
	return run, nil
}
