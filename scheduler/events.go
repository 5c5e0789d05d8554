package scheduler

import (
	corev1 "k8s.io/api/core/v1"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/telemetry/events"
)

const (
	// reporter is who tells in events.
	reporter = "kruntimes.io/scheduler"
	// actionScheduling is the action of events about Runs that wait.
	actionScheduling = "Scheduling"
)

// waitEvents are the events for a Run whose condition says why it waits. The condition is written anew when only the numbers
// in it have changed, which is no news. That a Run waits for its next attempt is told by whoever hands Runs back.
func waitEvents(n notice) []events.Event {
	before := told(n.run)
	is := n.verdict
	if is.Reason == corev1alpha1.ReasonBackoff || before.Reason == is.Reason && events.Words(before.Message) == events.Words(is.Message) {
		return nil
	}
	e := events.Event{
		Regarding: events.About(corev1alpha1.GroupVersion.WithKind("Run"), n.run),
		Type:      corev1.EventTypeNormal, Reason: is.Reason, Action: actionScheduling, Note: is.Message, Recurs: true,
		Key: events.Words(is.Message),
	}
	switch is.Reason {
	case corev1alpha1.ReasonRuntimeNotFound, corev1alpha1.ReasonExceedsCapacity: // Waiting alone does not help.
		e.Type = corev1.EventTypeWarning
	}
	return []events.Event{e}
}
