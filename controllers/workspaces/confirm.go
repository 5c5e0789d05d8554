package workspaces

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// page is how many Runs are read from the API server at a time.
const page = 500

// confirm asks the API server before an action that cannot be taken back: the cache may lag behind. It returns false when
// what the decision rests on is no longer so.
func (r *PersistentWorkspaceReconciler) confirm(ctx context.Context, o *observation, d *decision) (bool, error) {
	if d.action == actionBind {
		return r.confirmPod(ctx, d.pod)
	}
	live := *o
	if err := r.loadLiveUse(ctx, &live); err != nil {
		return false, err
	}
	now := calculate(&live)
	isConfirmed := now.action == d.action
	*d = now
	return isConfirmed, nil
}

// confirmPod tells whether a Pod is there, with its Node, and can be bound to. A workspace that is bound to a Pod which is
// gone is lost.
func (r *PersistentWorkspaceReconciler) confirmPod(ctx context.Context, cached *corev1.Pod) (bool, error) {
	pod := &corev1.Pod{}
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(cached), pod)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading Pod %s: %w", cached.Name, err)
	}
	if pod.UID != cached.UID || !isCandidate(pod) {
		return false, nil
	}
	return hasNode(ctx, r.Live, pod)
}

// loadLiveUse reads the use of a workspace from the API server.
func (r *PersistentWorkspaceReconciler) loadLiveUse(ctx context.Context, o *observation) error {
	for next := ""; ; {
		var runs corev1alpha1.RunList // A list that is decoded into keeps what the next page does not name.
		err := r.Live.List(ctx, &runs, client.InNamespace(o.workspace.Namespace), client.Limit(page), client.Continue(next),
			client.MatchingFields{corev1alpha1.FieldWorkspace: o.workspace.Name})
		if err != nil {
			return fmt.Errorf("listing the Runs of the workspace: %w", err)
		}
		for i := range runs.Items {
			if !runs.Items[i].Status.Phase.IsTerminal() {
				o.active = true
				return nil
			}
		}
		o.lastUse = latest(o.lastUse, lastEnd(runs.Items))
		if next = runs.Continue; next == "" {
			return nil
		}
	}
}
