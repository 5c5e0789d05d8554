package scheduler

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/scheduler/explain"
	"kruntimes.io/kruntimes/telemetry/events"
)

func TestWaitEvents(t *testing.T) {
	full := func(message string) explain.Verdict {
		return explain.Verdict{Reason: corev1alpha1.ReasonInsufficientCapacity, Message: message}
	}
	event := func(kind string, v explain.Verdict, key string) []events.Event {
		e := events.Event{Type: kind, Reason: v.Reason, Action: "Scheduling", Note: v.Message, Key: key, Recurs: true}
		e.Regarding.APIVersion, e.Regarding.Kind = "kruntimes.io/v1alpha1", "Run"
		e.Regarding.Namespace, e.Regarding.Name, e.Regarding.UID = "n", "r", "u"
		return []events.Event{e}
	}
	missing := explain.Verdict{Reason: corev1alpha1.ReasonRuntimeNotFound, Message: `the namespace has no Runtime "x"`}
	tooLarge := explain.Verdict{Reason: corev1alpha1.ReasonExceedsCapacity, Message: "the Run requests 2 of runs"}
	cases := map[string]struct {
		before, is explain.Verdict
		want       []events.Event
	}{
		"told for the first time":   {explain.Verdict{}, full("4 Pods: 4 full"), event("Normal", full("4 Pods: 4 full"), " Pods:  full")},
		"only the numbers differ":   {full("4 Pods: 4 full"), full("3 Pods: 3 full"), nil},
		"other words":               {full("4 Pods: 4 full"), full("4 Pods: 4 not ready"), event("Normal", full("4 Pods: 4 not ready"), " Pods:  not ready")},
		"nothing that time mends":   {full("4 Pods: 4 full"), missing, event("Warning", missing, missing.Message)},
		"larger than any Pod":       {explain.Verdict{}, tooLarge, event("Warning", tooLarge, "the Run requests  of runs")},
		"between two attempts":      {explain.Verdict{}, explain.Verdict{Reason: corev1alpha1.ReasonBackoff, Message: "attempt 2"}, nil},
		"the same words once again": {missing, missing, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			run := &corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "r", UID: "u"}}
			if tc.before != (explain.Verdict{}) {
				run.Status.Conditions = []metav1.Condition{{Type: corev1alpha1.RunConditionScheduled, Status: metav1.ConditionFalse, Reason: tc.before.Reason, Message: tc.before.Message}}
			}
			if diff := cmp.Diff(tc.want, waitEvents(notice{run: run, verdict: tc.is})); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}
