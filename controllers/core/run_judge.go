package core

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// action is what a verdict asks for.
type action int

const (
	// actionNone leaves the Run alone.
	actionNone action = iota
	// actionEnd writes the phase of the verdict.
	actionEnd
	// actionHandBack gives the Run back to the scheduler for its next attempt.
	actionHandBack
	// actionDelete deletes the Run.
	actionDelete
)

// graceMargin is how long a Pod may stay past its grace period before it is taken for lost.
const graceMargin = 30 * time.Second

// podRecheck is how often the Pod of an active Run is looked at although nothing was heard of it. A Pod that has lost
// the labels by which it is watched ends unheard.
const podRecheck = time.Minute

// verdict is what becomes of a Run.
type verdict struct {
	action action
	// phase is set for actionEnd, reason and message for actionHandBack as well.
	phase   corev1alpha1.RunPhase
	reason  corev1alpha1.RunReason
	message string
	// unstarted tells, with actionHandBack, that nothing of the attempt was executed.
	unstarted bool
	// recheck is when to look again although nothing happens; 0 for never.
	recheck time.Duration
}

// judge decides what becomes of a Run. pod is the Pod that it is assigned to, and nil when that is gone; end is what is known
// of how it went.
//
//  1. A finished Run is deleted when its time to live is over.
//  2. A Run without a Pod whose end is asked for is cancelled. So is one that is being deleted and that a finalizer keeps:
//     whoever has set that may wait for the end.
//  3. A Run whose Pod is gone is cancelled when its end was asked for. Else it is handed back where it was assigned so late
//     that the Pod did not start it, or where its retry policy has another attempt; else it has failed. Which of them is
//     known when the Pod's last events have come.
//  4. A Run whose Pod is about to go is looked at again when the Pod's time is up, or before.
//  5. A Run whose Pod is there is looked at again from time to time.
func judge(run *corev1alpha1.Run, pod *corev1.Pod, end podEnd, now time.Time) verdict {
	switch phase := run.Status.Phase; {
	case phase.IsTerminal():
		return expire(run, now)
	case !phase.IsActive():
		if endAsked(run) != "" {
			return cancelled(beforeAssignment(run))
		}
		return verdict{}
	case pod == nil && endAsked(run) != "":
		return cancelled(fmt.Sprintf("%s; its Pod %s is gone", endAsked(run), run.Status.AssignedPod))
	case pod == nil && end.drained && phase == corev1alpha1.RunScheduled:
		return unstarted(run)
	case pod == nil && end.unheard > 0 && phase == corev1alpha1.RunScheduled:
		return verdict{recheck: end.unheard}
	case pod == nil:
		return lost(run, end, now)
	case !pod.DeletionTimestamp.IsZero():
		return verdict{recheck: min(lostAt(pod).Sub(now), podRecheck)}
	default:
		return verdict{recheck: podRecheck}
	}
}

// lost is the verdict on a Run whose Pod is gone.
func lost(run *corev1alpha1.Run, end podEnd, now time.Time) verdict {
	v := verdict{action: actionEnd, phase: corev1alpha1.RunFailed, reason: corev1alpha1.RunReasonRuntimePodLost,
		message: fmt.Sprintf("Pod %s is gone, and nobody reported how the execution ended", run.Status.AssignedPod)}
	if end.words != "" {
		v.message += ": " + end.words
	}
	if _, ok := run.NextAttempt(v.reason, now); ok {
		v.action, v.phase = actionHandBack, ""
	}
	return v
}

// unstarted is the verdict on a Run that was assigned to a Pod after that had looked for its Runs for the last time.
func unstarted(run *corev1alpha1.Run) verdict {
	return verdict{action: actionHandBack, unstarted: true, reason: corev1alpha1.RunReasonPodTerminated,
		message: fmt.Sprintf("Pod %s was shut down before the execution started", run.Status.AssignedPod)}
}

// endAsked says in which way somebody has asked for the end of a Run; empty when nobody has.
func endAsked(run *corev1alpha1.Run) string {
	switch {
	case run.Spec.CancelRequested:
		return "cancelled"
	case !run.DeletionTimestamp.IsZero():
		return "deleted"
	}
	return ""
}

// beforeAssignment says when a Run without a Pod was cancelled or deleted.
func beforeAssignment(run *corev1alpha1.Run) string {
	if attempt := run.CurrentAttempt(); attempt > 1 {
		return fmt.Sprintf("%s before attempt %d was assigned to a Pod", endAsked(run), attempt)
	}
	return endAsked(run) + " before it was assigned to a Pod"
}

func cancelled(message string) verdict {
	return verdict{action: actionEnd, phase: corev1alpha1.RunCancelled, reason: corev1alpha1.RunReasonCancelled, message: message}
}

func expire(run *corev1alpha1.Run, now time.Time) verdict {
	if run.Spec.TTLSecondsAfterFinished == nil {
		return verdict{}
	}
	finished := run.CreationTimestamp.Time
	if run.Status.CompletionTime != nil {
		finished = run.Status.CompletionTime.Time
	}
	left := finished.Add(time.Duration(*run.Spec.TTLSecondsAfterFinished) * time.Second).Sub(now)
	if left <= 0 {
		return verdict{action: actionDelete}
	}
	return verdict{recheck: left}
}

// isHere tells whether pod is the one that the Run is assigned to, and may still execute it: it has not ended or drained,
// and its grace period is not over for long.
func isHere(run *corev1alpha1.Run, pod *corev1.Pod, now time.Time) bool {
	if string(pod.UID) != run.Status.AssignedPodUID {
		return false
	}
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded || hasDrained(pod) {
		return false
	}
	return pod.DeletionTimestamp.IsZero() || now.Before(lostAt(pod))
}

// lostAt is when a Pod that is being deleted counts as lost. Its deletionTimestamp is the end of its grace period.
func lostAt(pod *corev1.Pod) time.Time { return pod.DeletionTimestamp.Add(graceMargin) }

// finish puts the verdict into a status. Everything else of it stays, except an exit code that is not the last attempt's.
func finish(status *corev1alpha1.RunStatus, generation int64, v verdict, now time.Time) {
	completion := metav1.NewMicroTime(now)
	if status.Phase.IsActive() {
		status.ExitCode = nil // an earlier attempt's
	}
	status.Phase, status.Reason, status.Message = v.phase, v.reason, v.message
	status.ObservedGeneration = generation
	status.CompletionTime = &completion
	status.NextAttemptTime = nil
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: corev1alpha1.RunConditionSucceeded, Status: metav1.ConditionFalse, ObservedGeneration: generation,
		Reason: string(v.reason), Message: v.message, LastTransitionTime: metav1.NewTime(now),
	})
}
