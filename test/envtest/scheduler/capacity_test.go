package scheduler

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/scheduler"
)

func TestAThousandRunsOnCapacityFour(t *testing.T) {
	const count = 1000
	ns := shared.Namespace(t)
	w := observe(t, ns, succeed(t))
	runtimeOf(t, ns, "sh", 1, "4")
	shared.RuntimePod(t, ns, "sh", "pod-a")
	start(t, scheduler.Options{Config: identity(t)})
	began := time.Now()
	createRuns(t, ns, "sh", count)
	w.await(t, corev1alpha1.RunSucceeded, count)
	t.Logf("%d Runs on capacity 4 in %s", count, time.Since(began).Round(time.Millisecond))
	w.check(t, 4)
	if diff := cmp.Diff(map[string]int{"pod-a": 4}, w.peaks()); diff != "" {
		t.Errorf("most Runs at a time (-want +got):\n%s", diff)
	}
}

func TestABurstSpreadsOverThePods(t *testing.T) {
	const count, pods = 500, 4
	ns := shared.Namespace(t)
	w := observe(t, ns, succeed(t))
	runtimeOf(t, ns, "sh", pods, "16")
	for _, name := range []string{"pod-a", "pod-b", "pod-c", "pod-d"} {
		shared.RuntimePod(t, ns, "sh", name)
	}
	start(t, scheduler.Options{Config: identity(t)})
	began := time.Now()
	createRuns(t, ns, "sh", count)
	w.await(t, corev1alpha1.RunSucceeded, count)
	took := time.Since(began)
	t.Logf("%d Runs, created, bound and finished, in %s: %.0f Runs/s", count, took.Round(time.Millisecond), count/took.Seconds())
	w.check(t, 16)
	if len(w.peaks()) != pods {
		t.Errorf("Runs went to %v, want all Pods", w.peaks())
	}
}
