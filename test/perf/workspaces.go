package perf

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
)

const (
	benchWorkspace = "shared"
	// bindPatience bounds the wait for the workspace to be bound.
	bindPatience = 30 * time.Second
)

// workspaces measures what a Run in a workspace costs beside one without: the question to the manager whether its creator
// may use the workspace, and runtimed's read of it.
func (s Suite) workspaces(ctx context.Context, c client.Client, dyn dynamic.Interface, report *Report) error {
	w := &workspacesv1alpha1.PersistentWorkspace{
		ObjectMeta: metav1.ObjectMeta{Namespace: benchNamespace, Name: benchWorkspace},
		Spec:       workspacesv1alpha1.PersistentWorkspaceSpec{Runtime: benchRuntime},
	}
	if err := c.Create(ctx, w); err != nil {
		return fmt.Errorf("creating the workspace: %w", err)
	}
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, bindPatience, true, func(ctx context.Context) (bool, error) {
		err := c.Get(ctx, client.ObjectKeyFromObject(w), w)
		return w.Status.Phase == workspacesv1alpha1.WorkspaceBound, err
	})
	if err != nil {
		return fmt.Errorf("waiting for the workspace to be bound: %w", err)
	}
	load := Load{Name: "in a workspace", Total: s.pairings()[0].load.Total, InFlight: 1}
	alone, err := Measure(ctx, Product(dyn, benchNamespace, benchRuntime, "alone"), load)
	if err != nil {
		return fmt.Errorf("measuring Runs without a workspace: %w", err)
	}
	shared, err := Measure(ctx, inWorkspace(Product(dyn, benchNamespace, benchRuntime, "shared"), benchWorkspace), load)
	if err != nil {
		return fmt.Errorf("measuring Runs in a workspace: %w", err)
	}
	s.add(report, Row{Name: "in a workspace, beside without", Target: "reported", Runs: load.Total,
		FloorP50: millis(alone.Quantile(0.5)), ProductP50: millis(shared.Quantile(0.5))})
	return nil
}

// inWorkspace is a target whose Runs refer to a workspace.
func inWorkspace(t Target, name string) Target {
	object := t.Object
	t.Object = func(i int) *unstructured.Unstructured {
		run := object(i)
		run.Object["spec"].(map[string]any)["workspace"] = map[string]any{"name": name}
		return run
	}
	return t
}
