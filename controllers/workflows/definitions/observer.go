package definitions

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/telemetry/events"
	"kruntimes.io/kruntimes/telemetry/observe"
)

// Observer tells in events that definitions can no longer be used, and counts verdicts: only what is stored is told. It acts on
// nothing.
type Observer struct {
	// Informers is the cache that CacheByObject describes.
	Informers cache.Informers
	// Recorder stores the events.
	Recorder *events.Recorder
}

// NeedLeaderElection tells the manager of controller-runtime to start the Observer on the leader only.
func (*Observer) NeedLeaderElection() bool { return true }

// Start observes until ctx ends.
func (o *Observer) Start(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return observe.Watch(ctx, o.Informers, &workflowsv1alpha1.Workflow{}, observe.Eyes[*workflowsv1alpha1.Workflow]{
			Changed: func(before, after *workflowsv1alpha1.Workflow) {
				o.changed(kindWorkflow, after, &before.Status, &after.Status)
			},
		})
	})
	group.Go(func() error {
		return observe.Watch(ctx, o.Informers, &workflowsv1alpha1.Action{}, observe.Eyes[*workflowsv1alpha1.Action]{
			Changed: func(before, after *workflowsv1alpha1.Action) {
				o.changed(kindAction, after, &before.Status, &after.Status)
			},
		})
	})
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func (o *Observer) changed(kind string, object metav1.Object, before, after *workflowsv1alpha1.DefinitionStatus) {
	count(kind, before, after)
	o.Recorder.Publish(changeEvents(kind, object, before, after)...)
}
