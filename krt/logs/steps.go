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

// follower follows the Runs of a WorkflowRun and its calls as they appear.
type follower struct {
	*stepLogs
	// members are the WorkflowRuns whose Runs are being looked for, by UID.
	members map[types.UID]bool
	// started are the Runs that are followed, by UID.
	started map[types.UID]bool
	active  int
	found   chan stepRun
	ends    chan error
	errs    []error
}

// follow delivers the output of all steps until the WorkflowRun has ended and all of it is delivered.
func (l *stepLogs) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := &follower{stepLogs: l, members: map[types.UID]bool{}, started: map[types.UID]bool{}, found: make(chan stepRun), ends: make(chan error)}
	if err := f.discoverMembers(ctx, l.family, l.tail); err != nil {
		return err
	}
	sights := workflowruns.TrackFamily(ctx, l.client, l.clock, l.run)
	for over := false; !over || f.active > 0; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case run := <-f.found:
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
			var err error
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

// discoverMembers begins to look for the Runs of those WorkflowRuns of a family that are new.
func (f *follower) discoverMembers(ctx context.Context, family workflowruns.Family, tail *int) error {
	for _, member := range family.Members(f.steps) {
		if f.members[member.Run.UID] {
			continue
		}
		first, version, err := f.list(ctx, member)
		if err != nil && member.Run == family.Run {
			return err
		}
		if err != nil {
			continue // the next sight is another try
		}
		f.members[member.Run.UID] = true
		for _, run := range first {
			f.start(ctx, run, tail)
		}
		go f.discover(ctx, member, version)
	}
	return nil
}

// see tells whether the WorkflowRun is over. Then all of its Runs are being followed.
func (f *follower) see(ctx context.Context, sight workflowruns.FamilySight) (over bool, err error) {
	switch {
	case sight.Err != nil:
		return false, sight.Err
	case sight.Lost != nil:
		return false, nil
	case !(sight.Deleted || workflowruns.Phase(sight.Object).IsTerminal()):
		return false, f.discoverMembers(ctx, sight.Family, nil)
	}
	return true, f.startRest(ctx, sight.Family)
}

// startRest begins with the Runs that no watch has told of yet.
func (f *follower) startRest(ctx context.Context, family workflowruns.Family) error {
	for _, member := range family.Members(f.steps) {
		last, _, err := f.list(ctx, member)
		if err != nil {
			return err
		}
		for _, run := range last {
			f.start(ctx, run, nil)
		}
	}
	return nil
}

// start begins to follow a Run, unless that has been done.
func (f *follower) start(ctx context.Context, run stepRun, tail *int) {
	if f.started[run.UID] {
		return
	}
	f.started[run.UID] = true
	f.active++
	sink, flush := f.sink(run)
	go func() {
		_, err := follow.Follow(ctx, follow.Options{
			Client: f.client, Logs: f.logs, Clock: f.clock, Sink: sink, Tail: tail, Run: run.Run,
		})
		err = errors.Join(err, flush())
		select {
		case f.ends <- err:
		case <-ctx.Done():
		}
	}()
}

// discover sends the Runs of a WorkflowRun that appear after version, until ctx ends. A Run may be sent more than once.
func (f *follower) discover(ctx context.Context, member workflowruns.Member, version string) {
	send := func(run stepRun) {
		select {
		case f.found <- run:
		case <-ctx.Done():
		}
	}
	for ctx.Err() == nil {
		err := f.watchRuns(ctx, member, version, send)
		select {
		case <-ctx.Done():
			return
		case <-f.clock.After(relistWait):
		}
		if apierrors.IsForbidden(err) {
			continue // the end of the WorkflowRun brings one more look at the Runs
		}
		runs, seen, err := f.list(ctx, member)
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
func (f *follower) watchRuns(ctx context.Context, member workflowruns.Member, version string, send func(stepRun)) error {
	w, err := f.client.Watch(ctx, &corev1alpha1.RunList{}, client.InNamespace(member.Run.Namespace), member.Steps.Selector(member.Run),
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
			if run, ok := event.Object.(*corev1alpha1.Run); ok && event.Type == watch.Added && member.Steps.Includes(run) {
				send(stepRun{Run: run, path: member.Prefix + workflowruns.PathOf(run)})
			}
		}
	}
}
