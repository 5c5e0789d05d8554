package statuspatch

import (
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
)

// ForPersistentWorkspace returns the patch that turns the status of before into that of after, or nil when they are equal.
func ForPersistentWorkspace(before, after *workspacesv1alpha1.PersistentWorkspace) ([]byte, error) {
	return build(before, &before.Status, &after.Status)
}
