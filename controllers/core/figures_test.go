package core

import (
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// at is a time of a Run that was created at epoch.
func at(d time.Duration) *metav1.MicroTime { return ptr.To(metav1.NewMicroTime(epoch.Add(d))) }

const ms = time.Millisecond

func TestCalculateFigures(t *testing.T) {
	created := func(change func(*corev1alpha1.RunStatus)) *corev1alpha1.Run {
		r := &corev1alpha1.Run{}
		r.Status.Phase = corev1alpha1.RunPending
		if change != nil {
			change(&r.Status)
		}
		return r
	}
	scheduled := func(s *corev1alpha1.RunStatus) { s.Phase, s.Attempt, s.ScheduledTime = "Scheduled", 1, at(10*ms) }
	succeeded := func(s *corev1alpha1.RunStatus) {
		scheduled(s)
		s.Phase, s.StartTime, s.CompletionTime = "Succeeded", at(15*ms), at(40*ms)
	}
	cancelled := func(s *corev1alpha1.RunStatus) {
		s.Phase, s.Reason, s.CompletionTime = "Cancelled", "Cancelled", at(20*ms)
	}
	handedBack := func(s *corev1alpha1.RunStatus) { s.Attempt, s.Reason = 2, "ScriptFailed" }
	failedAgain := func(s *corev1alpha1.RunStatus) {
		s.Phase, s.Attempt, s.Reason = "Failed", 2, "OOMKilled"
		s.ScheduledTime, s.StartTime, s.CompletionTime = at(1000*ms), at(990*ms), at(3000*ms)
	}
	cases := map[string]struct {
		before, after func(*corev1alpha1.RunStatus)
		want          figures
	}{
		"it waits":      {nil, nil, figures{}},
		"it is placed":  {nil, scheduled, figures{scheduling: ptr.To(10 * ms)}},
		"it succeeds":   {scheduled, succeeded, figures{starting: ptr.To(5 * ms), execution: ptr.To(25 * ms), whole: ptr.To(40 * ms), phase: "Succeeded"}},
		"all at once":   {nil, succeeded, figures{scheduling: ptr.To(10 * ms), starting: ptr.To(5 * ms), execution: ptr.To(25 * ms), whole: ptr.To(40 * ms), phase: "Succeeded"}},
		"it is over":    {succeeded, succeeded, figures{}},
		"it never runs": {nil, cancelled, figures{whole: ptr.To(20 * ms), phase: "Cancelled", reason: "Cancelled"}},
		"it is retried": {scheduled, handedBack, figures{retried: "ScriptFailed"}},
		"it is placed again": {handedBack, func(s *corev1alpha1.RunStatus) {
			handedBack(s)
			s.Phase, s.ScheduledTime = "Scheduled", at(1000*ms)
		}, figures{}},
		"it fails again, on a node whose clock is late": {handedBack, failedAgain,
			figures{starting: ptr.To(0 * ms), execution: ptr.To(2010 * ms), whole: ptr.To(3000 * ms), phase: "Failed", reason: "OOMKilled"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := calculateFigures(created(tc.before), created(tc.after), epoch)
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(figures{})); diff != "" {
				t.Errorf("figures (-want +got):\n%s", diff)
			}
		})
	}
}

// gathered is the counters that are not zero, and how much each histogram holds, by name and labels.
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
				name += " " + label.GetName() + "=" + label.GetValue()
			}
			values[name] = metric.GetCounter().GetValue()
			if h := metric.GetHistogram(); h != nil {
				values[name] = float64(h.GetSampleCount())
				values[name+" sum"] = h.GetSampleSum()
			}
		}
	}
	maps.DeleteFunc(values, func(_ string, v float64) bool { return v == 0 })
	return values
}

