package workflows

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/telemetry/events"
)

// Actions of events about WorkflowRuns.
const (
	actionInitializing = "Initializing"
	actionExecuting    = "Executing"
	actionFinishing    = "Finishing"
)

// recently is how old the end of a WorkflowRun may be that is told of though nobody has seen it: a manager may have ended
// between the end and its event, and the next one tells. What was told is not stored twice, see package events.
const recently = 5 * time.Minute

// jobEvents are the events for the jobs that have failed between two statuses of a WorkflowRun. What fails because its
// WorkflowRun is to end early needs no word of its own.
func jobEvents(run *workflowsv1alpha1.WorkflowRun, before, after *workflowsv1alpha1.WorkflowRunStatus) []events.Event {
	if run.Spec.CancelRequested || !run.DeletionTimestamp.IsZero() {
		return nil
	}
	var all []events.Event
	for _, name := range sortedKeys(after.Jobs) {
		job := after.Jobs[name]
		if job.Phase != workflowsv1alpha1.JobFailed || before.Jobs[name].Phase == workflowsv1alpha1.JobFailed {
			continue
		}
		all = append(all, events.Event{
			Regarding: aboutRun(run), Type: corev1.EventTypeWarning, Reason: workflowsv1alpha1.EventJobFailed,
			Action: actionExecuting, Note: fmt.Sprintf("job %s failed: %s", name, job.Message), Key: name,
		})
	}
	return all
}

// endEvents tell how a finished WorkflowRun ended. One that was not accepted ended with that.
func endEvents(run *workflowsv1alpha1.WorkflowRun) []events.Event {
	accepted := meta.FindStatusCondition(run.Status.Conditions, workflowsv1alpha1.WorkflowRunConditionAccepted)
	if accepted != nil && accepted.Status == metav1.ConditionFalse {
		return []events.Event{{
			Regarding: aboutRun(run), Type: corev1.EventTypeWarning, Reason: accepted.Reason, Action: actionInitializing,
			Note: "not accepted: " + accepted.Message, Key: "end",
		}}
	}
	e := events.Event{Regarding: aboutRun(run), Type: corev1.EventTypeNormal, Action: actionFinishing, Note: run.Status.Message, Key: "end"}
	succeeded := meta.FindStatusCondition(run.Status.Conditions, workflowsv1alpha1.WorkflowRunConditionSucceeded)
	if succeeded == nil {
		return nil // never: both are written at once
	}
	e.Reason = succeeded.Reason
	switch run.Status.Phase {
	case workflowsv1alpha1.WorkflowSucceeded:
		e.Note = "all jobs succeeded"
		if took, ok := tookOf(run); ok {
			e.Note += " within " + duration.HumanDuration(took)
		}
	case workflowsv1alpha1.WorkflowFailed:
		e.Type = corev1.EventTypeWarning
	default:
	}
	return []events.Event{e}
}

// missed tells whether the end of a WorkflowRun that is seen for the first time may not have been told.
func missed(run *workflowsv1alpha1.WorkflowRun, now time.Time) bool {
	ended := run.Status.CompletionTime
	return run.Status.Phase.IsTerminal() && ended != nil && now.Sub(ended.Time) < recently
}

// tookOf is the time from the start of a finished WorkflowRun to its end; false where it is not known.
func tookOf(run *workflowsv1alpha1.WorkflowRun) (took time.Duration, ok bool) {
	started, ended := run.Status.StartTime, run.Status.CompletionTime
	if started == nil || ended == nil {
		return 0, false
	}
	return max(ended.Sub(started.Time), 0), true
}

func aboutRun(run *workflowsv1alpha1.WorkflowRun) corev1.ObjectReference {
	return events.About(workflowsv1alpha1.GroupVersion.WithKind("WorkflowRun"), run)
}
