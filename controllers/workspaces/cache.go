package workspaces

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
)

// Indexes of the cache.
const (
	// indexUse finds the Runs that refer to a workspace, by activeUse or endedUse of its name.
	indexUse = "workspaces.kruntimes.io/use"
	// indexPod finds the workspaces that are bound to a Pod by the Pod's name.
	indexPod = "workspaces.kruntimes.io/pod"
	// indexWaiting finds the workspaces that wait for a Pod by the name of their Runtime.
	indexWaiting = "workspaces.kruntimes.io/waiting"
	// indexRuntimePod finds the Pods of a Runtime by the Runtime's name.
	indexRuntimePod = "workspaces.kruntimes.io/runtime-pod"
	// indexPodNode finds the Pods of a Node by the Node's name.
	indexPodNode = "workspaces.kruntimes.io/node"
)

// activeUse is where indexUse has the Runs of a workspace that have not finished, and endedUse where it has the others. No
// name holds a slash.
func activeUse(workspace string) string { return "active/" + workspace }

func endedUse(workspace string) string { return "ended/" + workspace }

// CacheByObject says what the cache holds for the controller. Pods, Nodes, Runs and Runtimes are those of the group core.
func CacheByObject() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{&workspacesv1alpha1.PersistentWorkspace{}: {}}
}

// IndexFields registers the indexes that the controller reads.
func IndexFields(ctx context.Context, indexer client.FieldIndexer) error {
	indexes := []struct {
		kind   client.Object
		name   string
		values client.IndexerFunc
	}{
		{&corev1alpha1.Run{}, indexUse, useOf},
		{&workspacesv1alpha1.PersistentWorkspace{}, indexPod, boundPodOf},
		{&workspacesv1alpha1.PersistentWorkspace{}, indexWaiting, awaitedRuntimeOf},
		{&corev1.Pod{}, indexRuntimePod, runtimeOf},
		{&corev1.Pod{}, indexPodNode, nodeOf},
	}
	for _, index := range indexes {
		if err := indexer.IndexField(ctx, index.kind, index.name, index.values); err != nil {
			return fmt.Errorf("indexing %T by %s: %w", index.kind, index.name, err)
		}
	}
	return nil
}

// CountBound returns a function that counts the workspaces that are bound to a Pod, from the cache behind reader.
func CountBound(reader client.Reader) func(ctx context.Context, pod *corev1.Pod) (int, error) {
	return func(ctx context.Context, pod *corev1.Pod) (int, error) {
		var bound workspacesv1alpha1.PersistentWorkspaceList
		err := reader.List(ctx, &bound, client.InNamespace(pod.Namespace), client.MatchingFields{indexPod: pod.Name}, client.UnsafeDisableDeepCopy)
		if err != nil {
			return 0, fmt.Errorf("listing the workspaces of Pod %s: %w", pod.Name, err)
		}
		n := 0
		for i := range bound.Items {
			if bound.Items[i].IsBoundTo(pod.Name, string(pod.UID)) {
				n++
			}
		}
		return n, nil
	}
}

func useOf(o client.Object) []string {
	run, ok := o.(*corev1alpha1.Run)
	switch {
	case !ok || run.Spec.Workspace == nil:
		return nil
	case run.Status.Phase.IsTerminal():
		return []string{endedUse(run.Spec.Workspace.Name)}
	default:
		return []string{activeUse(run.Spec.Workspace.Name)}
	}
}

func boundPodOf(o client.Object) []string {
	w, ok := o.(*workspacesv1alpha1.PersistentWorkspace)
	if !ok || w.Status.BoundPod == "" || w.Status.Phase == workspacesv1alpha1.WorkspaceLost {
		return nil
	}
	return []string{w.Status.BoundPod}
}

func awaitedRuntimeOf(o client.Object) []string {
	w, ok := o.(*workspacesv1alpha1.PersistentWorkspace)
	if !ok || w.Status.BoundPod != "" {
		return nil
	}
	return []string{w.Spec.Runtime}
}

// runtimeOf is the name of a Pod's Runtime. The annotation holds it whole, and the label says the same in short.
func runtimeOf(o client.Object) []string {
	name := o.GetAnnotations()[corev1alpha1.AnnotationRuntime]
	if name == "" || o.GetLabels()[corev1alpha1.LabelRuntime] != corev1alpha1.RuntimeLabelValue(name) {
		return nil
	}
	return []string{name}
}
