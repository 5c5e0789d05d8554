package perf

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// InertGroup is the API group of the copy of the Run CRD that no component watches.
const InertGroup = "bench.kruntimes.io"

// InertCRD returns the inert copy of the Run CRD: another group, the same schema.
func InertCRD(run *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
	inert := &apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   run.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{Name: run.Spec.Names.Plural + "." + InertGroup},
		Spec:       *run.Spec.DeepCopy(),
	}
	inert.Spec.Group = InertGroup
	inert.Spec.Names.Categories = nil
	return inert
}

// runObject returns a Run, or its inert copy, that executes script on runtime.
func runObject(group, name, runtime, script string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/" + corev1alpha1.GroupVersion.Version,
		"kind":       "Run",
		"metadata":   map[string]any{"name": name},
		"spec":       map[string]any{"runtime": runtime, "source": map[string]any{"inline": script}},
	}}
}

// Product returns the target that measures kruntimes itself: Runs of a no-op script.
func Product(client dynamic.Interface, namespace, runtime, prefix string) Target {
	return Target{
		Client: client, Namespace: namespace,
		Resource: corev1alpha1.GroupVersion.WithResource("runs"),
		Object: func(i int) *unstructured.Unstructured {
			return runObject(corev1alpha1.GroupVersion.Group, fmt.Sprintf("%s-%04d", prefix, i), runtime, "true\n")
		},
	}
}

// Floor returns the target that makes the three writes of a short Run on the inert copy, one after another.
func Floor(client dynamic.Interface, namespace, prefix string) Target {
	resource := schema.GroupVersionResource{Group: InertGroup, Version: corev1alpha1.GroupVersion.Version, Resource: "runs"}
	return Target{
		Client: client, Namespace: namespace, Resource: resource,
		Object: func(i int) *unstructured.Unstructured {
			return runObject(InertGroup, fmt.Sprintf("%s-%04d", prefix, i), "sh", "true\n")
		},
		Advance: func(ctx context.Context, created *unstructured.Unstructured) error {
			for _, status := range []map[string]any{bound(time.Now()), finished(time.Now())} {
				patch, err := json.Marshal(map[string]any{
					"metadata": map[string]any{"resourceVersion": created.GetResourceVersion(), "uid": created.GetUID()},
					"status":   status,
				})
				if err != nil {
					return err
				}
				created, err = client.Resource(resource).Namespace(namespace).
					Patch(ctx, created.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}, "status")
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// bound is the status that a bind writes.
func bound(now time.Time) map[string]any {
	return map[string]any{
		"phase": "Scheduled", "assignedPod": "runtime-sh-6b7f9c8d4-abcde", "assignedPodUID": "00000000-0000-0000-0000-000000000000",
		"attempt": 1, "scheduledTime": micro(now), "observedGeneration": 1,
		"conditions": []any{condition("Scheduled", "Assigned", now)},
	}
}

// finished is the status that the end of an execution writes.
func finished(now time.Time) map[string]any {
	return map[string]any{
		"phase": "Succeeded", "exitCode": 0, "startTime": micro(now), "completionTime": micro(now),
		"conditions": []any{condition("Scheduled", "Assigned", now), condition("Succeeded", "Succeeded", now)},
	}
}

func condition(kind, reason string, now time.Time) map[string]any {
	return map[string]any{
		"type": kind, "status": "True", "reason": reason, "message": "", "observedGeneration": 1,
		"lastTransitionTime": now.UTC().Format(time.RFC3339),
	}
}

func micro(t time.Time) string { return t.UTC().Format(metav1.RFC3339Micro) }
