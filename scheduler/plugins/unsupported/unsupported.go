// Package unsupported is the plugin that keeps Runs waiting whose placement rules this version does not know yet. To
// place them as if they had no rules would break a promise; to fail them would end what a later version can do.
package unsupported

import (
	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/scheduler/framework"
)

const (
	// Name identifies the plugin in configuration, logs and metrics.
	Name = "Unsupported"

	// TextWorkspace is shown for Runs with spec.workspace.
	TextWorkspace = "spec.workspace is not supported in this version"
)

// Unsupported rejects Runs with a workspace.
type Unsupported struct{}

var (
	_ framework.PreFilterPlugin = (*Unsupported)(nil)
	_ framework.EventsPlugin    = (*Unsupported)(nil)

	workspace = framework.Reject(framework.Unresolvable, corev1alpha1.ReasonUnschedulable, TextWorkspace)
)

// New makes the plugin.
func New() *Unsupported { return &Unsupported{} }

// Name is the plugin's name.
func (*Unsupported) Name() string { return Name }

// EventsToRegister is none: the field is immutable.
func (*Unsupported) EventsToRegister() framework.Events { return 0 }

// PreFilter rejects what is not known.
func (*Unsupported) PreFilter(c *framework.Cycle) *framework.Status {
	if c.Run.Workspace != nil {
		return workspace
	}
	return nil
}