// newWatcher is a runWatcher that began at epoch.
func newWatcher() (*runWatcher, *clocktesting.FakeClock) {
	clock := clocktesting.NewFakeClock(epoch)
	return &runWatcher{clock: clock, metrics: newRunMetrics(), began: epoch, seen: map[types.UID]time.Time{}}, clock
}

// run is a Run as it is stored: created in the second of epoch.
func storedRun(uid string, change func(*corev1alpha1.RunStatus)) *corev1alpha1.Run {
	r := &corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{Name: uid, UID: types.UID(uid), CreationTimestamp: metav1.NewTime(epoch)}}
	r.Status.Phase = corev1alpha1.RunPending
	if change != nil {
		change(&r.Status)
	}
	return r
}

func TestWhatIsWatchedIsCountedOnce(t *testing.T) {
	w, clock := newWatcher()
	clock.Step(400 * ms)
	pending := storedRun("r", nil)
	scheduled := storedRun("r", func(s *corev1alpha1.RunStatus) { s.Phase, s.Attempt, s.ScheduledTime = "Scheduled", 1, at(410*ms) })
	failed := storedRun("r", func(s *corev1alpha1.RunStatus) {
		s.Phase, s.Attempt, s.Reason = "Failed", 1, "ScriptFailed"
		s.ScheduledTime, s.StartTime, s.CompletionTime = at(410*ms), at(415*ms), at(440*ms)
	})
	w.first(pending, false)
	w.changed(pending, scheduled)
	w.changed(scheduled, failed)
	w.changed(failed, failed)
	w.gone(failed)
	want := map[string]float64{
		"kruntimes_run_scheduling_seconds": 1, "kruntimes_run_scheduling_seconds sum": .01,
		"kruntimes_run_starting_seconds": 1, "kruntimes_run_starting_seconds sum": .005,
		"kruntimes_run_execution_seconds phase=Failed": 1, "kruntimes_run_execution_seconds phase=Failed sum": .025,
		"kruntimes_run_duration_seconds phase=Failed": 1, "kruntimes_run_duration_seconds phase=Failed sum": .04,
		"kruntimes_run_finished_total phase=Failed reason=ScriptFailed": 1,
	}
	if diff := cmp.Diff(want, gathered(t, w.metrics.collectors()...)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	if len(w.seen) != 0 {
		t.Errorf("%d Runs are remembered that have ended", len(w.seen))
	}
}

func TestWhatWasThereIsNotCounted(t *testing.T) {
	w, clock := newWatcher()
	clock.Step(time.Second)
	ended := func(at *metav1.MicroTime) func(*corev1alpha1.RunStatus) {
		return func(s *corev1alpha1.RunStatus) { s.Phase, s.Reason, s.CompletionTime = "Cancelled", "Cancelled", at }
	}
	w.first(storedRun("before", ended(at(-time.Minute))), true)
	w.first(storedRun("nobody knows when", ended(nil)), true)
	w.first(storedRun("active", nil), true)
	if got := gathered(t, w.metrics.collectors()...); len(got) > 0 {
		t.Errorf("counted %v", got)
	}
	if len(w.seen) > 0 {
		t.Errorf("it is thought to know when %v were created", w.seen)
	}
	// It ended while the watch was broken.
	w.first(storedRun("missed", ended(at(700*ms))), false)
	want := map[string]float64{
		"kruntimes_run_duration_seconds phase=Cancelled": 1, "kruntimes_run_duration_seconds phase=Cancelled sum": .2,
		"kruntimes_run_finished_total phase=Cancelled reason=Cancelled": 1,
	}
	if diff := cmp.Diff(want, gathered(t, w.metrics.collectors()...)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

func TestLabelsStayClosed(t *testing.T) {
	m := newRunMetrics()
	m.add(figures{phase: "Failed", reason: "FromTheFuture"})
	if got := gathered(t, m.finished)["kruntimes_run_finished_total phase=Failed reason=Other"]; got != 1 {
		t.Errorf("a reason that is not known was counted %v times as Other", got)
	}
}
