package scheduler

import (
	"context"
	"encoding/json"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// TestARunThatOnlyCatchingUpHasSeen has one place, taken by a Run of which a read of the store has told, and a second Run that
// waits. What counts is whether the second gets the place.
func TestARunThatOnlyCatchingUpHasSeen(t *testing.T) {
	ended := func(r *corev1alpha1.Run) { r.Status.Phase = corev1alpha1.RunSucceeded }
	cases := map[string]struct {
		// before happens before the store's answer is taken in, and then after that.
		before, then func(w *world)
		unshown      int
		want         []string
	}{
		"it goes on, and the informer lags": {nil, nil, 1, []string{"a on pod"}},
		"the informer shows it":             {nil, func(w *world) { w.engine.runSeen(w.runs["a"]) }, 0, []string{"a on pod"}},
		"it has finished, as the watch of finished Runs shows before": {func(w *world) {
			w.engine.runFinished(w.store("a", ended).UID)
		}, nil, 0, []string{"b on pod"}},
		"it has finished, as that watch shows afterwards": {nil, func(w *world) {
			w.engine.runFinished(w.store("a", ended).UID)
		}, 1, []string{"b on pod"}},
		"it has finished, as a later read shows": {nil, func(w *world) {
			run := w.engine.unshown()[0]
			w.engine.reread(run, w.store("a", ended))
		}, 0, []string{"b on pod"}},
		"it goes on, as a later read shows": {nil, func(w *world) {
			w.engine.reread(w.engine.unshown()[0], w.runs["a"])
		}, 1, []string{"a on pod"}},
		"it is gone, and may still be executing": {nil, func(w *world) {
			delete(w.runs, "a")
			w.engine.reread(w.engine.unshown()[0], nil)
		}, 0, nil},
		"it is gone, and was surely killed": {nil, func(w *world) {
			delete(w.runs, "a")
			w.engine.reread(w.engine.unshown()[0], nil)
			w.clock.Step(leaveTime)
		}, 0, []string{"b on pod"}},
		"another has its name, and it was surely killed": {nil, func(w *world) {
			known := w.engine.unshown()[0]
			another := w.store("a", ended).DeepCopy()
			another.UID = "another"
			w.engine.reread(known, another)
			w.clock.Step(leaveTime)
		}, 0, []string{"b on pod"}},
		"the informer shows it while it is read": {nil, func(w *world) {
			known := w.engine.unshown()[0]
			w.engine.runSeen(w.runs["a"])
			w.engine.reread(known, nil)
			w.clock.Step(leaveTime)
		}, 0, []string{"a on pod"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.runtime(1)
			w.pod("pod", "")
			read := w.create("a", "1", assignedTo(&assignment{podName: "pod", podUID: "uid-pod"}))
			w.engine.beginCatchUp()
			if tc.before != nil {
				tc.before(w)
			}
			w.engine.catchUp(read)
			w.engine.endCatchUp()
			w.add("b", "1")
			if tc.then != nil {
				tc.then(w)
			}
			if got := len(w.engine.unshown()); got != tc.unshown {
				t.Errorf("%d Runs are unshown, want %d", got, tc.unshown)
			}
			if diff := cmp.Diff(tc.want, w.settle()); diff != "" {
				t.Errorf("placements (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAnEndThatBothWatchesMissedIsFoundOut starts a scheduler whose store shows a Run on the only place when it catches up,
// and finished from then on. No watch tells of it. The Run that waits must be bound.
func TestAnEndThatBothWatchesMissedIsFoundOut(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	w := newWorld(t)
	active := w.create("past", "1", assignedTo(&assignment{podName: "pod", podUID: "uid-pod"}))
	ended := w.store("past", func(r *corev1alpha1.Run) { r.Status.Phase = corev1alpha1.RunSucceeded })
	var bound atomic.Bool
	s := startable(t, func(out http.ResponseWriter, in *http.Request) {
		out.Header().Set("Content-Type", "application/json")
		switch {
		case in.Method != http.MethodGet:
			bound.Store(true)
			cancel()
		case in.URL.Query().Has("limit"):
			list := corev1alpha1.RunList{Items: []corev1alpha1.Run{*active}}
			list.SetGroupVersionKind(corev1alpha1.GroupVersion.WithKind("RunList"))
			if err := json.NewEncoder(out).Encode(list); err != nil {
				t.Error(err)
			}
		default:
			answerRun(t, out, ended)
		}
	})
	s.clock = hasty{}
	s.schedule(ctx)
	if !bound.Load() {
		t.Error("the place was not given to the Run that waits")
	}
}
