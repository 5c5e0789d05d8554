package scheduler

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// TestARunThatGoesWhileItMayExecute has one place, a Run on it, and a second one that waits. What counts is whether the
// second gets the place.
func TestARunThatGoesWhileItMayExecute(t *testing.T) {
	cases := map[string]struct {
		do   func(w *world)
		want []string
	}{
		"deleted: the execution may still be stopped": {func(w *world) { w.delete("a") }, nil},
		"deleted, and almost surely killed": {func(w *world) {
			w.delete("a")
			w.clock.Step(leaveTime - time.Millisecond)
		}, nil},
		"deleted, and surely killed": {func(w *world) {
			w.delete("a")
			w.clock.Step(leaveTime)
		}, []string{"b on pod"}},
		"deleted, and its Pod is replaced": {func(w *world) {
			w.delete("a")
			w.engine.podGone("uid-pod")
			w.pod("next", "")
		}, []string{"b on next"}},
		"finished, as one watch shows first": {func(w *world) {
			w.engine.runFinished("uid-a")
			w.engine.runGone("uid-a")
			delete(w.runs, "a")
		}, []string{"b on pod"}},
		"finished, as the other watch shows first": {func(w *world) {
			w.engine.runGone("uid-a")
			w.engine.runFinished("uid-a")
			delete(w.runs, "a")
		}, []string{"b on pod"}},
		"finished, and then shown as it was before": {func(w *world) {
			w.engine.runFinished("uid-a")
			w.engine.runSeen(w.store("a", func(r *corev1alpha1.Run) { r.Status.Phase = corev1alpha1.RunRunning }))
			w.engine.runGone("uid-a")
			delete(w.runs, "a")
		}, []string{"b on pod"}},
		"out of sight for a moment": {func(w *world) {
			w.engine.runGone("uid-a")
			w.engine.runSeen(w.runs["a"])
			w.clock.Step(leaveTime)
		}, []string{"a on pod"}},
		"a Run that waits is deleted": {func(w *world) { w.delete("b") }, []string{"a on pod"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.runtime(1)
			w.pod("pod", "")
			w.add("a", "1")
			w.settle()
			w.add("b", "1")
			tc.do(w)
			if diff := cmp.Diff(tc.want, w.settle()); diff != "" {
				t.Errorf("placements (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTheLoopWakesForThoseThatLeave asks how long the loop would sleep.
func TestTheLoopWakesForThoseThatLeave(t *testing.T) {
	w := newWorld(t)
	w.runtime(2)
	w.pod("pod", "")
	w.add("a", "1")
	w.add("b", "1")
	w.settle()
	w.delete("a")
	w.clock.Step(5 * time.Second)
	w.delete("b")
	if _, wait := w.engine.next(); wait != leaveTime-5*time.Second {
		t.Errorf("sleeps for %s, want %s", wait, leaveTime-5*time.Second)
	}
	w.clock.Step(leaveTime - 5*time.Second)
	if _, wait := w.engine.next(); wait != 5*time.Second {
		t.Errorf("sleeps for %s after the first has left, want 5s", wait)
	}
}

// TestAStandbyForgetsThoseThatLeave deletes Runs under an engine that is never asked for a decision, one each second.
func TestAStandbyForgetsThoseThatLeave(t *testing.T) {
	w := newWorld(t)
	w.runtime(4)
	w.pod("pod", "")
	for i := range 1000 {
		name := fmt.Sprintf("r%d", i)
		w.engine.runSeen(w.create(name, "1", assignedTo(&assignment{podName: "pod", podUID: "uid-pod"})))
		w.delete(name)
		w.clock.Step(time.Second)
	}
	want := int(leaveTime / time.Second)
	if l := &w.engine.leaving; len(l.until) > want || len(l.order) > want {
		t.Errorf("%d leave, %d in order, want at most %d", len(l.until), len(l.order), want)
	}
}
