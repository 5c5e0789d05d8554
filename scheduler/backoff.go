package scheduler

import "time"

// notBefore is when a waiting Run that was handed back may be tried again. Its nextAttemptTime comes from the clock of a
// node, which may be far ahead or behind. So a scheduler that has seen the Run come back measures the wait by its own clock,
// from then on. Another one, which began later, believes the time, but does not wait longer than the policy says.
func notBefore(t *trackedRun) time.Time {
	next := t.run.Status.NextAttemptTime
	switch {
	case next == nil:
		return time.Time{}
	case t.run.Spec.RetryPolicy == nil:
		return next.Time
	}
	wait := t.run.RetryWait(t.run.Status.Attempt)
	if !t.attemptSince.IsZero() {
		return t.attemptSince.Add(wait)
	}
	if latest := t.since.Add(wait); latest.Before(next.Time) {
		return latest
	}
	return next.Time
}
