package cache

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/scheduler/framework"
)

// SetWorkspace stores a PersistentWorkspace that was created or changed.
func (c *Cache) SetWorkspace(info *framework.WorkspaceInfo) Change {
	if old, ok := c.workspaces[info.Key()]; ok && *old == *info {
		return Change{}
	}
	c.workspaces[info.Key()] = info
	return Change{Workspace: info.Key()}
}

// RemoveWorkspace forgets a PersistentWorkspace.
func (c *Cache) RemoveWorkspace(key types.NamespacedName) Change {
	if _, ok := c.workspaces[key]; !ok {
		return Change{}
	}
	delete(c.workspaces, key)
	return Change{Workspace: key}
}

// withWorkspace returns a copy of a snapshot that holds the workspace.
func (c *Cache) withWorkspace(s *framework.Snapshot, key types.NamespacedName, now time.Time) *framework.Snapshot {
	with := *s
	if w, ok := c.workspaces[key]; ok {
		info := *w
		info.PodTakes = c.PodTakes(info.PodUID, now)
		with.Workspace = &info
	}
	return &with
}

// WorkspaceOf reads what plugins may know of a PersistentWorkspace.
func WorkspaceOf(w *workspacesv1alpha1.PersistentWorkspace) *framework.WorkspaceInfo {
	info := &framework.WorkspaceInfo{
		Namespace: w.Namespace, Name: w.Name, Runtime: w.Spec.Runtime, Phase: w.Status.Phase,
		Pod: w.Status.BoundPod, PodUID: types.UID(w.Status.BoundPodUID),
	}
	if w.IsReleased() && info.Phase != workspacesv1alpha1.WorkspaceLost {
		info.Phase = workspacesv1alpha1.WorkspaceReleased
	}
	return info
}
