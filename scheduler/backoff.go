package scheduler

import (
	"time"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// notBefore is when a waiting Run that was handed back may be tried again. Its nextAttemptTime comes from the clock of a
// node, which may be far ahead or behind. So a scheduler that has seen the Run come back measures the wait by its own clock,
// from then on. Another one, which began later, believes the time, but does not wait longer than the policy says. No policy
// has anything to say on a Run of which nothing was executed.
func notBefore(t *trackedRun) time.Time {
	next, wait := t.run.Status.NextAttemptTime, corev1alpha1.UnstartedWait(t.run.Status.Reason)
	switch {
	case next == nil:
		return time.Time{}
	case wait > 0:
	case t.run.Spec.RetryPolicy == nil:
		return next.Time
	default:
		wait = t.run.RetryWait(t.run.Status.Attempt)
	}
	if !t.attemptSince.IsZero() {
		return t.attemptSince.Add(wait)
	}
	if latest := t.since.Add(wait); latest.Before(next.Time) {
		return latest
	}
	return next.Time
}
