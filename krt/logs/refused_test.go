package logs

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
	"kruntimes.io/kruntimes/krt/workflowruns"
)

func TestARefusedWorkflowRunHasNoOutput(t *testing.T) {
	run := &workflowsv1alpha1.WorkflowRun{ObjectMeta: metav1.ObjectMeta{Name: "ci", Namespace: "team"}}
	run.Status = workflowsv1alpha1.WorkflowRunStatus{Phase: workflowsv1alpha1.WorkflowFailed, Message: "not accepted: no jobs",
		Conditions: []metav1.Condition{{Type: workflowsv1alpha1.WorkflowRunConditionAccepted, Status: metav1.ConditionFalse}}}
	l, err := newStepLogs(&options{factory: &cli.Factory{IO: genericiooptions.NewTestIOStreamsDiscard(), Name: "krt"}}, workflowruns.Alone(run))
	if err != nil {
		t.Fatal(err)
	}
	want := "the WorkflowRun ci has no output, for it was not accepted: no jobs"
	if err := l.nothing(); err == nil || err.Error() != want {
		t.Errorf("got error %v, want %s", err, want)
	}
}
