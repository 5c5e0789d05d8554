package workflows

import (
	"context"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/telemetry/events"
	"kruntimes.io/kruntimes/telemetry/observe"
)

// Observer tells in events, and counts in metrics, how WorkflowRuns end: only what is stored is told. It acts on nothing.
// One Observer works at a time, beside the controller of the leader, which tells by itself which jobs fail: the cache does
// not hold the jobs of what has ended.
type Observer struct {
	// Informers is the cache that CacheByObject describes.
	Informers cache.Informers
	// Recorder stores the events.
	Recorder *events.Recorder
	// Clock tells what happened lately.
	Clock clock.PassiveClock
}

// NeedLeaderElection tells the manager of controller-runtime to start the Observer on the leader only.
func (*Observer) NeedLeaderElection() bool { return true }

// Start observes until ctx ends.
func (o *Observer) Start(ctx context.Context) error {
	began := o.Clock.Now()
	return observe.Watch(ctx, o.Informers, &workflowsv1alpha1.WorkflowRun{}, observe.Eyes[*workflowsv1alpha1.WorkflowRun]{
		First: func(run *workflowsv1alpha1.WorkflowRun, _ bool) {
			if !missed(run, o.Clock.Now()) {
				return
			}
			o.Recorder.Publish(endEvents(run)...)
			if !run.Status.CompletionTime.Time.Before(began) {
				counted.add(run)
			}
		},
		Changed: func(before, after *workflowsv1alpha1.WorkflowRun) {
			if after.Status.Phase.IsTerminal() && !before.Status.Phase.IsTerminal() {
				o.Recorder.Publish(endEvents(after)...)
				counted.add(after)
			}
		},
	})
}
