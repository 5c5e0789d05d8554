package scheduler

import "time"

// notBefore is when a waiting Run that was handed back may be tried again: at its nextAttemptTime, but never later than
// its policy makes it wait from the moment on in which it was seen. The time comes from the clock of a node, which may
// be far ahead.
func notBefore(t *trackedRun) time.Time {
	next := t.run.Status.NextAttemptTime
	if next == nil {
		return time.Time{}
	}
	if policy := t.run.Spec.RetryPolicy; policy != nil {
		if latest := t.since.Add(policy.Wait(t.run.Status.Attempt)); latest.Before(next.Time) {
			return latest
		}
	}
	return next.Time
}
