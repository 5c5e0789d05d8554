// Package readiness is the plugin that keeps Runs away from Pods that take none: not ready, terminating, or without their
// Node. It also says why there is no Pod at all.
package readiness

import (
	"fmt"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/scheduler/framework"
)

const (
	// Name identifies the plugin in configuration, logs and metrics.
	Name = "Readiness"

	// TextTerminating is shown for a Pod that is being shut down.
	TextTerminating = "terminating"
	// TextNodeGone is shown for a Pod whose Node is not there any more.
	TextNodeGone = "on a Node that is gone"
	// TextNotReady is shown for a Pod that is not ready; the Pod's own reason follows.
	TextNotReady = "not ready"
)

// Readiness rejects Pods that take no Runs.
type Readiness struct{}

var (
	_ framework.PreFilterPlugin = (*Readiness)(nil)
	_ framework.FilterPlugin    = (*Readiness)(nil)
	_ framework.EventsPlugin    = (*Readiness)(nil)

	// A workspace may tie a Run to a Pod that is terminating.
	terminating = unavailable(framework.ClosedForMost, TextTerminating)
	nodeGone    = unavailable(framework.ClosedForAll, TextNodeGone)
)

func unavailable(closed framework.Closed, text string) *framework.Status {
	return &framework.Status{Code: framework.Unavailable, Closed: closed, Reason: corev1alpha1.ReasonNoReadyPods, Text: text}
}

// New makes the plugin.
func New() *Readiness { return &Readiness{} }

// Name is the plugin's name.
func (*Readiness) Name() string { return Name }

// EventsToRegister are the arrival of a Pod and a change of the Runtime.
func (*Readiness) EventsToRegister() framework.Events {
	return framework.PodAvailable | framework.RuntimeChanged
}

// PreFilter rejects Runs whose Runtime does not exist or has no Pod.
func (*Readiness) PreFilter(c *framework.Cycle) *framework.Status {
	runtime := c.Snapshot.Runtime
	switch {
	case runtime == nil:
		return framework.Reject(framework.Unresolvable, corev1alpha1.ReasonRuntimeNotFound,
			fmt.Sprintf("the namespace has no Runtime %q", c.Run.Runtime))
	case runtime.Deleting:
		return framework.Reject(framework.Unresolvable, corev1alpha1.ReasonNoPods,
			fmt.Sprintf("Runtime %q is being deleted", runtime.Name))
	case len(c.Snapshot.Pods) > 0:
		return nil
	case runtime.Replicas == 0:
		return framework.Reject(framework.Unschedulable, corev1alpha1.ReasonNoPods,
			fmt.Sprintf("Runtime %q is scaled to 0 replicas", runtime.Name))
	case runtime.Trouble != "":
		return framework.Reject(framework.Unschedulable, corev1alpha1.ReasonNoPods,
			fmt.Sprintf("Runtime %q has none of its %d Pods: %s", runtime.Name, runtime.Replicas, runtime.Trouble))
	}
	return framework.Reject(framework.Unschedulable, corev1alpha1.ReasonNoPods,
		fmt.Sprintf("Runtime %q has none of its %d Pods yet", runtime.Name, runtime.Replicas))
}

// Filter rejects a Pod that is terminating, without its Node, or not ready, unless it is on its way out and holds the Run's
// workspace.
func (*Readiness) Filter(c *framework.Cycle, pod *framework.PodInfo) *framework.Status {
	switch {
	case pod.Terminating && c.Snapshot.TakesThoughTerminating(pod.UID):
		return nil
	case pod.Terminating:
		return terminating
	case pod.NodeGone:
		return nodeGone
	case pod.Ready:
		return nil
	case pod.NotReadyReason == "":
		return unavailable(framework.ClosedForAll, TextNotReady)
	}
	return unavailable(framework.ClosedForAll, TextNotReady+": "+pod.NotReadyReason)
}
