// Package workspace is the plugin that places Runs by the workspace that they refer to: on the Pod to which it is bound,
// told from a later one of its name by its UID. A Run whose workspace cannot be used now waits; none of the reasons for
// that ends it.
package workspace

import (
	"fmt"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/scheduler/framework"
)

const (
	// Name identifies the plugin in configuration, logs and metrics.
	Name = "Workspace"

	// TextElsewhere is shown for a Pod to which the workspace is not bound.
	TextElsewhere = "without the workspace"
)

// Workspace rejects Pods to which the Run's workspace is not bound.
type Workspace struct{}

var (
	_ framework.PreFilterPlugin = (*Workspace)(nil)
	_ framework.FilterPlugin    = (*Workspace)(nil)
	_ framework.EventsPlugin    = (*Workspace)(nil)

	skip      = &framework.Status{Code: framework.Skip}
	elsewhere = framework.Reject(framework.Unavailable, corev1alpha1.ReasonWorkspacePodUnavailable, TextElsewhere)
)

// New makes the plugin.
func New() *Workspace { return &Workspace{} }

// Name is the plugin's name.
func (*Workspace) Name() string { return Name }

// EventsToRegister are a change of the workspace, and the return of its Pod.
func (*Workspace) EventsToRegister() framework.Events {
	return framework.WorkspaceChanged | framework.PodAvailable
}

// PreFilter rejects a Run whose workspace cannot be used now, on whatever Pod.
func (*Workspace) PreFilter(c *framework.Cycle) *framework.Status {
	if c.Run.Workspace == nil {
		return skip
	}
	w := c.Snapshot.Workspace
	if w == nil {
		return framework.Reject(framework.Unresolvable, corev1alpha1.ReasonWorkspaceNotFound,
			fmt.Sprintf("the namespace has no PersistentWorkspace %q", c.Run.Workspace.Name))
	}
	if w.Runtime != c.Run.Runtime {
		return framework.Reject(framework.Unresolvable, corev1alpha1.ReasonWorkspaceMismatch,
			fmt.Sprintf("PersistentWorkspace %q belongs to Runtime %q, not %q", w.Name, w.Runtime, c.Run.Runtime))
	}
	switch w.Phase {
	case workspacesv1alpha1.WorkspacePending:
		return framework.Reject(framework.Unresolvable, corev1alpha1.ReasonWorkspacePending,
			fmt.Sprintf("PersistentWorkspace %q has no Pod yet", w.Name))
	case workspacesv1alpha1.WorkspaceReleased:
		return framework.Reject(framework.Unresolvable, corev1alpha1.ReasonWorkspaceReleased,
			fmt.Sprintf("PersistentWorkspace %q is being deleted", w.Name))
	case workspacesv1alpha1.WorkspaceLost:
		return framework.Reject(framework.Unresolvable, corev1alpha1.ReasonWorkspaceLost,
			fmt.Sprintf("PersistentWorkspace %q is lost: its Pod is gone, and its files with it", w.Name))
	case workspacesv1alpha1.WorkspaceBound:
	}
	c.Narrow("") // room helps on one Pod only
	if w.PodTakes {
		return nil
	}
	return unavailable(w, c.Snapshot.Pods)
}

// unavailable rejects a Run while the Pod of its workspace takes no Run.
func unavailable(w *framework.WorkspaceInfo, pods []*framework.PodInfo) *framework.Status {
	why := "is gone"
	for _, pod := range pods {
		if pod.Name != w.Pod {
			continue
		}
		switch {
		case pod.UID != w.PodUID:
			why = "has been replaced by another of its name"
			continue
		case pod.NodeGone:
			why = "is on a Node that is gone"
		case pod.Terminating:
			why = "is terminating"
		case pod.Ready:
			return nil
		case pod.NotReadyReason == "":
			why = "is not ready"
		default:
			why = "is not ready: " + pod.NotReadyReason
		}
		break
	}
	return framework.Reject(framework.Unschedulable, corev1alpha1.ReasonWorkspacePodUnavailable,
		fmt.Sprintf("the Pod of PersistentWorkspace %q %s", w.Name, why))
}

// Filter rejects the Pods to which the workspace is not bound.
func (*Workspace) Filter(c *framework.Cycle, pod *framework.PodInfo) *framework.Status {
	if w := c.Snapshot.Workspace; pod.Name == w.Pod && pod.UID == w.PodUID {
		return nil
	}
	return elsewhere
}
