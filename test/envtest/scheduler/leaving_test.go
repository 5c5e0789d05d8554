package scheduler

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/scheduler"
)

// TestADeletedRunKeepsItsPlaceUntilItIsKilled deletes a Run on the only place. The API server shows the scheduler that as
// it shows the end of a Run, and only a Run that has ended frees its place at once.
func TestADeletedRunKeepsItsPlaceUntilItIsKilled(t *testing.T) {
	ns := shared.Namespace(t)
	runtimeOf(t, ns, "sh", 1, "1")
	shared.RuntimePod(t, ns, "sh", "pod-a")
	clock := clocktesting.NewFakeClock(time.Now())
	start(t, scheduler.Options{Config: identity(t), Clock: clock})
	scheduled := func(name string) *corev1alpha1.Run {
		t.Helper()
		return eventuallyRun(t, ns, name, "scheduled", isScheduled)
	}
	shared.Create(t, newRun(ns, "finishes", "sh"))
	finishes := scheduled("finishes")
	shared.Create(t, newRun(ns, "deleted", "sh"))
	succeed(t)(t.Context(), finishes)
	shared.Delete(t, scheduled("deleted"))

	shared.Create(t, newRun(ns, "next", "sh"))
	waiting := eventuallyRun(t, ns, "next", "told why it waits", func(r *corev1alpha1.Run) bool {
		clock.Step(10 * time.Millisecond)
		return len(r.Status.Conditions) > 0
	})
	if got := waiting.Status.Conditions[0].Reason; got != corev1alpha1.ReasonInsufficientCapacity {
		t.Fatalf("the next Run is told %s", got)
	}
	clock.Step(corev1alpha1.StopGrace + 5*time.Second)
	scheduled("next")
}
