package core

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/telemetry/measure"
)

// runMetrics are what is counted of Runs.
type runMetrics struct {
	scheduling, starting prometheus.Histogram
	execution, duration  *prometheus.HistogramVec
	finished, retries    *prometheus.CounterVec
}

// counted is shared by all managers of a process, as the registry is that they serve.
var counted = newRunMetrics()

func init() { metrics.Registry.MustRegister(counted.collectors()...) }

// newRunMetrics makes the metrics, all known series at zero, so that rates are defined from the first scrape on.
func newRunMetrics() *runMetrics {
	m := &runMetrics{
		scheduling: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "kruntimes_run_scheduling_seconds", Buckets: measure.LatencyBuckets(),
			Help: "From the creation of a Run to the assignment of its first attempt to a Pod.",
		}),
		starting: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "kruntimes_run_starting_seconds", Buckets: measure.LatencyBuckets(),
			Help: "From the assignment of the last attempt of a finished Run to the start of its process.",
		}),
		execution: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kruntimes_run_execution_seconds", Buckets: measure.DurationBuckets(),
			Help: "From the start of the process of the last attempt of a Run to its end, by how that was.",
		}, []string{"phase"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kruntimes_run_duration_seconds", Buckets: measure.DurationBuckets(),
			Help: "From the creation of a Run to its end, all attempts and waits included, by how that was.",
		}, []string{"phase"}),
		finished: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kruntimes_run_finished_total",
			Help: "Runs that have ended, by phase and reason. Succeeded has no reason.",
		}, []string{"phase", "reason"}),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kruntimes_run_retries_total",
			Help: "Attempts of Runs that ended and were followed by another one, by why they ended.",
		}, []string{"reason"}),
	}
	for _, phase := range corev1alpha1.RunPhases() {
		if phase.IsTerminal() {
			m.execution.WithLabelValues(string(phase))
			m.duration.WithLabelValues(string(phase))
		}
	}
	m.finished.WithLabelValues(string(corev1alpha1.RunSucceeded), "")
	for _, reason := range corev1alpha1.RunReasons() {
		switch reason {
		case corev1alpha1.RunReasonTimeout:
			m.finished.WithLabelValues(string(corev1alpha1.RunTimeout), string(reason))
		case corev1alpha1.RunReasonCancelled:
			m.finished.WithLabelValues(string(corev1alpha1.RunCancelled), string(reason))
			continue // is never tried again
		default:
			m.finished.WithLabelValues(string(corev1alpha1.RunFailed), string(reason))
		}
		m.retries.WithLabelValues(string(reason))
	}
	return m
}

func (m *runMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.scheduling, m.starting, m.execution, m.duration, m.finished, m.retries}
}

// add counts what a Run's change amounts to.
func (m *runMetrics) add(f figures) {
	observeTime(m.scheduling, f.scheduling)
	observeTime(m.starting, f.starting)
	if f.retried != "" {
		m.retries.WithLabelValues(known(f.retried)).Inc()
	}
	if f.phase == "" {
		return
	}
	observeTime(m.execution.WithLabelValues(string(f.phase)), f.execution)
	observeTime(m.duration.WithLabelValues(string(f.phase)), f.whole)
	m.finished.WithLabelValues(string(f.phase), known(f.reason)).Inc()
}

func observeTime(o prometheus.Observer, d *time.Duration) {
	if d != nil {
		o.Observe(d.Seconds())
	}
}

// known keeps the label closed, though a runtimed of another version may know a reason that this manager does not.
func known(reason corev1alpha1.RunReason) string {
	if reason == "" || slices.Contains(corev1alpha1.RunReasons(), reason) {
		return string(reason)
	}
	return "Other"
}
