package definitions

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/telemetry/events"
)

// actionJudging is the action of events about definitions.
const actionJudging = "Judging"

// readyOf returns condition Ready, an empty one where there is none.
func readyOf(status *workflowsv1alpha1.DefinitionStatus) metav1.Condition {
	if c := meta.FindStatusCondition(status.Conditions, workflowsv1alpha1.ConditionReady); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// changeEvents tell that a definition which could be used no longer can: what it calls has been changed or deleted, as a rule,
// by somebody who did not look at this one. That one cannot be used to begin with is no news, and its status says it: while
// a set of definitions is applied, most of them call what is not there yet.
func changeEvents(kind string, object metav1.Object, before, after *workflowsv1alpha1.DefinitionStatus) []events.Event {
	was, is := readyOf(before), readyOf(after)
	if was.Status != metav1.ConditionTrue || is.Status != metav1.ConditionFalse {
		return nil
	}
	return []events.Event{{
		Regarding: events.About(workflowsv1alpha1.GroupVersion.WithKind(kind), object),
		Type:      corev1.EventTypeWarning, Reason: is.Reason, Action: actionJudging, Note: "it cannot be used any more: " + is.Message, Recurs: true,
		Key: fmt.Sprintf("%d %s", is.ObservedGeneration, is.Message),
	}}
}
