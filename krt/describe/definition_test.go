package describe

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

// calledDefinitions are a Workflow that is not ready, one that nobody has looked at yet, one whose last change nobody has
// looked at, and an Action.
func calledDefinitions() []client.Object {
	ready := func(status metav1.ConditionStatus, reason, message string) workflowsv1alpha1.DefinitionStatus {
		return workflowsv1alpha1.DefinitionStatus{ObservedGeneration: 1, Conditions: []metav1.Condition{{Type: workflowsv1alpha1.ConditionReady, Status: status,
			ObservedGeneration: 1, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(noon.Add(-time.Minute))}}}
	}
	release := &workflowsv1alpha1.Workflow{ObjectMeta: meta("release", time.Hour), Spec: workflowsv1alpha1.WorkflowSpec{
		Inputs: map[string]workflowsv1alpha1.Input{
			"version": {Required: true, Description: "what is released"}, "channel": {Default: ptr.To("stable")}, "notes": {Description: "two\nlines \x1b[2J"},
		},
		Outputs: map[string]workflowsv1alpha1.Output{"url": {Value: "${{ jobs.publish.outputs.url }}", Description: "where it is"}},
		Jobs: map[string]workflowsv1alpha1.Job{
			"announce": {RunsOn: "${{ inputs.channel }}", Needs: []string{"publish", "build"}, Steps: []workflowsv1alpha1.Step{{Name: "say", Run: "say"}}},
			"build":    {RunsOn: "sh", Steps: []workflowsv1alpha1.Step{{Name: "a", Uses: "setup"}, {Name: "b", Run: "make"}, {Name: "c", Uses: "check"}, {Name: "d", Uses: "setup"}}},
			"publish":  {Uses: "publish", Needs: []string{"build"}},
		},
	}, Status: ready(metav1.ConditionFalse, workflowsv1alpha1.ReasonUnresolved, `spec.jobs[build].steps[2].uses: there is no Action "check" in this namespace; spec.jobs[publish].uses: there is no Workflow "publish" in this namespace`)}
	release.Labels = map[string]string{"team": "data"}
	fresh := &workflowsv1alpha1.Workflow{ObjectMeta: meta("fresh", time.Second), Spec: workflowsv1alpha1.WorkflowSpec{
		Jobs: map[string]workflowsv1alpha1.Job{"a": {Uses: "b"}}}}
	setup := &workflowsv1alpha1.Action{ObjectMeta: meta("setup", time.Hour), Spec: workflowsv1alpha1.ActionSpec{
		Outputs: map[string]workflowsv1alpha1.Output{"dir": {Value: "${{ steps.unpack.outputs.dir }}"}},
		Steps:   []workflowsv1alpha1.Step{{Name: "unpack", Run: "\nset -e\ntar x\n", Timeout: &metav1.Duration{Duration: 90 * time.Second}}, {Name: "check", Run: "check"}},
	}, Status: ready(metav1.ConditionTrue, workflowsv1alpha1.ReasonValid, "")}
	changed := setup.DeepCopy()
	changed.ObjectMeta = meta("changed", time.Hour)
	changed.Generation = 2
	return []client.Object{release, fresh, setup, changed}
}
