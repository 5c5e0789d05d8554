// Package config holds the manifests of kruntimes as a kustomize tree, and renders its overlays without a kustomize
// binary, so that "krt dev" and the test suites install exactly what a cluster gets.
package config

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// The overlays that Render knows.
const (
	// OverlayDefault is everything that a cluster needs.
	OverlayDefault = "default"
	// OverlayDev is OverlayDefault without the Deployments of manager and scheduler.
	OverlayDev = "dev"
)

// Overlay returns the overlay with the given groups: core, core and workspaces, or all three.
func Overlay(enabled []string) string { return path.Join("overlays", folder(enabled)) }

// DevOverlay is Overlay without the Deployments of manager and scheduler.
func DevOverlay(enabled []string) string {
	if slices.Contains(enabled, "workflows") {
		return OverlayDev
	}
	return path.Join(OverlayDev, folder(enabled))
}

// folder is how the overlay of a set of groups is called.
func folder(enabled []string) string {
	switch {
	case slices.Contains(enabled, "workflows"):
		return "all"
	case slices.Contains(enabled, "workspaces"):
		return "core-workspaces"
	}
	return "core"
}

// Names of what the overlays install.
const (
	// Namespace is where manager and scheduler live.
	Namespace = "kruntimes-system"
	// ManagerServiceAccount is the identity of the manager in Namespace.
	ManagerServiceAccount = "kruntimes-manager"
	// SchedulerServiceAccount is the identity of the scheduler in Namespace.
	SchedulerServiceAccount = "kruntimes-scheduler"
	// RuntimedClusterRole is what the manager binds to the Pods of a Runtime.
	RuntimedClusterRole = "kruntimes-runtimed"
	// WorkspaceUserClusterRole lets its holder use the PersistentWorkspaces of a namespace; administrators bind it.
	WorkspaceUserClusterRole = "kruntimes-workspace-user"
	// WorkspaceUseWebhooks has the manager asked about Runs that name a workspace. It goes with group workspaces.
	WorkspaceUseWebhooks = "kruntimes-workspace-use"
	// WorkflowValidityWebhooks has it asked about definitions and WorkflowRuns. It goes with group workflows.
	WorkflowValidityWebhooks = "kruntimes-workflow-validity"
)

//go:embed certmanager clusterscope components crd default dev manager namespace overlays policy rbac samples scheduler webhook webhooknames
var tree embed.FS

// Render builds one overlay of the embedded tree and returns its objects as YAML documents.
func Render(overlay string) ([]byte, error) {
	disk := filesys.MakeFsInMemory()
	if err := copyTree(disk); err != nil {
		return nil, fmt.Errorf("unpacking the manifests: %w", err)
	}
	objects, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(disk, overlay)
	if err != nil {
		return nil, fmt.Errorf("building overlay %q: %w", overlay, err)
	}
	out, err := objects.AsYaml()
	if err != nil {
		return nil, fmt.Errorf("encoding overlay %q: %w", overlay, err)
	}
	return out, nil
}

func copyTree(disk filesys.FileSystem) error {
	return fs.WalkDir(tree, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := tree.ReadFile(path)
		if err != nil {
			return err
		}
		return disk.WriteFile(path, content)
	})
}
