package scheduler

import (
	"fmt"
	"testing"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// TestAStandbyForgetsWhatHasGone shows the engine of a scheduler that is not the leader, and so is never asked for a
// decision, ten thousand Runs that others bind and finish.
func TestAStandbyForgetsWhatHasGone(t *testing.T) {
	w := newWorld(t)
	w.runtime(4)
	w.pod("pod", "")
	place := &assignment{podName: "pod", podUID: "uid-pod"}
	for i := range 10_000 {
		name := fmt.Sprintf("r%d", i)
		w.engine.runSeen(w.create(name, "1", func(r *corev1alpha1.Run) { r.Spec.Runtime = fmt.Sprintf("sh%d", i%100) }))
		w.engine.runSeen(w.store(name, assignedTo(place)))
		w.finish(name)
	}
	e := w.engine
	if len(e.runs) != 0 || e.queue.Len() != 0 || e.book.Len() != 0 || e.unexplained.len() != 0 {
		t.Errorf("%d Runs, %d queued, %d waiting, %d Runtimes to explain are left",
			len(e.runs), e.queue.Len(), e.book.Len(), e.unexplained.len())
	}
	// It can still do what it is there for.
	w.add("last", "1")
	if got := w.settle(); len(got) != 1 || got[0] != "last on pod" {
		t.Errorf("placed %v", got)
	}
}
