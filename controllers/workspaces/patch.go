package workspaces

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/statuspatch"
)

// patch writes the status when it differs from what is stored.
func (r *PersistentWorkspaceReconciler) patch(ctx context.Context, o *observation, d *decision) error {
	before := o.workspace
	after := &workspacesv1alpha1.PersistentWorkspace{ObjectMeta: *before.ObjectMeta.DeepCopy(), Status: d.status}
	patch, err := statuspatch.ForPersistentWorkspace(before, after)
	if err != nil || patch == nil {
		return err
	}
	if err := r.Client.Status().Patch(ctx, after, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("patching the status: %w", err)
	}
	if from, to := before.Status.Phase, d.status.Phase; from != to {
		ctrl.LoggerFrom(ctx).Info("Moved PersistentWorkspace on", "from", from, "to", to, "pod", d.status.BoundPod)
	}
	return nil
}
