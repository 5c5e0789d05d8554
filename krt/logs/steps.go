package logs

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/krt/follow"
	"kruntimes.io/kruntimes/krt/workflowruns"
)

// relistWait is the pause before the Runs are listed again after their watch broke.
const relistWait = time.Second

// follower follows the Runs of a WorkflowRun as they appear.
type follower struct {
	*stepLogs
	started map[types.UID]bool
	active  int
	ends    chan error
	errs    []error
}

// follow delivers the output of all steps until the WorkflowRun has ended and all of it is delivered.
func (l *stepLogs) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := &follower{stepLogs: l, started: map[types.UID]bool{}, ends: make(chan error)}
	first, version, err := l.steps.List(ctx, l.client, l.run)
	if err != nil {
		return err
	}
	for _, run := range first {
		f.start(ctx, run, l.tail)
	}
	found := make(chan *corev1alpha1.Run)
	go l.discover(ctx, version, found)
	sights := workflowruns.Track(ctx, l.client, l.clock, l.run)
	for over := false; !over || f.active > 0; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case run := <-found:
			f.start(ctx, run, nil)
		case err := <-f.ends:
			f.active--
			var written *follow.WriteError
			if errors.As(err, &written) {
				return err
			}
			f.errs = append(f.errs, err)
		case sight, open := <-sights:
			if !open {
				sights = nil
				continue
			}
			if over, err = f.see(ctx, sight); err != nil {
				return err
			}
			if over {
				sights = nil
			}
		}
	}
	return errors.Join(f.errs...)
}

// see tells whether the WorkflowRun is over. Then all of its Runs are being followed.
func (f *follower) see(ctx context.Context, sight workflowruns.Sight) (over bool, err error) {
	switch {
	case sight.Err != nil:
		return false, sight.Err
	case sight.Lost != nil || !(sight.Deleted || workflowruns.Phase(sight.Object).IsTerminal()):
		return false, nil
	}
	f.run = sight.Object
	return true, f.startRest(ctx)
}

// startRest begins with the Runs that no watch has told of yet.
func (f *follower) startRest(ctx context.Context) error {
	last, _, err := f.steps.List(ctx, f.client, f.run)
	if err != nil {
		return err
	}
	for _, run := range last {
		f.start(ctx, run, nil)
	}
	return nil
}

// start begins to follow a Run, unless that has been done.
func (f *follower) start(ctx context.Context, run *corev1alpha1.Run, tail *int) {
	if f.started[run.UID] {
		return
	}
	f.started[run.UID] = true
	f.active++
	sink, flush := f.sink(run)
	go func() {
		_, err := follow.Follow(ctx, follow.Options{
			Client: f.client, Logs: f.logs, Clock: f.clock, Sink: sink, Tail: tail, Run: run,
		})
		err = errors.Join(err, flush())
		select {
		case f.ends <- err:
		case <-ctx.Done():
		}
	}()
}

// discover sends the Runs that appear after version, until ctx ends. A Run may be sent more than once.
func (l *stepLogs) discover(ctx context.Context, version string, found chan<- *corev1alpha1.Run) {
	send := func(run *corev1alpha1.Run) {
		select {
		case found <- run:
		case <-ctx.Done():
		}
	}
	for ctx.Err() == nil {
		err := l.watchRuns(ctx, version, send)
		select {
		case <-ctx.Done():
			return
		case <-l.clock.After(relistWait):
		}
		if apierrors.IsForbidden(err) {
			continue // the end of the WorkflowRun brings one more look at the Runs
		}
		runs, seen, err := l.steps.List(ctx, l.client, l.run)
		if err != nil {
			continue
		}
		version = seen
		for _, run := range runs {
			send(run)
		}
	}
}

// watchRuns sends new Runs until the watch breaks.
func (l *stepLogs) watchRuns(ctx context.Context, version string, send func(*corev1alpha1.Run)) error {
	w, err := l.client.Watch(ctx, &corev1alpha1.RunList{}, client.InNamespace(l.run.Namespace), l.steps.Selector(l.run),
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version}})
	if err != nil {
		return err
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case event, open := <-w.ResultChan():
			if !open {
				return nil
			}
			if run, ok := event.Object.(*corev1alpha1.Run); ok && event.Type == watch.Added {
				send(run)
			}
		}
	}
}
