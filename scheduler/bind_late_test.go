package scheduler

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/scheduler/framework"
	"kruntimes.io/kruntimes/scheduler/plugins/capacity"
	"kruntimes.io/kruntimes/scheduler/plugins/readiness"
)

// TestAnAnswerToAnOldBindIsTooLate hands a Run back before the answer to its first bind has come, and binds it again. The
// late answer must not give the place of the second bind away.
func TestAnAnswerToAnOldBindIsTooLate(t *testing.T) {
	answers := map[string]func(e *engine, a *assignment, stored *corev1alpha1.Run){
		"it was stored":         func(e *engine, a *assignment, stored *corev1alpha1.Run) { e.bound(a, stored.ResourceVersion) },
		"the Run has changed":   func(e *engine, a *assignment, stored *corev1alpha1.Run) { e.moved(a, stored) },
		"it was refused":        func(e *engine, a *assignment, _ *corev1alpha1.Run) { e.refused(a) },
		"there is no such Run":  func(e *engine, a *assignment, _ *corev1alpha1.Run) { e.vanished(a) },
		"the Run is gone since": func(e *engine, a *assignment, _ *corev1alpha1.Run) { e.lost(a) },
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.runtime(1)
			w.pod("pod", "")
			w.engine.runSeen(w.create("r", "1", retries(3, 0)))
			first := w.decide()[0]
			stored := w.store("r", assignedTo(first))
			w.engine.runSeen(stored)
			w.handBack("r", 0)
			w.add("other", "1")
			second := w.decide()
			if len(second) != 1 || second[0].run.Name != "r" {
				t.Fatalf("decided %v, want the second attempt", second)
			}
			answer(w.engine, first, stored)
			if w.engine.stands(first) || !w.engine.stands(second[0]) {
				t.Error("the decision that stands is not the second one")
			}
			if late := w.decide(); len(late) != 0 {
				t.Fatalf("the place was given to %s as well", late[0].run.Name)
			}
			w.engine.bound(second[0], w.store("r", assignedTo(second[0])).ResourceVersion)
			w.engine.runSeen(w.runs["r"])
			if late := w.decide(); len(late) != 0 {
				t.Fatalf("afterwards the place was given to %s", late[0].run.Name)
			}
			w.checkBooks()
		})
	}
}

// books is a plugin that reserves.
type books struct{ at map[types.UID]types.UID }

func (*books) Name() string { return "Books" }

func (*books) EventsToRegister() framework.Events { return framework.PodAvailable }

func (b *books) Reserve(c *framework.Cycle, pod *framework.PodInfo) *framework.Status {
	b.at[c.Run.UID] = pod.UID
	return nil
}

func (b *books) Unreserve(c *framework.Cycle, pod *framework.PodInfo) {
	if b.at[c.Run.UID] == pod.UID {
		delete(b.at, c.Run.UID)
	}
}

// TestReservationsEndWithTheirBind looks at what a plugin has reserved after every way in which a bind can end.
func TestReservationsEndWithTheirBind(t *testing.T) {
	elsewhere := &assignment{podName: "other", podUID: "uid-other"}
	kept := map[types.UID]types.UID{"uid-a": "uid-pod"}
	cases := map[string]struct {
		do   func(w *world, a *assignment)
		want map[types.UID]types.UID
	}{
		"not answered yet": {func(*world, *assignment) {}, kept},
		"stored":           {func(w *world, a *assignment) { w.engine.bound(a, w.store("a", assignedTo(a)).ResourceVersion) }, kept},
		"shown, and then answered": {func(w *world, a *assignment) {
			r := w.store("a", assignedTo(a))
			w.engine.runSeen(r)
			w.engine.bound(a, r.ResourceVersion)
		}, kept},
		"a live read shows it stored": {func(w *world, a *assignment) { w.engine.moved(a, w.store("a", assignedTo(a))) }, kept},
		"shown elsewhere, and then answered": {func(w *world, a *assignment) {
			r := w.store("a", assignedTo(elsewhere))
			w.engine.runSeen(r)
			w.engine.moved(a, r)
		}, nil},
		"refused": {func(w *world, a *assignment) { w.engine.refused(a) }, nil},
		"finished before the answer": {func(w *world, a *assignment) {
			w.engine.runFinished("uid-a")
			w.engine.runGone("uid-a")
			w.engine.moved(a, w.store("a", func(r *corev1alpha1.Run) { r.Status.Phase = corev1alpha1.RunCancelled }))
		}, nil},
		"deleted before the answer": {func(w *world, a *assignment) { w.delete("a"); w.engine.refused(a) }, nil},
		"gone":                      {func(w *world, a *assignment) { w.delete("a"); w.engine.lost(a) }, nil},
		"never stored":              {func(w *world, a *assignment) { w.delete("a"); w.engine.vanished(a) }, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := &books{at: map[types.UID]types.UID{}}
			rules, err := framework.New([]framework.Enabled{{Plugin: readiness.New()}, {Plugin: capacity.New()}, {Plugin: b}})
			if err != nil {
				t.Fatal(err)
			}
			w := newWorld(t)
			w.engine = newEngine(rules, w.clock)
			w.runtime(1)
			w.pod("pod", "")
			w.add("a", "1")
			tc.do(w, w.decide()[0])
			if len(tc.want) == 0 && len(b.at) == 0 {
				return
			}
			if diff := cmp.Diff(tc.want, b.at); diff != "" {
				t.Errorf("reserved (-want +got):\n%s", diff)
			}
		})
	}
}
