package runtimed

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"kruntimes.io/kruntimes/runtimed/bound"
	"kruntimes.io/kruntimes/runtimed/decision"
	"kruntimes.io/kruntimes/runtimed/executor"
	"kruntimes.io/kruntimes/runtimed/runs"
)

const (
	// settleRetry is how long to wait after a look for Runs that came late was in vain.
	settleRetry = 500 * time.Millisecond
	// podRetry is how long to wait after the Pod or its namespace could not be read.
	podRetry = time.Second
)

// errTimeUp is returned when the grace period ended before every execution was reported.
var errTimeUp = errors.New("the grace period of the Pod is over, and not every Run is reported")

// drain is the end of runtimed:
//
//	told to end --> lingers --> no claim at work --> no Run assigned --> ends
//	                  |  ^             ^     |            |
//	                  |  +-------------+     +-- a Run ---+  which is handed back
//	                  +-- the grace period is nearly over, or the namespace goes: executions are ended and reported
//
// What executes goes on. A Run that has not begun, or comes now because the scheduler did not know yet, is handed back.
// While a workspace is bound to the Pod its Runs are executed, and runtimed stays for them, until executions are ended.
type drain struct {
	timing ShutdownTiming
	pod    executor.Pod
	claims *executor.Executor
	feed   *runs.Feed
	keeper *bound.Keeper
	client *runs.Client
	clock  clock.WithDelayedExecution
	log    logr.Logger

	known   decision.Draining
	table   decision.Timetable
	stopped bool
	// settleAt is when to look whether runtimed can end, if no claim is at work then.
	settleAt time.Time
}

// run returns nil when nothing is left to be done, and an error when the time is up before that.
func (d *drain) run(ctx context.Context) error {
	began := d.clock.Now()
	d.settleAt = began.Add(d.timing.Linger)
	d.learn(decision.Draining{Began: began, Unknown: d.timing.UnknownGrace})
	d.log.Info("Started draining")
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	looks := make(chan look)
	go d.watchPod(ctx, looks)
	for {
		now := d.clock.Now()
		if !d.stopped && !now.Before(d.table.Stop) {
			d.stopped = true
			d.claims.Stop(d.table.StopGrace)
			d.log.Info("Ended what executes", "grace", d.table.StopGrace)
		}
		if !now.Before(d.table.Exit) {
			return errTimeUp
		}
		done, err := d.wait(ctx, looks, now)
		if done || err != nil {
			return err
		}
	}
}

// wait waits for the next thing to happen. It returns true when runtimed can end.
func (d *drain) wait(ctx context.Context, looks <-chan look, now time.Time) (done bool, err error) {
	next := d.table.Exit
	if !d.stopped && d.table.Stop.Before(next) {
		next = d.table.Stop
	}
	var quiet, changed <-chan struct{}
	workspaces, other := d.keeper.Bound()
	switch {
	case now.Before(d.settleAt):
		next = earlier(next, d.settleAt)
	case workspaces > 0 && !d.stopped:
		changed = other // their Runs can be executed nowhere else, and may still come
	default:
		quiet = d.claims.Quiet()
	}
	timer := d.clock.NewTimer(next.Sub(now))
	defer timer.Stop()
	select {
	case l := <-looks:
		d.learn(l(d.known))
	case <-changed:
	case <-quiet:
		return d.settle(ctx), nil
	case <-timer.C():
	case <-ctx.Done():
		return false, ctx.Err()
	}
	return false, nil
}

// learn takes in what has become known of the shutdown.
func (d *drain) learn(known decision.Draining) {
	d.known, d.table = known, known.Timetable()
	if !known.Abandoned.IsZero() {
		d.settleAt = earlier(d.settleAt, known.Abandoned)
	}
	d.claims.Drain(known)
}

// settle tells whether runtimed can end: no claim is at work, and the API server's store has no Run for this Pod. Until
// it ends no Run is claimed, so that none is left in the middle. A Run that is assigned after that is found by the Run
// lifecycle controller.
func (d *drain) settle(ctx context.Context) bool {
	if !d.claims.Close() {
		return false
	}
	late, err := d.feed.Active(ctx)
	switch {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		// The rights went with the namespace or the Runtime. Without them there is nothing left to be done.
		d.log.Info("Ended without a last look at the Runs", "cause", err.Error())
		return true
	case err != nil:
		d.log.Error(err, "Could not look for Runs that came late yet")
	case len(late) == 0:
		d.log.Info("Drained")
		return true
	}
	d.claims.Reopen(late)
	d.settleAt = d.clock.Now().Add(settleRetry)
	return false
}

// look is what a read of the Pod adds to what is known.
type look func(decision.Draining) decision.Draining

// watchPod reads the Pod and its namespace now and then, until ctx ends. A watch would need the right to watch every Pod.
func (d *drain) watchPod(ctx context.Context, looks chan<- look) {
	for {
		pause := d.timing.PodInterval
		for _, look := range []func(context.Context) (look, error){d.lookAtPod, d.lookAtNamespace} {
			l, err := look(ctx)
			if err != nil {
				d.log.Error(err, "Could not look at the Pod and its namespace yet")
				if !apierrors.IsForbidden(err) {
					pause = podRetry
				}
				continue
			}
			select {
			case looks <- l:
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-d.clock.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// lookAtPod finds out how much time is left.
func (d *drain) lookAtPod(ctx context.Context) (look, error) {
	pod, err := d.client.Pod(ctx, d.pod.Name)
	switch {
	case apierrors.IsNotFound(err), err == nil && string(pod.UID) != d.pod.UID:
		return decision.Draining.WithoutPod, nil
	case err != nil:
		return nil, err
	}
	deletion := deletionOf(pod)
	return func(known decision.Draining) decision.Draining { return known.WithPod(deletion) }, nil
}

// lookAtNamespace finds out whether anybody will ever see what becomes of the Runs. In a namespace that is being deleted,
// the Pods go first and the Runs after them.
func (d *drain) lookAtNamespace(ctx context.Context) (look, error) {
	namespace, err := d.client.Namespace(ctx)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	return func(known decision.Draining) decision.Draining {
		if err == nil && namespace.DeletionTimestamp == nil {
			return known
		}
		return known.WithoutNamespace(d.clock.Now())
	}, nil
}

// deletionOf returns what the API says about the deletion of a Pod; nil when it is not being deleted.
func deletionOf(pod *metav1.ObjectMeta) *decision.Deletion {
	if pod.DeletionTimestamp == nil {
		return nil
	}
	deletion := &decision.Deletion{End: pod.DeletionTimestamp.Time}
	if seconds := pod.DeletionGracePeriodSeconds; seconds != nil {
		deletion.Grace = time.Duration(*seconds) * time.Second
	}
	return deletion
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
