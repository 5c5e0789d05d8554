package v1alpha1

import (
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What the schema's defaults make of fields that are not set, for policies that did not come from an API server.
const (
	defaultBackoff    = time.Second
	defaultMaxBackoff = 5 * time.Minute
)

// spreadShare is the share of a wait, one in so many, over which it is spread: thousands of Runs that fail together, because a
// service is away, must not come back together.
const spreadShare = 4

// Attempts is the number of attempts in all that p allows. It is 1 for a Run without a policy.
func (p *RetryPolicy) Attempts() int32 {
	if p == nil {
		return 1
	}
	return max(p.MaxAttempts, 1)
}

// Wait is how long attempt, counted from 1, waits after the one before it, before that is spread: backoff before the second,
// twice that before the third, and so on, never more than maxBackoff. The first does not wait.
func (p *RetryPolicy) Wait(attempt int32) time.Duration {
	if p == nil || attempt <= 1 {
		return 0
	}
	wait, bound := defaultBackoff, p.longestWait()
	if p.Backoff != nil {
		wait = max(p.Backoff.Duration, 0)
	}
	for n := int32(2); n < attempt && 0 < wait && wait < bound; n++ {
		if wait > bound/2 {
			return bound // twice as much would be more, or not fit
		}
		wait *= 2
	}
	return min(wait, bound)
}

// longestWait is maxBackoff of a policy, or its default.
func (p *RetryPolicy) longestWait() time.Duration {
	if p.MaxBackoff == nil {
		return defaultMaxBackoff
	}
	return max(p.MaxBackoff.Duration, 0)
}

// RetryWait is how long attempt of r, counted from 1, waits after the one before it: what its policy says, and up to a
// quarter of that more. Where that could be more than maxBackoff, it is what lies between four fifths of maxBackoff and all
// of it. Where in between is made of the UID and the attempt, so that everybody comes to the same result.
func (r *Run) RetryWait(attempt int32) time.Duration {
	wait := r.Spec.RetryPolicy.Wait(attempt)
	if wait == 0 {
		return 0
	}
	bound := r.Spec.RetryPolicy.longestWait()
	wait = min(wait, bound-bound/(spreadShare+1))
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d/%s", attempt, r.UID) // a hash takes everything
	const bits = 53                                // as many as a float64 keeps
	share := float64(h.Sum64()>>(64-bits)) / (1 << bits)
	return min(wait+time.Duration(share*float64(wait/spreadShare)), bound)
}

// Retries tells whether an attempt, counted from 1, that failed for reason is followed by another one. Success, which
// has no reason, and Cancelled never are, even if retryOn names it.
func (p *RetryPolicy) Retries(attempt int32, reason RunReason) bool {
	if p == nil || reason == "" || reason == RunReasonCancelled || attempt >= p.Attempts() {
		return false
	}
	return len(p.RetryOn) == 0 || slices.Contains(p.RetryOn, reason)
}

// NextAttempt decides whether the present attempt of r, which ended for reason at a time, is followed by another one,
// and when. A Run that somebody wants to end or to delete is not tried again.
//
// The wait begins with the assignment at the earliest: the clock of a node that is behind that of the scheduler would
// make it too short. A scheduler that sees the Run come back measures the wait once more, by its own clock.
func (r *Run) NextAttempt(reason RunReason, ended time.Time) (at time.Time, ok bool) {
	attempt := r.CurrentAttempt()
	if r.Spec.CancelRequested || !r.DeletionTimestamp.IsZero() || !r.Spec.RetryPolicy.Retries(attempt, reason) {
		return time.Time{}, false
	}
	return r.waitBegins(ended).Add(r.RetryWait(attempt + 1)), true
}

// waitBegins is when the wait for the next attempt begins after the present one ended.
func (r *Run) waitBegins(ended time.Time) time.Time {
	if t := r.Status.ScheduledTime; t != nil && ended.Before(t.Time) {
		return t.Time
	}
	return ended
}

// UnstartedWait is how long a Run waits at least that was handed back before anything of it was executed; 0 for not at all.
// One whose workspace could not be used on its Pod waits for 1 s: whoever placed it there may not know that for a moment,
// and would place it there again.
func UnstartedWait(reason RunReason) time.Duration {
	if reason == RunReasonWorkspaceUnavailable {
		return time.Second
	}
	return 0
}

// AttemptEnd is how an attempt ended that may be followed by another one.
// +kubebuilder:object:generate=false
type AttemptEnd struct {
	// Reason and Message say why.
	Reason  RunReason
	Message string
	// ExitCode is nil when nothing has run to an end.
	ExitCode *int32
	// Time is when it ended.
	Time time.Time
}

// HandedBack returns r as it waits for its next attempt after the present one ended, and false when there is none. All
// of it is one patch: Pending, without a Pod, with the number of the next attempt and its time. What the old attempt
// left behind, such as outputs, is dropped; why it ended stays, until the next one has ended.
func (r *Run) HandedBack(end AttemptEnd) (*Run, bool) {
	next, ok := r.NextAttempt(end.Reason, end.Time)
	if !ok {
		return nil, false
	}
	return r.handedBackUntil(end, next), true
}

// handedBackUntil is r as it waits until a time for the attempt after the present one.
func (r *Run) handedBackUntil(end AttemptEnd, next time.Time) *Run {
	at := metav1.NewMicroTime(next.UTC().Truncate(time.Microsecond))
	after := r.handedBack(end, ReasonBackoff, BackoffMessage(r.CurrentAttempt()+1, next))
	after.Status.NextAttemptTime = &at
	return after
}

// HandedBackUnstarted returns r as it waits for another Pod, because the one that it was assigned to was shut down, or has
// not got its workspace, before anything of the attempt began to execute. That is no failure: no policy is asked, though the
// attempt counts, and nothing but UnstartedWait is waited for. It returns false for a Run that somebody wants to end or to
// delete.
func (r *Run) HandedBackUnstarted(end AttemptEnd) (*Run, bool) {
	if r.Spec.CancelRequested || !r.DeletionTimestamp.IsZero() {
		return nil, false
	}
	if wait := UnstartedWait(end.Reason); wait > 0 {
		return r.handedBackUntil(end, r.waitBegins(end.Time).Add(wait)), true
	}
	return r.handedBack(end, ReasonHandedBack, end.Message), true
}

// handedBack is r as it waits for the attempt after the present one; reason and message say in its conditions why it does.
func (r *Run) handedBack(end AttemptEnd, reason, message string) *Run {
	after := r.DeepCopy()
	after.Status = RunStatus{
		Phase: RunPending, ObservedGeneration: r.Generation, Attempt: r.CurrentAttempt() + 1,
		Reason: end.Reason, Message: end.Message, ExitCode: end.ExitCode, Conditions: after.Status.Conditions,
	}
	meta.SetStatusCondition(&after.Status.Conditions, metav1.Condition{
		Type: RunConditionScheduled, Status: metav1.ConditionFalse, Reason: reason, Message: message,
		ObservedGeneration: r.Generation, LastTransitionTime: metav1.NewTime(end.Time),
	})
	return after
}

// BackoffMessage is the message of the condition Scheduled with ReasonBackoff. Whoever hands a Run back and the scheduler
// use the same words, so that the scheduler has nothing to write.
func BackoffMessage(attempt int32, until time.Time) string {
	return fmt.Sprintf("attempt %d is not tried before %s", attempt, until.UTC().Format(time.RFC3339))
}
