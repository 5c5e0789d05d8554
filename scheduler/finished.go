package scheduler

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/utils/clock"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// finishWatch tells the engine which Runs have finished.
//
// The informer does not know: it watches unfinished Runs, and the API server shows it a Run that finishes and one that is
// deleted in the same way, as deleted, with the state before. The first takes nothing of its Pod any more, the second may
// still be executing. So the finished ones are watched as well: their metadata only, and from now on only, so that those
// of before cost nothing. What is missed while the watch is interrupted keeps its units for leaveTime.
type finishWatch struct {
	runs   metadata.ResourceInterface
	clock  clock.Clock
	engine *engine
}

// finishedSelector selects the Runs that the informer leaves at the API server.
func finishedSelector() fields.Selector {
	return phasesExcept(func(p corev1alpha1.RunPhase) bool { return !p.IsTerminal() })
}

func newFinishWatch(config *rest.Config, c clock.Clock, e *engine) (*finishWatch, error) {
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making the client for finished Runs: %w", err)
	}
	return &finishWatch{runs: client.Resource(corev1alpha1.GroupVersion.WithResource("runs")), clock: c, engine: e}, nil
}

// run watches until ctx ends. started is closed when nothing that happens from then on is missed.
func (w *finishWatch) run(ctx context.Context, started chan<- struct{}) error {
	for ctx.Err() == nil {
		version, err := w.now(ctx)
		if err == nil && started != nil {
			close(started)
			started = nil
		}
		if err == nil {
			err = w.watch(ctx, version)
		}
		if err != nil && ctx.Err() == nil {
			logr.FromContextOrDiscard(ctx).Info("Missed which Runs finished", "reason", err.Error())
			sleep(ctx, w.clock, time.Second)
		}
	}
	return nil
}

// now is the version of the API server's store.
func (w *finishWatch) now(ctx context.Context) (string, error) {
	list, err := w.runs.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return "", fmt.Errorf("listing Runs: %w", err)
	}
	return list.ResourceVersion, nil
}

// watch watches from a version on, until ctx ends or the API server does not know any more what happened since.
func (w *finishWatch) watch(ctx context.Context, version string) error {
	watcher, err := watchtools.NewRetryWatcherWithContext(ctx, version, finishedWatcher{w.runs})
	if err != nil {
		return fmt.Errorf("watching finished Runs: %w", err)
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		run, err := meta.Accessor(event.Object)
		if event.Type == watch.Error || err != nil {
			return fmt.Errorf("watching finished Runs: %v", event.Object)
		}
		w.engine.runFinished(run.GetUID())
	}
	return nil
}

// finishedWatcher starts watches of finished Runs.
type finishedWatcher struct{ runs metadata.ResourceInterface }

// WatchWithContext starts one.
func (f finishedWatcher) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.FieldSelector = finishedSelector().String()
	return f.runs.Watch(ctx, options)
}
