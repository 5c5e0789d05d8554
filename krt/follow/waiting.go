package follow

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// How long a phase may last before a person is told what it waits for.
const (
	pendingPatience   = time.Second
	scheduledPatience = 5 * time.Second
	// schedulerPatience is longer than a scheduler takes that runs: it says first what it finds, such as a missing Runtime.
	schedulerPatience = 5 * time.Second
)

// Waiting says what a Run that has been in its phase for a while waits for. It returns the empty string for a Run that
// executes or is over, and during the first moments of a phase.
func Waiting(run *corev1alpha1.Run, inPhase time.Duration) string {
	switch {
	case run.Status.Phase == corev1alpha1.RunScheduled && inPhase >= scheduledPatience:
		return fmt.Sprintf("assigned to Pod %s, which has not reported a start", run.Status.AssignedPod)
	case run.Status.Phase != corev1alpha1.RunPending && run.Status.Phase != "", inPhase < pendingPatience:
		return ""
	}
	if run.Spec.CancelRequested {
		return "its cancellation is requested, and nobody has acted on that yet"
	}
	scheduled := meta.FindStatusCondition(run.Status.Conditions, corev1alpha1.RunConditionScheduled)
	switch {
	case scheduled != nil && scheduled.Status == metav1.ConditionFalse && scheduled.Message != "":
		return fmt.Sprintf("%s (%s)", scheduled.Message, scheduled.Reason)
	case scheduled != nil && scheduled.Status == metav1.ConditionFalse:
		return scheduled.Reason
	case run.Status.NextAttemptTime != nil:
		return "attempt " + fmt.Sprint(run.Status.Attempt) + " starts at " + run.Status.NextAttemptTime.Format(time.RFC3339)
	}
	if inPhase < schedulerPatience {
		return ""
	}
	return "the scheduler has not looked at it yet"
}
