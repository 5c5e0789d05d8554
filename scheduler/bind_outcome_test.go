package scheduler

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// TestOutcomesOfABind goes through the ways in which a bind can end, on one place for which a second Run waits. What
// counts is whether the place is given to the second Run, and whether the first is tried again.
func TestOutcomesOfABind(t *testing.T) {
	handBack := func(r *corev1alpha1.Run) {
		r.Status.Phase, r.Status.AssignedPod, r.Status.AssignedPodUID, r.Status.Attempt = corev1alpha1.RunPending, "", "", 2
	}
	label := func(r *corev1alpha1.Run) { r.Labels = map[string]string{"touched": "yes"} }
	cases := map[string]struct {
		// do is told the decision on Run a, which nobody has stored yet.
		do   func(w *world, a *assignment)
		want []string
	}{
		"not known yet: the place stays taken": {func(*world, *assignment) {}, nil},
		"stored, and not shown yet: the place stays taken": {func(w *world, a *assignment) {
			w.engine.bound(a, w.store("a", assignedTo(a)).ResourceVersion)
		}, nil},
		"not answered, while the informer shows a change without a Pod: the place stays taken": {func(w *world, _ *assignment) {
			w.engine.runSeen(w.store("a", label))
		}, nil},
		"seen assigned, then an older version is shown late": {func(w *world, a *assignment) {
			w.engine.runSeen(w.store("a", assignedTo(a)))
			w.engine.runSeen(a.run)
		}, nil},
		"stored, while the informer still shows older versions": {func(w *world, a *assignment) {
			touched := w.store("a", label)
			w.engine.bound(a, w.store("a", assignedTo(a)).ResourceVersion)
			w.engine.runSeen(touched)
		}, nil},
		"shown before the answer came": {func(w *world, a *assignment) {
			r := w.store("a", assignedTo(a))
			w.engine.runSeen(r)
			w.engine.bound(a, r.ResourceVersion)
		}, nil},
		"shown, finished, and only then answered": {func(w *world, a *assignment) {
			r := w.store("a", assignedTo(a))
			w.engine.runSeen(r)
			w.finish("a")
			w.engine.bound(a, r.ResourceVersion)
		}, []string{"b"}},
		"stored and handed back before the answer came": {func(w *world, a *assignment) {
			r := w.store("a", assignedTo(a))
			w.engine.runSeen(w.store("a", handBack))
			w.engine.bound(a, r.ResourceVersion)
		}, []string{"a"}},
		"stored, answered, handed back": {func(w *world, a *assignment) {
			r := w.store("a", assignedTo(a))
			w.engine.bound(a, r.ResourceVersion)
			w.engine.runSeen(w.store("a", handBack))
		}, []string{"a"}},
		"a conflict: tried again on the fresh version": {func(w *world, a *assignment) {
			w.engine.moved(a, w.store("a", label))
		}, []string{"a"}},
		"a conflict, and the informer was faster with the fresh version": {func(w *world, a *assignment) {
			fresh := w.store("a", label)
			w.engine.runSeen(fresh)
			w.engine.moved(a, fresh)
		}, []string{"a"}},
		"the answer was lost, a live read shows that it was stored": {func(w *world, a *assignment) {
			w.engine.moved(a, w.store("a", assignedTo(a)))
		}, nil},
		"a live read shows it stored on another Pod": {func(w *world, a *assignment) {
			elsewhere := &assignment{run: a.run, podName: "other", podUID: "uid-other"}
			w.engine.moved(a, w.store("a", assignedTo(elsewhere)))
		}, []string{"b"}},
		"a live read shows it finished": {func(w *world, a *assignment) {
			w.engine.moved(a, w.store("a", func(r *corev1alpha1.Run) { r.Status.Phase = corev1alpha1.RunCancelled }))
		}, []string{"b"}},
		"it asks to be cancelled meanwhile": {func(w *world, a *assignment) {
			w.engine.moved(a, w.store("a", func(r *corev1alpha1.Run) { r.Spec.CancelRequested = true }))
		}, []string{"b"}},
		"it is gone":                     {func(w *world, a *assignment) { w.engine.vanished(a) }, []string{"b"}},
		"deleted before the answer came": {func(w *world, a *assignment) { w.engine.runGone(a.run.UID); w.engine.vanished(a) }, []string{"b"}},
		"gone, and perhaps stored before: the place stays taken": {func(w *world, a *assignment) { w.engine.lost(a) }, nil},
		"gone, perhaps stored before, and its time is over": {func(w *world, a *assignment) {
			w.engine.lost(a)
			w.clock.Step(leaveTime)
		}, []string{"b"}},
		"stored and deleted before the answer came: the place stays taken": {func(w *world, a *assignment) {
			r := w.store("a", assignedTo(a))
			w.engine.runGone(a.run.UID)
			w.engine.bound(a, r.ResourceVersion)
		}, nil},
		"refused: the next one gets the place": {func(w *world, a *assignment) { w.engine.refused(a) }, []string{"b"}},
		"refused, and after the backoff tried again, in its order": {func(w *world, a *assignment) {
			w.engine.refused(a)
			w.clock.Step(firstRetry)
		}, []string{"a"}},
		"two answers to one bind: the second is too late": {func(w *world, a *assignment) {
			r := w.store("a", assignedTo(a))
			w.engine.bound(a, r.ResourceVersion)
			w.engine.refused(a)
			w.engine.moved(a, r)
		}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.runtime(1)
			w.pod("pod", "")
			w.add("a", "1")
			w.add("b", "1")
			first := w.decide()
			if len(first) != 1 || first[0].run.Name != "a" {
				t.Fatalf("decisions %v, want one on a", first)
			}
			tc.do(w, first[0])
			var got []string
			for _, a := range w.decide() {
				got = append(got, a.run.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("next decisions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestADecisionStandsUntilItsPodGoesOrItIsResolved(t *testing.T) {
	cases := map[string]struct {
		do   func(w *world, a *assignment)
		want bool
	}{
		"nothing has happened":     {func(*world, *assignment) {}, true},
		"the Pod is unready":       {func(w *world, _ *assignment) { w.pod("pod", "Restarting") }, true},
		"the Pod is gone":          {func(w *world, a *assignment) { w.engine.podGone(a.podUID) }, false},
		"the Run is gone":          {func(w *world, a *assignment) { w.engine.runGone(a.run.UID) }, false},
		"the Run is seen assigned": {func(w *world, a *assignment) { w.engine.runSeen(w.store("a", assignedTo(a))) }, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.runtime(1)
			w.pod("pod", "")
			w.add("a", "1")
			a := w.decide()[0]
			tc.do(w, a)
			if got := w.engine.stands(a); got != tc.want {
				t.Errorf("stands: %t, want %t", got, tc.want)
			}
		})
	}
}

func TestRetriesAfterRefusalsAreBounded(t *testing.T) {
	for n, want := range map[int]time.Duration{
		1: 50 * time.Millisecond, 2: 100 * time.Millisecond, 5: 800 * time.Millisecond, 11: 30 * time.Second, 1 << 40: 30 * time.Second,
	} {
		if got := retryIn(n); got != want {
			t.Errorf("after %d refusals: %s, want %s", n, got, want)
		}
	}
}

func TestCatchingUpBringsNobodyBack(t *testing.T) {
	w := newWorld(t)
	w.runtime(1)
	w.pod("pod", "")
	there := w.create("there", "1", assignedTo(&assignment{podName: "pod", podUID: "uid-pod"}))
	ended := w.create("ended", "1", assignedTo(&assignment{podName: "pod", podUID: "uid-pod"}))
	w.engine.runSeen(ended)
	w.engine.beginCatchUp()
	w.finish("ended")
	w.engine.catchUp(ended) // read before it ended
	w.engine.catchUp(there) // the informer lags
	w.engine.endCatchUp()
	w.checkBooks()
	w.add("new", "1")
	if got := w.decide(); len(got) != 0 {
		t.Errorf("the place that was caught up on was given to %s", got[0].run.Name)
	}
}
