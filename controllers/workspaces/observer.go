package workspaces

import (
	"context"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/telemetry/events"
	"kruntimes.io/kruntimes/telemetry/observe"
)

// Observer tells in events how PersistentWorkspaces end, and counts their phases: only what is stored is told. It acts on
// nothing.
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
	kind := &workspacesv1alpha1.PersistentWorkspace{}
	return observe.Watch(ctx, o.Informers, kind, observe.Eyes[*workspacesv1alpha1.PersistentWorkspace]{
		First: func(w *workspacesv1alpha1.PersistentWorkspace, _ bool) {
			o.Recorder.Publish(foundEvents(w, o.Clock.Now())...)
		},
		Changed: func(before, after *workspacesv1alpha1.PersistentWorkspace) {
			if before.Status.Phase != after.Status.Phase {
				phases.WithLabelValues(string(after.Status.Phase)).Inc()
			}
			o.Recorder.Publish(changeEvents(before, after)...)
		},
	})
}
