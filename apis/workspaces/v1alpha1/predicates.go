package v1alpha1

// IsReleased tells whether no Run may use w any more although its directory may still exist: it is on its way out, be that
// written or only decided by its deletion.
func (w *PersistentWorkspace) IsReleased() bool {
	return w.DeletionTimestamp != nil || w.Status.Phase == WorkspaceReleased
}

// IsBoundTo tells whether w may be used on the Pod of that name and UID.
func (w *PersistentWorkspace) IsBoundTo(pod, uid string) bool {
	return !w.IsReleased() && w.Status.Phase == WorkspaceBound && w.Status.BoundPod == pod && w.Status.BoundPodUID == uid
}
