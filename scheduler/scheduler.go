// Package scheduler places Runs on the warm Pods of their Runtime.
//
// Informers feed an engine (engine.go), which holds all state and decides; one loop asks it for the next decision:
//
//	pop → snapshot → filter and score → reserve and assume        decide.go, under the engine's lock
//	                                  → bind                      bind.go, in bounded goroutines, one write each
//	                                  → bound, moved, refused     decide.go: confirmed, or queued again
//
// Beside it, waiting Runs are told why they wait (explaining.go decides, tell.go writes). The parts without any input or
// output have their own packages: framework and plugins (the cycle), cache (who takes what), queue (who is next), explain
// (whom to tell).
//
// Everything can be lost at any moment: a new scheduler reads Runs, Pods and Runtimes, and carries on.
package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/groups"
	"kruntimes.io/kruntimes/scheduler/plugins"
	"kruntimes.io/kruntimes/telemetry/events"
)

// maxBinds is how many assignments are written at the same time.
const maxBinds = 64

// scheduler is a running one.
type scheduler struct {
	options   Options
	clock     clock.WithTicker
	engine    *engine
	client    *runClient
	informers ctrlcache.Cache
	finishes  *finishWatch
	recorder  *events.Recorder
	// slots holds a token for every assignment that is being written.
	slots chan struct{}
	// mayWrite tells whether this process is the leader still. Nil: there is no election.
	mayWrite func() bool
}

