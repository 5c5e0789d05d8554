package workspaces

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
)

// phases is shared by all managers of a process, as the registry is that they serve.
var phases = newPhases()

func init() { metrics.Registry.MustRegister(phases) }

// newPhases makes the counter of phases that workspaces come to, all known series at zero, so that rates are defined from
// the first scrape on.
func newPhases() *prometheus.CounterVec {
	counter := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kruntimes_workspace_phases_total",
		Help: "PersistentWorkspaces that have come to a phase.",
	}, []string{"phase"})
	for _, phase := range []workspacesv1alpha1.WorkspacePhase{
		workspacesv1alpha1.WorkspaceBound, workspacesv1alpha1.WorkspaceLost, workspacesv1alpha1.WorkspaceReleased,
	} {
		counter.WithLabelValues(string(phase))
	}
	return counter
}
