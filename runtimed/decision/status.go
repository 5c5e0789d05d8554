package decision

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/statuspatch"
)

// reasonSucceeded is the reason of the condition Succeeded when it is True.
const reasonSucceeded = "Succeeded"

// IsOurs tells whether the status of run may still be written by the runtimed that claimed attempt of the Run uid on
// the Pod.
func IsOurs(run *corev1alpha1.Run, uid string, attempt int32, pod, podUID string) bool {
	return string(run.UID) == uid && run.CurrentAttempt() == attempt && run.IsAssignedTo(pod, podUID)
}

// ExecutionID names one attempt of a Run; it is unique for the lifetime of a Pod.
func ExecutionID(uid types.UID, attempt int32) string { return fmt.Sprintf("%s.%d", uid, attempt) }

// RunningStatus returns run with the status of an execution that has started.
func RunningStatus(run *corev1alpha1.Run, start time.Time) *corev1alpha1.Run {
	after := run.DeepCopy()
	after.Status.Phase = corev1alpha1.RunRunning
	after.Status.StartTime = microTime(start)
	after.Status.ObservedGeneration = run.Generation
	return after
}

// EndStatus returns run with the status that follows from the end of its attempt: handed back where nothing of the attempt
// was executed, or where the retry policy has another one left, else terminal. start is zero when nothing ran.
func EndStatus(run *corev1alpha1.Run, r Result, start, end time.Time) *corev1alpha1.Run {
	if after, ok := handedBack(run, r, end); ok {
		return after
	}
	return TerminalStatus(run, Final(r, run), start, end)
}

// IsHandedBack tells whether EndStatus hands run back.
func IsHandedBack(run *corev1alpha1.Run, r Result, end time.Time) bool {
	_, ok := handedBack(run, r, end)
	return ok
}

// handedBack is run as it waits for its next attempt; false when there is none.
func handedBack(run *corev1alpha1.Run, r Result, end time.Time) (*corev1alpha1.Run, bool) {
	r = Final(r, run)
	how := corev1alpha1.AttemptEnd{
		Reason: r.Reason, Message: statuspatch.Bounded(r.Message, maxMessage), ExitCode: r.ExitCode, Time: end,
	}
	if r.Unstarted {
		return run.HandedBackUnstarted(how)
	}
	return run.HandedBack(how)
}

// TerminalStatus returns run with the status of an execution that ended as r says. start is zero when nothing ran.
func TerminalStatus(run *corev1alpha1.Run, r Result, start, end time.Time) *corev1alpha1.Run {
	after := run.DeepCopy()
	s := &after.Status
	s.Phase, s.Reason, s.Message, s.ExitCode = r.Phase, r.Reason, statuspatch.Bounded(r.Message, maxMessage), r.ExitCode
	s.ObservedGeneration = run.Generation
	s.CompletionTime = microTime(end)
	if !start.IsZero() {
		s.StartTime = microTime(start)
	}
	s.Outputs = nil
	for key, value := range r.Outputs {
		if s.Outputs == nil {
			s.Outputs = make(map[string]corev1alpha1.OutputValue, len(r.Outputs))
		}
		s.Outputs[key] = corev1alpha1.OutputValue(value)
	}
	s.Artifacts = r.Artifacts
	setSucceeded(s, run.Generation, end)
	return after
}

// setSucceeded derives the condition Succeeded from the terminal phase.
func setSucceeded(s *corev1alpha1.RunStatus, generation int64, now time.Time) {
	condition := metav1.Condition{
		Type: corev1alpha1.RunConditionSucceeded, Status: metav1.ConditionFalse, Reason: string(s.Reason),
		ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(now),
	}
	condition.Message, _, _ = strings.Cut(s.Message, "\n")
	if s.Phase == corev1alpha1.RunSucceeded {
		condition.Status, condition.Reason = metav1.ConditionTrue, reasonSucceeded
	}
	for i := range s.Conditions {
		if s.Conditions[i].Type == condition.Type {
			s.Conditions[i] = condition
			return
		}
	}
	s.Conditions = append(s.Conditions, condition)
}

func microTime(t time.Time) *metav1.MicroTime {
	m := metav1.NewMicroTime(t.UTC().Truncate(time.Microsecond))
	return &m
}
