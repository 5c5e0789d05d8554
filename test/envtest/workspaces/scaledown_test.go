package workspaces

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// TestAScaleDownSparesThePodOfAWorkspace has two Pods without Runs: the data on one of them would be lost.
func TestAScaleDownSparesThePodOfAWorkspace(t *testing.T) {
	shared.StartManager(t)
	ns := shared.Namespace(t)
	holder := bind(t, ns)
	scale := func(replicas int32) {
		t.Helper()
		runtime := newRuntime(ns, "sh")
		if err := shared.Admin().Patch(t.Context(), runtime, mergePatch(fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))); err != nil {
			t.Fatal(err)
		}
		cluster.Eventually(t, fmt.Sprintf("the Deployment to have %d replicas", replicas), func(ctx context.Context) (bool, error) {
			d := &appsv1.Deployment{}
			err := shared.Admin().Get(ctx, client.ObjectKey{Namespace: ns, Name: "runtime-sh"}, d)
			return err == nil && *d.Spec.Replicas == replicas, err
		})
	}
	scale(2)
	other := shared.RuntimePod(t, ns, "sh", "0")
	cluster.Eventually(t, "both Pods to be counted", func(ctx context.Context) (bool, error) {
		runtime := &corev1alpha1.Runtime{}
		err := shared.Admin().Get(ctx, client.ObjectKey{Namespace: ns, Name: "sh"}, runtime)
		return err == nil && runtime.Status.ReadyReplicas == 2, err
	})
	scale(1)
	for pod, want := range map[*corev1.Pod]string{holder: "", other: "-1"} {
		if err := shared.Admin().Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
			t.Fatal(err)
		}
		if got := pod.Annotations[corev1.PodDeletionCost]; got != want {
			t.Errorf("Pod %s has deletion cost %q, want %q", pod.Name, got, want)
		}
	}
}
