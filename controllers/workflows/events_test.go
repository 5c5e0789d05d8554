package workflows

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/telemetry/events"
)

// word is an event without what all events about WorkflowRuns share.
type word struct{ Type, Reason, Key, Note string }

func wordsOf(all []events.Event) []word {
	var out []word
	for _, e := range all {
		out = append(out, word{e.Type, e.Reason, e.Key, e.Note})
	}
	return out
}

func TestJobEvents(t *testing.T) {
	jobs := func(phases map[string]workflowsv1alpha1.JobPhase) *workflowsv1alpha1.WorkflowRunStatus {
		status := &workflowsv1alpha1.WorkflowRunStatus{Jobs: map[string]workflowsv1alpha1.JobStatus{}}
		for name, phase := range phases {
			status.Jobs[name] = workflowsv1alpha1.JobStatus{Phase: phase, Message: "step s of " + name + ": ScriptFailed: exit code 3"}
		}
		return status
	}
	type phases = map[string]workflowsv1alpha1.JobPhase
	failed := func(name string) word {
		return word{"Warning", "JobFailed", name, "job " + name + " failed: step s of " + name + ": ScriptFailed: exit code 3"}
	}
	cases := map[string]struct {
		before, after phases
		change        func(*workflowsv1alpha1.WorkflowRun)
		want          []word
	}{
		"it begins":              {nil, phases{"a": "Pending"}, nil, nil},
		"a job succeeds":         {phases{"a": "Running"}, phases{"a": "Succeeded"}, nil, nil},
		"a job fails":            {phases{"a": "Running", "b": "Waiting"}, phases{"a": "Failed", "b": "Skipped"}, nil, []word{failed("a")}},
		"two jobs fail":          {phases{"b": "Running", "a": "Running"}, phases{"b": "Failed", "a": "Failed"}, nil, []word{failed("a"), failed("b")}},
		"a second job fails":     {phases{"a": "Failed", "b": "Running"}, phases{"a": "Failed", "b": "Failed"}, nil, []word{failed("b")}},
		"a job is cancelled":     {phases{"a": "Running"}, phases{"a": "Failed"}, func(r *workflowsv1alpha1.WorkflowRun) { r.Spec.CancelRequested = true }, nil},
		"it is being deleted":    {phases{"a": "Running"}, phases{"a": "Failed"}, func(r *workflowsv1alpha1.WorkflowRun) { r.DeletionTimestamp = ptr.To(metav1.Now()) }, nil},
		"nothing of it is known": {phases{"a": "Failed"}, nil, nil, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			run := &workflowsv1alpha1.WorkflowRun{}
			if tc.change != nil {
				tc.change(run)
			}
			if diff := cmp.Diff(tc.want, wordsOf(jobEvents(run, jobs(tc.before), jobs(tc.after)))); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEndEvents(t *testing.T) {
	began := time.Unix(1_000_000, 0)
	cases := map[string]struct {
		phase            workflowsv1alpha1.WorkflowPhase
		accepted, reason string
		want             word
	}{
		"succeeded":    {"Succeeded", "", "JobsSucceeded", word{"Normal", "JobsSucceeded", "end", "all jobs succeeded within 95s"}},
		"failed":       {"Failed", "", "JobsFailed", word{"Warning", "JobsFailed", "end", "what the status says"}},
		"cancelled":    {"Cancelled", "", "Cancelled", word{"Normal", "Cancelled", "end", "what the status says"}},
		"no outputs":   {"Failed", "", "OutputsFailed", word{"Warning", "OutputsFailed", "end", "what the status says"}},
		"not accepted": {"Failed", "InvalidJobs", "NotAccepted", word{"Warning", "InvalidJobs", "end", "not accepted: a cycle"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			run := &workflowsv1alpha1.WorkflowRun{Status: workflowsv1alpha1.WorkflowRunStatus{
				Phase: tc.phase, Message: "what the status says", StartTime: micro(began), CompletionTime: micro(began.Add(95 * time.Second)),
				Conditions: []metav1.Condition{{Type: "Accepted", Status: metav1.ConditionTrue, Reason: "Accepted"}, {Type: "Succeeded", Reason: tc.reason}},
			}}
			if tc.accepted != "" {
				run.Status.Conditions[0] = metav1.Condition{Type: "Accepted", Status: metav1.ConditionFalse, Reason: tc.accepted, Message: "a cycle"}
			}
			if diff := cmp.Diff([]word{tc.want}, wordsOf(endEvents(run))); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			trimmed, err := trimWorkflowRun(run.DeepCopy())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(endEvents(run), endEvents(trimmed.(*workflowsv1alpha1.WorkflowRun))); diff != "" {
				t.Errorf("what the cache leaves of it tells something else (-whole +cached):\n%s", diff)
			}
		})
	}
}

func TestMissed(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	cases := map[string]struct {
		phase workflowsv1alpha1.WorkflowPhase
		ended *metav1.MicroTime
		want  bool
	}{
		"active":              {"Running", nil, false},
		"ended a moment ago":  {"Failed", micro(now.Add(-time.Second)), true},
		"ended long ago":      {"Failed", micro(now.Add(-recently)), false},
		"nobody knows when":   {"Failed", nil, false},
		"ended by a clock on": {"Succeeded", micro(now.Add(time.Hour)), true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			run := &workflowsv1alpha1.WorkflowRun{Status: workflowsv1alpha1.WorkflowRunStatus{Phase: tc.phase, CompletionTime: tc.ended}}
			if got := missed(run, now); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
