// Package workspace is the plugin that places Runs by the workspace that they refer to. This version has no workspaces, so
// it keeps such Runs waiting: to place them as if they had none would break a promise; to fail them would end what a later
// version can do.
package workspace

import (
	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/scheduler/framework"
)

const (
	// Name identifies the plugin in configuration, logs and metrics.
	Name = "Workspace"

	// TextUnsupported is shown for Runs with spec.workspace.
	TextUnsupported = "spec.workspace is not supported in this version"
)

// Workspace rejects Runs with a workspace.
type Workspace struct{}

var (
	_ framework.PreFilterPlugin = (*Workspace)(nil)
	_ framework.EventsPlugin    = (*Workspace)(nil)

	unsupported = framework.Reject(framework.Unresolvable, corev1alpha1.ReasonUnschedulable, TextUnsupported)
)

// New makes the plugin.
func New() *Workspace { return &Workspace{} }

// Name is the plugin's name.
func (*Workspace) Name() string { return Name }

// EventsToRegister is none: the field is immutable.
func (*Workspace) EventsToRegister() framework.Events { return 0 }

// PreFilter rejects Runs with a workspace.
func (*Workspace) PreFilter(c *framework.Cycle) *framework.Status {
	if c.Run.Workspace != nil {
		return unsupported
	}
	return nil
}
