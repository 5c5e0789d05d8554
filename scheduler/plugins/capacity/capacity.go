// Package capacity is the plugin that keeps the units which Runs take of a Pod within what its Runtime offers.
package capacity

import (
	"fmt"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/scheduler/framework"
)

const (
	// Name identifies the plugin in configuration, logs and metrics.
	Name = "Capacity"

	// TextFull is shown for a Pod that lacks units; the first resource that is short follows in parentheses.
	TextFull = "full"
	// TextHeld is shown for a Pod that has room, which is kept for a Run that has waited too long.
	TextHeld = "held for an older Run"
)

// Capacity rejects Pods without room for the Run, in any logical resource that the Run requests.
type Capacity struct{}

var (
	_ framework.PreFilterPlugin = (*Capacity)(nil)
	_ framework.FilterPlugin    = (*Capacity)(nil)
	_ framework.EventsPlugin    = (*Capacity)(nil)

	held = &framework.Status{
		Code: framework.Unschedulable, Reason: corev1alpha1.ReasonInsufficientCapacity, Text: TextHeld, Crowded: true,
	}
)

// New makes the plugin.
func New() *Capacity { return &Capacity{} }

// Name is the plugin's name.
func (*Capacity) Name() string { return Name }

// EventsToRegister are the ways in which units become free.
func (*Capacity) EventsToRegister() framework.Events {
	return framework.CapacityFreed | framework.PodAvailable | framework.RuntimeChanged
}

// PreFilter rejects a Run that is larger than an empty Pod.
func (*Capacity) PreFilter(c *framework.Cycle) *framework.Status {
	if c.Snapshot.Runtime == nil {
		return nil
	}
	for _, want := range c.Run.Requests {
		if offered := c.Snapshot.Runtime.Capacity.Of(want.Name); want.Milli > offered {
			return framework.Reject(framework.Unresolvable, corev1alpha1.ReasonExceedsCapacity,
				fmt.Sprintf("the Run requests %s of %s, an empty Pod of Runtime %q has %s",
					framework.Units(want.Milli), want.Name, c.Snapshot.Runtime.Name, framework.Units(offered)))
		}
	}
	return nil
}

// Filter rejects a Pod in which any requested resource is short. A request of zero is never short, not even on a Pod
// whose capacity was lowered below its use.
func (*Capacity) Filter(c *framework.Cycle, pod *framework.PodInfo) *framework.Status {
	for _, want := range c.Run.Requests {
		if want.Milli == 0 {
			continue
		}
		used, offered := pod.Used.Of(want.Name), pod.Capacity.Of(want.Name)
		if want.Milli > offered-used {
			return full(c, shortage{resource: want.Name, used: used, offered: offered, closed: closed(pod)})
		}
		if h := pod.HeldFromOthers(c.Run); h != nil && want.Milli > offered-used-h.Requests.Of(want.Name) {
			return held
		}
	}
	return nil
}

// least is what every Run requests of the resource "runs", at the least: the schema wants whole ones. Unit: thousandths.
const least = 1000

// closed tells whether the Pod has no room for any Run.
func closed(pod *framework.PodInfo) framework.Closed {
	const runs = string(corev1alpha1.ResourceRuns)
	if pod.Capacity.Of(runs)-pod.Used.Of(runs) < least {
		return framework.ClosedForAll
	}
	return framework.ClosedForSome
}

// full makes the verdict on a Pod. Most full Pods are equally full, so the last verdict is kept to be used again.
func full(c *framework.Cycle, s shortage) *framework.Status {
	if last, ok := c.Kept(Name).(*framework.Status); ok && last.Detail == s {
		return last
	}
	status := &framework.Status{
		Closed: s.closed, Code: framework.Unschedulable, Reason: corev1alpha1.ReasonInsufficientCapacity, Text: TextFull, Detail: s, Crowded: true,
	}
	c.Keep(Name, status)
	return status
}

// shortage prints how much of a Pod's resource is in use.
type shortage struct {
	resource      string
	used, offered int64
	closed        framework.Closed
}

// String is put behind TextFull.
func (s shortage) String() string {
	return fmt.Sprintf(" (%s %s/%s)", s.resource, framework.Units(s.used), framework.Units(s.offered))
}
