package workspaces

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
)

// apply carries the action of a decision out. It returns true when no status is to be written after it. Every write
// rests on the resourceVersion that was decided on.
func (r *PersistentWorkspaceReconciler) apply(ctx context.Context, o *observation, d *decision) (isOver bool, err error) {
	switch d.action {
	case actionBind, actionHold:
		return false, r.hold(ctx, o)
	case actionDelete, actionExpire:
		return true, r.delete(ctx, o.workspace)
	case actionLetGo:
		return true, r.letGo(ctx, o.workspace)
	case actionNone, actionRelease:
	}
	return false, nil
}

// hold puts the finalizer on, so that the workspace cannot go before its directory. The observation has the result.
func (r *PersistentWorkspaceReconciler) hold(ctx context.Context, o *observation) error {
	w := o.workspace
	if slices.Contains(w.Finalizers, workspacesv1alpha1.Finalizer) {
		return nil
	}
	held, err := r.setFinalizers(ctx, w, append(slices.Clone(w.Finalizers), workspacesv1alpha1.Finalizer))
	if err != nil {
		return fmt.Errorf("adding the finalizer: %w", err)
	}
	o.workspace = held
	return nil
}

// letGo takes the finalizer off.
func (r *PersistentWorkspaceReconciler) letGo(ctx context.Context, w *workspacesv1alpha1.PersistentWorkspace) error {
	left := slices.DeleteFunc(slices.Clone(w.Finalizers), func(f string) bool { return f == workspacesv1alpha1.Finalizer })
	if _, err := r.setFinalizers(ctx, w, left); err != nil {
		return fmt.Errorf("removing the finalizer: %w", err)
	}
	ctrl.LoggerFrom(ctx).V(1).Info("Let PersistentWorkspace go", "phase", w.Status.Phase)
	return nil
}

// setFinalizers writes the finalizers of exactly the workspace that was looked at, and returns what is stored then.
func (r *PersistentWorkspaceReconciler) setFinalizers(ctx context.Context, w *workspacesv1alpha1.PersistentWorkspace, finalizers []string,
) (*workspacesv1alpha1.PersistentWorkspace, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": w.ResourceVersion, "uid": w.UID, "finalizers": finalizers,
	}})
	if err != nil {
		return nil, fmt.Errorf("encoding the patch: %w", err)
	}
	stored := &workspacesv1alpha1.PersistentWorkspace{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name}}
	if err := r.Client.Patch(ctx, stored, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return nil, err
	}
	return stored, nil
}

// delete deletes exactly the workspace that was looked at: not a successor, and not one that was changed since.
func (r *PersistentWorkspaceReconciler) delete(ctx context.Context, w *workspacesv1alpha1.PersistentWorkspace) error {
	err := r.Client.Delete(ctx, w, client.Preconditions{UID: &w.UID, ResourceVersion: &w.ResourceVersion},
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	if err != nil {
		return fmt.Errorf("deleting the unused workspace: %w", err)
	}
	ctrl.LoggerFrom(ctx).V(1).Info("Deleted PersistentWorkspace", "phase", w.Status.Phase)
	return nil
}