// Run schedules until ctx ends, or until it loses its leadership, which is an error.
func Run(ctx context.Context, options Options) error {
	if err := options.validate(); err != nil {
		return fmt.Errorf("checking the options: %w", err)
	}
	options.complete()
	s, err := build(options)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var parts sync.WaitGroup
	defer parts.Wait()
	start := func(what string, run func(context.Context) error) {
		parts.Go(func() {
			if err := run(ctx); err != nil && ctx.Err() == nil {
				cancel(fmt.Errorf("%s: %w", what, err))
			}
		})
	}
	metrics, err := newMetrics(s.options)
	if err != nil {
		return err
	}
	// Last, because from here on there is something to close.
	health, err := newHealth(s.options.HealthAddress)
	if err != nil {
		return err
	}
	start("serving health", health.serve)
	start("writing events", s.recorder.Start)
	if metrics != nil {
		start("serving metrics", metrics.Start)
	}
	watching := make(chan struct{})
	start("watching finished Runs", func(ctx context.Context) error { return s.finishes.run(ctx, watching) })
	start("running the informers", func(ctx context.Context) error {
		select {
		case <-watching: // else what finishes in between would count as deleted
		case <-ctx.Done():
			return nil
		}
		return s.informers.Start(ctx)
	})
	shown, err := feed(ctx, s.informers, s.engine, s.options.enabled(groups.Workspaces))
	if err != nil {
		cancel(err)
	}
	if s.informers.WaitForCacheSync(ctx) && toolscache.WaitForCacheSync(ctx.Done(), shown...) {
		health.setReady()
		start("scheduling", s.lead)
	}
	<-ctx.Done()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

func build(options Options) (*scheduler, error) {
	scheme := runtime.NewScheme()
	err := errors.Join(
		corev1.AddToScheme(scheme), corev1alpha1.AddToScheme(scheme), workspacesv1alpha1.AddToScheme(scheme))
	if err != nil {
		return nil, fmt.Errorf("building the scheme: %w", err)
	}
	rules, err := plugins.Build(plugins.DefaultProfile())
	if err != nil {
		return nil, err
	}
	client, err := newRunClient(options.Config, scheme)
	if err != nil {
		return nil, err
	}
	informers, err := newInformers(options.Config, scheme, options.enabled(groups.Workspaces))
	if err != nil {
		return nil, err
	}
	recorder, err := events.NewRecorder(options.Config, reporter, options.Clock)
	if err != nil {
		return nil, err
	}
	engine := newEngine(rules, options.Clock)
	engine.meters = counted
	finishes, err := newFinishWatch(options.Config, options.Clock, engine)
	if err != nil {
		return nil, err
	}
	return &scheduler{
		options: options, clock: options.Clock, engine: engine, client: client,
		informers: informers, finishes: finishes, recorder: recorder, slots: make(chan struct{}, maxBinds),
	}, nil
}

// schedule works as the one active scheduler, until ctx ends. It tells whether the outcome of every bind is known then.
func (s *scheduler) schedule(ctx context.Context) (settled bool) {
	if !s.catchUp(ctx) {
		return true
	}
	logr.FromContextOrDiscard(ctx).Info("Started scheduling")
	defer pendingGauge.watch(s.engine)()
	var doubtful atomic.Bool
	var parts sync.WaitGroup
	t := &teller{client: s.client, clock: s.clock, engine: s.engine, recorder: s.recorder, busy: func() bool { return len(s.slots) > 0 }}
	parts.Go(func() { t.run(ctx) })
	parts.Go(func() { s.reread(ctx) })
	b := &binder{client: s.client, clock: s.clock, engine: s.engine, mayWrite: s.mayWrite}
	for s.takeSlot(ctx) {
		a, wait := s.engine.next()
		if a != nil {
			parts.Go(func() {
				defer func() { <-s.slots }()
				if !b.bind(ctx, a) {
					doubtful.Store(true)
				}
			})
			continue
		}
		<-s.slots
		timer := s.clock.NewTimer(wait)
		select {
		case <-s.engine.wake:
		case <-timer.C():
		case <-ctx.Done():
		}
		timer.Stop()
	}
	parts.Wait()
	return !doubtful.Load()
}

// takeSlot waits until another assignment may be written. It returns false, and takes none, when ctx has ended.
func (s *scheduler) takeSlot(ctx context.Context) bool {
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	if ctx.Err() != nil { // both were true, and select has no preference
		<-s.slots
		return false
	}
	return true
}

// catchUp reads the active Runs from the API server's store. Informers may lag behind it, and a scheduler before this
// one may have bound Runs a moment ago: what they take must be booked before the first decision. It returns false when
// ctx ended before, or meanwhile.
func (s *scheduler) catchUp(ctx context.Context) bool {
	s.engine.beginCatchUp()
	defer s.engine.endCatchUp()
	for ctx.Err() == nil {
		err := s.client.activeRuns(ctx, func(page []corev1alpha1.Run) {
			for i := range page {
				s.engine.catchUp(stripRun(&page[i]))
			}
		})
		if err == nil {
			return ctx.Err() == nil
		}
		if ctx.Err() == nil {
			logr.FromContextOrDiscard(ctx).Error(err, "Could not catch up, trying again")
			sleep(ctx, s.clock, lastDoubt)
		}
	}
	return false
}

// reread reads Runs again that catching up has read and the informer does not show, until there are none or ctx ends. Only
// catching up makes such Runs.
func (s *scheduler) reread(ctx context.Context) {
	for runs := s.engine.unshown(); len(runs) > 0 && sleep(ctx, s.clock, safetyNet); runs = s.engine.unshown() {
		for _, run := range runs {
			stored, err := s.client.get(ctx, types.NamespacedName{Namespace: run.Namespace, Name: run.Name})
			switch {
			case apierrors.IsNotFound(err):
				s.engine.reread(run, nil)
			case err == nil:
				s.engine.reread(run, stored)
			case ctx.Err() == nil:
				logr.FromContextOrDiscard(ctx).Error(err, "Could not read a Run again, trying later", "Run", klog.KObj(run))
			}
		}
	}
}

// sleep waits for a time; it returns false when ctx ended before.
func sleep(ctx context.Context, c clock.Clock, d time.Duration) bool {
	timer := c.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C():
		return true
	}
}
