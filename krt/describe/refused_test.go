package describe

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/krt/workflowruns"
)

// Of a WorkflowRun that was not accepted no job shows as one that waits, and no condition with a line break written out.
func TestARefusedWorkflowRun(t *testing.T) {
	run := &workflowsv1alpha1.WorkflowRun{ObjectMeta: metav1.ObjectMeta{Name: "ci", Namespace: "team", CreationTimestamp: metav1.NewTime(noon.Add(-time.Minute))}}
	run.Spec.Jobs = map[string]workflowsv1alpha1.Job{"a": {RunsOn: "sh", Steps: []workflowsv1alpha1.Step{{Name: "s", Run: "true"}}}}
	run.Status = workflowsv1alpha1.WorkflowRunStatus{Phase: workflowsv1alpha1.WorkflowFailed, Message: "not accepted: a\nb", StartTime: micro(-time.Minute),
		CompletionTime: micro(-time.Minute), Conditions: []metav1.Condition{{Type: workflowsv1alpha1.WorkflowRunConditionAccepted, Status: metav1.ConditionFalse,
			Reason: workflowsv1alpha1.ReasonInvalidJobs, Message: "a\nb", LastTransitionTime: metav1.NewTime(noon.Add(-time.Minute))}}}
	const want = `Name:         ci
Namespace:    team
Phase:        Failed
Failed first: not accepted: a
              b
Jobs:         none of 1 was started: it was not accepted
Created:      2026-08-01T11:59:00Z (60s ago)
Started:      2026-08-01T11:59:00.000Z
Ended:        2026-08-01T11:59:00.000Z, took 0s

Jobs
  ✗ ci  Failed  11:59:00  0s  not accepted

Conditions
  TYPE       STATUS   REASON        SINCE   MESSAGE
  Accepted   False    InvalidJobs   60s     a; b
`
	if diff := cmp.Diff(want, (&workflowRunView{family: workflowruns.Alone(run)}).text(noon)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
