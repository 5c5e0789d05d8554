package scheduler

import (
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// gathered is all values of collectors, of a histogram how many it holds and their sum, by name and labels.
func gathered(t *testing.T, collectors ...prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collectors...)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := family.GetName()
			for _, label := range metric.GetLabel() {
				name += " " + label.GetValue()
			}
			if h := metric.GetHistogram(); h != nil {
				values[name], values[name+" sum"] = float64(h.GetSampleCount()), h.GetSampleSum()
				continue
			}
			values[name] = metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
		}
	}
	return values
}

// TestCyclesAndWaitingRunsAreCounted fills a Pod with two of five Runs; one more is delayed after a bind that was refused.
func TestCyclesAndWaitingRunsAreCounted(t *testing.T) {
	w := newWorld(t)
	w.runtime(2)
	w.pod("a", "")
	for i := range 5 {
		w.add("r"+strconv.Itoa(i), "1")
	}
	gauge := newPendingRuns()
	stop := gauge.watch(w.engine)
	waiting := func(active, parked, delayed float64) {
		t.Helper()
		want := map[string]float64{"kruntimes_scheduler_pending_runs active": active,
			"kruntimes_scheduler_pending_runs parked": parked, "kruntimes_scheduler_pending_runs delayed": delayed}
		if diff := cmp.Diff(want, gathered(t, gauge)); diff != "" {
			t.Errorf("waiting Runs (-want +got):\n%s", diff)
		}
	}
	waiting(5, 0, 0)
	placed := w.decide()
	waiting(0, 3, 0)
	w.engine.refused(placed[0])
	w.decide()
	waiting(0, 2, 1)
	want := map[string]float64{"kruntimes_scheduler_attempts_total placed": 3,
		"kruntimes_scheduler_attempts_total unschedulable": 2, "kruntimes_scheduler_attempts_total error": 0}
	if diff := cmp.Diff(want, gathered(t, w.engine.meters.attempts)); diff != "" {
		t.Errorf("attempts (-want +got):\n%s", diff)
	}
	if got := gathered(t, w.engine.meters.cycleDuration)["kruntimes_scheduler_cycle_duration_seconds"]; got != 5 {
		t.Errorf("the duration of %v cycles was taken, want 5", got)
	}
	stop()
	waiting(0, 0, 0)
}

func TestBindsAreCounted(t *testing.T) {
	m := newMeters()
	m.bound(bindStored, 3*time.Millisecond)
	m.bound(bindRefused, time.Second)
	got := gathered(t, m.bindDuration)
	for name, want := range map[string]float64{"stored": 1, "stored sum": .003, "refused": 1, "moved": 0, "gone": 0, "unknown": 0} {
		if got["kruntimes_scheduler_bind_duration_seconds "+name] != want {
			t.Errorf("%s: got %v, want %v", name, got["kruntimes_scheduler_bind_duration_seconds "+name], want)
		}
	}
	w := newWorld(t)
	first := w.create("r", "1")
	m.placed(first, epoch.Add(200*time.Millisecond), epoch.Add(250*time.Millisecond))
	again := first.DeepCopy()
	again.Status.Attempt = 2
	m.placed(again, epoch.Add(time.Minute), epoch.Add(2*time.Minute))
	handedOver := w.create("s", "1", func(r *corev1alpha1.Run) { r.CreationTimestamp.Time = epoch.Add(-time.Hour) })
	m.placed(handedOver, epoch, epoch.Add(time.Second/2)) // it was there before this scheduler
	want := map[string]float64{"kruntimes_scheduler_binding_seconds": 2, "kruntimes_scheduler_binding_seconds sum": .05 + 3600}
	approximately := cmp.Comparer(func(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 })
	if diff := cmp.Diff(want, gathered(t, m.binding), approximately); diff != "" {
		t.Errorf("time to bind (-want +got):\n%s", diff)
	}
}
