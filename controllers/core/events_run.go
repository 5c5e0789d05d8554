package core

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/telemetry/events"
)

// Actions of events about Runs.
const (
	actionFinishing = "Finishing"
	actionRetrying  = "Retrying"
)

// recently is how old a transition may be that is told of though nobody has seen it happen: a manager may have ended between
// a transition and its event, and the next one tells. What was told is not stored twice, see package events. Older ones
// are left alone, so that a restart does not send an event for every Run that ever failed.
const recently = 5 * time.Minute

// runEvents are the events for a change of a Run, whoever made it.
func runEvents(before, after *corev1alpha1.Run) []events.Event {
	switch {
	case after.Status.Phase.IsTerminal():
		if before.Status.Phase.IsTerminal() {
			return nil
		}
		return endEvents(after)
	case after.CurrentAttempt() > before.CurrentAttempt():
		return []events.Event{retryEvent(after)}
	default:
		return nil
	}
}

// missedRunEvents are the events for a Run that is seen for the first time, and in which something happened lately.
func missedRunEvents(run *corev1alpha1.Run, now time.Time) []events.Event {
	switch {
	case run.Status.Phase.IsTerminal():
		if ended := run.Status.CompletionTime; ended != nil && now.Sub(ended.Time) < recently {
			return endEvents(run)
		}
	case run.Status.Phase.OrPending() == corev1alpha1.RunPending && run.CurrentAttempt() > 1:
		scheduled := meta.FindStatusCondition(run.Status.Conditions, corev1alpha1.RunConditionScheduled)
		if scheduled != nil && now.Sub(scheduled.LastTransitionTime.Time) < recently {
			return []events.Event{retryEvent(run)}
		}
	}
	return nil
}

// endEvents tell how a Run ended. Success is not told: it is the usual end, and must cost nothing.
func endEvents(run *corev1alpha1.Run) []events.Event {
	e := events.Event{
		Regarding: aboutRun(run), Type: corev1.EventTypeWarning, Action: actionFinishing, Key: "end",
		Reason: string(cmp.Or(run.Status.Reason, corev1alpha1.RunReason(run.Status.Phase))),
		Note:   ofAttempts(run) + cmp.Or(run.Status.Message, "the Run is "+string(run.Status.Phase)),
	}
	switch run.Status.Phase {
	case corev1alpha1.RunSucceeded:
		return nil
	case corev1alpha1.RunCancelled:
		e.Type = corev1.EventTypeNormal
	default:
	}
	return []events.Event{e}
}

// ofAttempts says at which attempt a Run ended, if it had several.
func ofAttempts(run *corev1alpha1.Run) string {
	if run.Spec.RetryPolicy.Attempts() == 1 && run.CurrentAttempt() == 1 {
		return ""
	}
	return attemptOf(run) + ": "
}

// attemptOf names the present attempt. A Run that is handed back before anything was executed gets another one whatever its
// policy is, so that there may be more than that allows.
func attemptOf(run *corev1alpha1.Run) string {
	attempt, allowed := run.CurrentAttempt(), run.Spec.RetryPolicy.Attempts()
	if attempt > allowed {
		return fmt.Sprintf("attempt %d", attempt)
	}
	return fmt.Sprintf("attempt %d of %d", attempt, allowed)
}

// retryEvent tells that a Run was handed back for its next attempt.
func retryEvent(run *corev1alpha1.Run) events.Event {
	next := run.CurrentAttempt()
	note := fmt.Sprintf("attempt %d ended (%s); %s", next-1, run.Status.Reason, attemptOf(run))
	if at := run.Status.NextAttemptTime; at != nil {
		note += " is not tried before " + at.UTC().Format(time.RFC3339)
	} else {
		note += " follows"
	}
	if run.Status.Message != "" {
		note += ": " + run.Status.Message
	}
	return events.Event{
		Regarding: aboutRun(run), Type: corev1.EventTypeNormal, Reason: corev1alpha1.EventRetrying, Action: actionRetrying,
		Note: note, Key: fmt.Sprintf("attempt %d", next),
	}
}

func aboutRun(run *corev1alpha1.Run) corev1.ObjectReference {
	return events.About(corev1alpha1.GroupVersion.WithKind("Run"), run)
}
