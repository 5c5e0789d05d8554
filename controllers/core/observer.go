package core

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/telemetry/events"
	"kruntimes.io/kruntimes/telemetry/measure"
	"kruntimes.io/kruntimes/telemetry/observe"
)

// Observer tells in events, and counts in metrics, what becomes of Runs and Runtimes, whoever has written it: only what is
// stored is told. It acts on nothing. One Observer works at a time, beside the controllers of the leader.
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
	runs := &runWatcher{recorder: o.Recorder, clock: o.Clock, metrics: counted, began: o.Clock.Now(), seen: map[types.UID]time.Time{}}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return observe.Watch(ctx, o.Informers, &corev1alpha1.Run{},
			observe.Eyes[*corev1alpha1.Run]{First: runs.first, Changed: runs.changed, Gone: runs.gone})
	})
	group.Go(func() error {
		return observe.Watch(ctx, o.Informers, &corev1alpha1.Runtime{}, observe.Eyes[*corev1alpha1.Runtime]{
			Changed: func(before, after *corev1alpha1.Runtime) { o.Recorder.Publish(runtimeEvents(before, after)...) },
		})
	})
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// runWatcher sees the Runs. It is called by one goroutine at a time.
type runWatcher struct {
	recorder *events.Recorder
	clock    clock.PassiveClock
	metrics  *runMetrics
	// began is when watching began. What ended before was counted by another process, or by nobody.
	began time.Time
	// seen is when each unfinished Run was seen first, if it was seen being created.
	seen map[types.UID]time.Time
}

func (w *runWatcher) first(run *corev1alpha1.Run, wasThere bool) {
	now := w.clock.Now()
	w.recorder.Publish(missedRunEvents(run, now)...)
	if !run.Status.Phase.IsTerminal() {
		if !wasThere {
			w.seen[run.UID] = now
		}
		return
	}
	if ended := run.Status.CompletionTime; ended != nil && !ended.Time.Before(w.began) {
		w.metrics.add(calculateFigures(&corev1alpha1.Run{}, run, w.created(run)))
	}
}

func (w *runWatcher) changed(before, after *corev1alpha1.Run) {
	w.recorder.Publish(runEvents(before, after)...)
	w.metrics.add(calculateFigures(before, after, w.created(after)))
	if after.Status.Phase.IsTerminal() {
		delete(w.seen, after.UID)
	}
}

func (w *runWatcher) gone(last *corev1alpha1.Run) { delete(w.seen, last.UID) }

// created is when a Run was created, as near as is known.
func (w *runWatcher) created(run *corev1alpha1.Run) time.Time {
	created := run.CreationTimestamp.Time
	if seen, ok := w.seen[run.UID]; ok {
		return measure.CreatedAt(created, seen)
	}
	return measure.CreatedAt(created, created.Add(time.Second)) // Nobody has seen it.
}
