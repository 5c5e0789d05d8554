package definitions

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

// now is when the verdicts of these tests are given, and before when those were that are stored.
var (
	now    = time.Date(2026, 7, 6, 12, 0, 0, 0, time.UTC)
	before = now.Add(-time.Hour)
)

// ready is a status with condition Ready.
func ready(generation int64, status metav1.ConditionStatus, reason, message string, since time.Time) workflowsv1alpha1.DefinitionStatus {
	return workflowsv1alpha1.DefinitionStatus{ObservedGeneration: generation, Conditions: []metav1.Condition{{Type: "Ready", Status: status, Reason: reason,
		Message: message, ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(since)}}}
}

func TestCalculate(t *testing.T) {
	wrong := field.ErrorList{field.Required(field.NewPath("spec", "jobs"), "a"), field.Forbidden(field.NewPath("spec", "outputs"), "b")}
	missing := field.ErrorList{field.Invalid(field.NewPath("spec", "jobs").Key("a").Child("uses"), "x", "gone")}
	other := metav1.Condition{Type: "Example", Status: metav1.ConditionTrue, Reason: "Other", LastTransitionTime: metav1.NewTime(before)}
	withOther := func(s workflowsv1alpha1.DefinitionStatus) workflowsv1alpha1.DefinitionStatus {
		s.Conditions = append([]metav1.Condition{other}, s.Conditions...)
		return s
	}
	cases := map[string]struct {
		in   observation
		want workflowsv1alpha1.DefinitionStatus
	}{
		"a new one that is fine": {observation{generation: 1}, ready(1, "True", "Valid", "", now)},
		"a new one that is not": {observation{generation: 1, invalid: wrong},
			ready(1, "False", "Invalid", "spec.jobs: Required value: a; spec.outputs: Forbidden: b", now)},
		"one that calls what is not there": {observation{generation: 2, status: ready(1, "True", "Valid", "", before), unresolved: missing},
			ready(2, "False", "Unresolved", `spec.jobs[a].uses: Invalid value: "x": gone`, now)},
		"what is wrong in itself comes first": {observation{generation: 1, invalid: wrong[:1], unresolved: missing},
			ready(1, "False", "Invalid", "spec.jobs: Required value: a", now)},
		"nothing new": {observation{generation: 3, status: ready(3, "False", "Unresolved", `spec.jobs[a].uses: Invalid value: "x": gone`, before), unresolved: missing},
			ready(3, "False", "Unresolved", `spec.jobs[a].uses: Invalid value: "x": gone`, before)},
		"another reason is no transition": {observation{generation: 3, status: ready(3, "False", "Unresolved", "x", before), invalid: wrong[:1]},
			ready(3, "False", "Invalid", "spec.jobs: Required value: a", before)},
		"a new spec that is as good as the old one": {observation{generation: 4, status: ready(3, "True", "Valid", "", before)}, ready(4, "True", "Valid", "", before)},
		"what is healed": {observation{generation: 3, status: ready(3, "False", "Unresolved", "x", before)}, ready(3, "True", "Valid", "", now)},
		"conditions of others stay": {observation{generation: 1, status: withOther(ready(1, "True", "Valid", "", before)), invalid: wrong[:1]},
			withOther(ready(1, "False", "Invalid", "spec.jobs: Required value: a", now))},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.in.now = now
			was := *tc.in.status.DeepCopy()
			if diff := cmp.Diff(tc.want, calculate(&tc.in)); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(was, tc.in.status); diff != "" {
				t.Errorf("the observation was changed (-before +after):\n%s", diff)
			}
		})
	}
}

// TestTheMessageIsBounded has more to say than there is room for.
func TestTheMessageIsBounded(t *testing.T) {
	var errs field.ErrorList
	for i := range 101 {
		errs = append(errs, field.Required(field.NewPath("spec").Key(fmt.Sprintf("%d", i)), strings.Repeat("ä", 200)))
	}
	status := calculate(&observation{invalid: errs, now: now})
	got := status.Conditions[0].Message
	if len(got) > workflowsv1alpha1.MaxReadyMessageBytes || !strings.HasSuffix(got, "ä; and 63 more") {
		t.Errorf("%d bytes, ending in %q", len(got), got[len(got)-40:])
	}
	errs = field.ErrorList{field.Required(field.NewPath("spec"), strings.Repeat("ä", 20_000))}
	status = calculate(&observation{invalid: errs, now: now})
	got = status.Conditions[0].Message
	if len(got) > workflowsv1alpha1.MaxReadyMessageBytes || !strings.HasSuffix(got, "ä…") {
		t.Errorf("%d bytes, ending in %q", len(got), got[len(got)-40:])
	}
}

func TestChangeEvents(t *testing.T) {
	none := workflowsv1alpha1.DefinitionStatus{}
	cases := map[string]struct {
		before, after workflowsv1alpha1.DefinitionStatus
		want          []string
	}{
		"it cannot be used from the start": {none, ready(1, "False", "Unresolved", "x", now), nil},
		"it can be used":                   {none, ready(1, "True", "Valid", "", now), nil},
		"it can no longer be used":         {ready(1, "True", "Valid", "", before), ready(1, "False", "Unresolved", "x", now), []string{"Warning Unresolved it cannot be used any more: x"}},
		"it is changed and cannot be used": {ready(1, "True", "Valid", "", before), ready(2, "False", "Invalid", "y", now), []string{"Warning Invalid it cannot be used any more: y"}},
		"it can be used again":             {ready(1, "False", "Unresolved", "x", before), ready(1, "True", "Valid", "", now), nil},
		"it cannot be used in other ways":  {ready(1, "False", "Unresolved", "x", before), ready(1, "False", "Unresolved", "y", now), nil},
		"somebody takes the condition off": {ready(1, "True", "Valid", "", before), none, nil},
		"nothing is new":                   {ready(1, "True", "Valid", "", before), ready(2, "True", "Valid", "", before), nil},
	}
	object := &workflowsv1alpha1.Workflow{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "w", UID: "u"}}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, e := range changeEvents(kindWorkflow, object, &tc.before, &tc.after) {
				got = append(got, e.Type+" "+e.Reason+" "+e.Note)
				if e.Regarding.Kind != "Workflow" || e.Regarding.UID != "u" || !e.Recurs {
					t.Errorf("event %+v", e)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}
