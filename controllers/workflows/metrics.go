package workflows

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/telemetry/measure"
)

// workflowRunMetrics are what is counted of WorkflowRuns.
type workflowRunMetrics struct {
	finished *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// counted is shared by all managers of a process, as the registry is that they serve.
var counted = newWorkflowRunMetrics()

func init() { metrics.Registry.MustRegister(counted.finished, counted.duration) }

// newWorkflowRunMetrics makes the metrics, all known series at zero, so that rates are defined from the first scrape on.
func newWorkflowRunMetrics() *workflowRunMetrics {
	m := &workflowRunMetrics{
		finished: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kruntimes_workflowrun_finished_total",
			Help: "WorkflowRuns that have ended, by phase.",
		}, []string{"phase"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kruntimes_workflowrun_duration_seconds", Buckets: measure.DurationBuckets(),
			Help: "From the acceptance of a WorkflowRun, or its refusal, to its end, by how that was.",
		}, []string{"phase"}),
	}
	for _, phase := range []workflowsv1alpha1.WorkflowPhase{
		workflowsv1alpha1.WorkflowSucceeded, workflowsv1alpha1.WorkflowFailed, workflowsv1alpha1.WorkflowCancelled,
	} {
		m.finished.WithLabelValues(string(phase))
		m.duration.WithLabelValues(string(phase))
	}
	return m
}

// add counts a WorkflowRun that has ended.
func (m *workflowRunMetrics) add(run *workflowsv1alpha1.WorkflowRun) {
	phase := string(run.Status.Phase)
	m.finished.WithLabelValues(phase).Inc()
	if took, ok := tookOf(run); ok {
		m.duration.WithLabelValues(phase).Observe(took.Seconds())
	}
}
