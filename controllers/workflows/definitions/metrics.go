package definitions

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

// Kinds of definitions.
const (
	kindWorkflow = "Workflow"
	kindAction   = "Action"
)

// verdicts is shared by all managers of a process, as the registry is that they serve.
var verdicts = newVerdicts()

func init() { metrics.Registry.MustRegister(verdicts) }

// newVerdicts makes the counter of verdicts about definitions, all known series at zero, so that rates are defined from the
// first scrape on.
func newVerdicts() *prometheus.CounterVec {
	counter := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kruntimes_definition_verdicts_total",
		Help: "Workflows and Actions whose condition Ready has come to a reason that it did not have before.",
	}, []string{"kind", "reason"})
	for kind, reasons := range map[string][]string{
		kindWorkflow: {workflowsv1alpha1.ReasonValid, workflowsv1alpha1.ReasonInvalid, workflowsv1alpha1.ReasonUnresolved},
		kindAction:   {workflowsv1alpha1.ReasonValid, workflowsv1alpha1.ReasonInvalid},
	} {
		for _, reason := range reasons {
			counter.WithLabelValues(kind, reason)
		}
	}
	return counter
}

// count counts a verdict that is news. Reasons that only another version knows are not counted.
func count(kind string, before, after *workflowsv1alpha1.DefinitionStatus) {
	switch reason := readyOf(after).Reason; {
	case reason == readyOf(before).Reason:
	case reason == workflowsv1alpha1.ReasonValid, reason == workflowsv1alpha1.ReasonInvalid, reason == workflowsv1alpha1.ReasonUnresolved:
		verdicts.WithLabelValues(kind, reason).Inc()
	}
}
