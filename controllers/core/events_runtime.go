package core

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/telemetry/events"
)

// actionReconciling is the action of events about Runtimes.
const actionReconciling = "Reconciling"

// runtimeEvents are the events for a change of a Runtime's conditions:
//
//  1. What keeps its Pods from being there, or made: a warning.
//  2. That they are being replaced, are all there, or not asked for any more.
//  3. That the last ready Pod has gone, unless 1 says why.
//
// That Pods are starting is told of the Pods themselves. Numbers alone are no news.
func runtimeEvents(before, after *corev1alpha1.Runtime) []events.Event {
	var all []events.Event
	was, is := runtimeCondition(before, corev1alpha1.RuntimeConditionProgressing), runtimeCondition(after, corev1alpha1.RuntimeConditionProgressing)
	if is.Reason != was.Reason || events.Words(is.Message) != events.Words(was.Message) {
		switch is.Reason {
		case corev1alpha1.ReasonPodsFailing, corev1alpha1.ReasonPodsRefused, corev1alpha1.ReasonDeploymentRefused:
			all = append(all, runtimeEvent(after, is, corev1.EventTypeWarning))
		case corev1alpha1.ReasonPodsReady, corev1alpha1.ReasonRollingOut, corev1alpha1.ReasonScaledToZero:
			if is.Reason != was.Reason {
				all = append(all, runtimeEvent(after, is, corev1.EventTypeNormal))
			}
		}
	}
	was, is = runtimeCondition(before, corev1alpha1.RuntimeConditionAvailable), runtimeCondition(after, corev1alpha1.RuntimeConditionAvailable)
	if was.Status == metav1.ConditionTrue && is.Status == metav1.ConditionFalse && (len(all) == 0 || all[0].Reason != is.Reason) {
		all = append(all, runtimeEvent(after, is, corev1.EventTypeWarning))
	}
	return all
}

// runtimeEvent tells what a condition says. The same may happen again and again: it is counted then.
func runtimeEvent(runtime *corev1alpha1.Runtime, c metav1.Condition, kind string) events.Event {
	return events.Event{
		Regarding: events.About(corev1alpha1.GroupVersion.WithKind("Runtime"), runtime),
		Type:      kind, Reason: c.Reason, Action: actionReconciling, Note: c.Message, Recurs: true,
		Key: fmt.Sprintf("%d %s %s", runtime.Generation, c.Type, events.Words(c.Message)),
	}
}

// runtimeCondition returns a condition, an empty one where there is none.
func runtimeCondition(runtime *corev1alpha1.Runtime, kind string) metav1.Condition {
	if c := meta.FindStatusCondition(runtime.Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}
