package core

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/manager"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// killAtEveryWrite does what cluster.KillAtEveryWrite says with the manager.
func killAtEveryWrite(t *testing.T, prepare func(*testing.T) string, done func(*testing.T, string) bool, check func(*testing.T, string)) {
	t.Helper()
	cluster.KillAtEveryWrite(t, cluster.Kills{
		Prepare: prepare, Done: done, Check: check, MaxWrites: 20,
		Start: func(t *testing.T, f *cluster.Fault) func() {
			return startManager(t, func(o *manager.Options) { f.WrapConfig(o.Config) })
		},
	})
}

func TestTheRuntimeControllerSurvivesAKillAtEveryWrite(t *testing.T) {
	prepare := func(t *testing.T) string {
		ns := shared.Namespace(t)
		shared.Create(t, newRuntime(ns, "sh"))
		return ns
	}
	reported := func(t *testing.T, ns string) bool {
		r := &corev1alpha1.Runtime{}
		err := shared.Admin().Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "sh"}, r)
		return err == nil && len(r.Status.Conditions) > 0
	}
	killAtEveryWrite(t, prepare, reported, func(t *testing.T, ns string) {
		eventually(t, "the status", ns, "sh", &corev1alpha1.Runtime{}, func(r *corev1alpha1.Runtime) bool {
			return condition(r, "Available") == "False PodsStarting: 0 of 1 Pods ready"
		})
		for name, objects := range childrenOfSh() {
			for _, o := range objects {
				if err := shared.Admin().Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, o); err != nil {
					t.Errorf("%T: %v", o, err)
				}
			}
		}
	})
}

func TestTheLifecycleControllerSurvivesAKillAtEveryWrite(t *testing.T) {
	prepare := func(t *testing.T) string {
		ns := shared.Namespace(t)
		gone := shared.RuntimePod(t, ns, "sh", "a")
		waits, orphan, over := newRun(ns, "waits"), newRun(ns, "orphan"), newRun(ns, "over")
		over.Spec.TTLSecondsAfterFinished = new(int32)
		for _, run := range []*corev1alpha1.Run{waits, orphan, over} {
			shared.Create(t, run)
		}
		assign(t, orphan, gone, corev1alpha1.RunRunning)
		shared.Delete(t, gone)
		cancel(t, waits)
		if err := writeStatus(t, over, map[string]any{"phase": "Cancelled", "completionTime": "2026-01-01T00:00:00.000000Z"}); err != nil {
			t.Fatal(err)
		}
		return ns
	}
	phases := func(t *testing.T, ns string) map[string]corev1alpha1.RunPhase {
		got := map[string]corev1alpha1.RunPhase{}
		for _, name := range []string{"waits", "orphan", "over"} {
			run := &corev1alpha1.Run{}
			err := shared.Admin().Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, run)
			if err == nil {
				got[name] = run.Status.Phase
			} else if !apierrors.IsNotFound(err) {
				t.Fatal(err)
			}
		}
		return got
	}
	want := map[string]corev1alpha1.RunPhase{"waits": "Cancelled", "orphan": "Failed"}
	done := func(t *testing.T, ns string) bool { return cmp.Equal(want, phases(t, ns)) }
	killAtEveryWrite(t, prepare, done, func(t *testing.T, ns string) {
		awaitEnd(t, ns, "waits")
		awaitEnd(t, ns, "orphan")
		eventuallyGone(t, ns, "over")
		if diff := cmp.Diff(want, phases(t, ns)); diff != "" {
			t.Errorf("phases (-want +got):\n%s", diff)
		}
	})
}
