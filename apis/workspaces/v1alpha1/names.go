package v1alpha1

import (
	"path"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

const (
	// Finalizer keeps a PersistentWorkspace until its directory is gone. The WorkflowRun controller sets it at create, the
	// workspace controller before it writes Bound. Removed by the runtimed of the bound Pod after it has removed the
	// directory, and by the workspace controller when there is no directory: never bound, or Lost.
	Finalizer = "workspaces.kruntimes.io/cleanup"

	// FieldBoundPod is a selectable field of PersistentWorkspace.
	FieldBoundPod = "status.boundPod"

	// SubresourceUse and VerbUse are what a principal needs in order to create a Run that references a workspace: the
	// verb "use" on the resource persistentworkspaces/use, by the name of the workspace where resourceNames are given.
	SubresourceUse = "use"
	// VerbUse is the verb on SubresourceUse.
	VerbUse = "use"
	// Resource is the plural name of PersistentWorkspace in the API.
	Resource = "persistentworkspaces"
	// Kind is the kind of PersistentWorkspace.
	Kind = "PersistentWorkspace"

	// Directory is below the mount path of the workspace volume, and holds one directory per PersistentWorkspace.
	Directory = "persistent"
)

// Path is where the directory of the workspace name is in the Pod to which it is bound: status.path.
func Path(name string) string { return path.Join(corev1alpha1.WorkspaceMountPath, Directory, name) }
