package core

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// figures are what a change of a Run adds to the metrics. Times that do not apply, or that are not known, are nil.
type figures struct {
	// scheduling is from creation to the first assignment.
	scheduling *time.Duration
	// starting is from the last assignment to the start of the process, execution from there to the end, whole from
	// creation to the end.
	starting, execution, whole *time.Duration
	// phase and reason are how the Run ended; the phase is empty while it has not.
	phase  corev1alpha1.RunPhase
	reason corev1alpha1.RunReason
	// retried is why an attempt ended that is followed by another one.
	retried corev1alpha1.RunReason
}

// calculateFigures derives the figures of a change from the Run's own times. created is when it was created, as near as is known.
func calculateFigures(before, after *corev1alpha1.Run, created time.Time) figures {
	var f figures
	s := &after.Status
	if before.Status.ScheduledTime == nil && s.ScheduledTime != nil && before.CurrentAttempt() == 1 && after.CurrentAttempt() == 1 {
		f.scheduling = between(created, s.ScheduledTime)
	}
	if after.CurrentAttempt() > before.CurrentAttempt() {
		f.retried = s.Reason
	}
	if !s.Phase.IsTerminal() || before.Status.Phase.IsTerminal() {
		return f
	}
	f.phase, f.reason, f.retried = s.Phase, s.Reason, ""
	if s.StartTime != nil {
		if s.ScheduledTime != nil {
			f.starting = between(s.ScheduledTime.Time, s.StartTime)
		}
		f.execution = between(s.StartTime.Time, s.CompletionTime)
	}
	f.whole = between(created, s.CompletionTime)
	return f
}

// between is the time that has passed, never less than nothing: the clocks of two nodes differ.
func between(from time.Time, to *metav1.MicroTime) *time.Duration {
	if to == nil {
		return nil
	}
	d := max(to.Sub(from), 0)
	return &d
}
