// Package v1alpha1 holds the API group workspaces.kruntimes.io: PersistentWorkspace, a directory that Runs share.
//
// +kubebuilder:object:generate=true
// +groupName=workspaces.kruntimes.io
package v1alpha1
