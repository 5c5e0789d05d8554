package follow

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// Waits of a tracker whose connection is broken.
const (
	firstRewatch = 100 * time.Millisecond
	lastRewatch  = 5 * time.Second
	// giveUpAfter is how long the cluster may be away before a tracker ends with an error.
	giveUpAfter = 5 * time.Minute
)

// Sight is one observation of a Run.
type Sight struct {
	// Run is the Run as it was seen last; never nil.
	Run *corev1alpha1.Run
	// Deleted tells that the Run does not exist any more.
	Deleted bool
	// Lost is set when the connection broke, with what was wrong; it is being made again.
	Lost error
	// Err ends the tracking.
	Err error
}

// Track sends what becomes of run, beginning with run itself, until it is deleted, tracking fails, or ctx ends.
// Then it closes the channel. A watch that breaks is made again.
func Track(ctx context.Context, c client.WithWatch, clk clock.Clock, run *corev1alpha1.Run) <-chan Sight {
	t := &tracker{client: c, clock: clk, run: run, sights: make(chan Sight)}
	go func() {
		defer close(t.sights)
		t.loop(ctx)
	}()
	return t.sights
}

type tracker struct {
	client client.WithWatch
	clock  clock.Clock
	run    *corev1alpha1.Run
	sights chan Sight
}

// loop watches, and looks again after each broken watch. It ends with the Run.
func (t *tracker) loop(ctx context.Context) {
	if !t.send(ctx, Sight{Run: t.run}) {
		return
	}
	wait := firstRewatch
	var lostSince time.Time
	for {
		started := t.clock.Now()
		seen, over, err := t.watchThenLook(ctx)
		if over || ctx.Err() != nil {
			return
		}
		switch {
		case err == nil:
			lostSince = time.Time{}
			if seen || t.clock.Since(started) > lastRewatch { // not a watch that breaks as soon as it stands
				wait = firstRewatch
			}
		case isRefusal(err):
			t.send(ctx, Sight{Run: t.run, Err: fmt.Errorf("watching Run %s: %w", t.run.Name, err)})
			return
		case lostSince.IsZero():
			lostSince = t.clock.Now()
			t.send(ctx, Sight{Run: t.run, Lost: err})
		case t.clock.Since(lostSince) >= giveUpAfter:
			t.send(ctx, Sight{Run: t.run, Err: fmt.Errorf("watching Run %s, without success for %s: %w", t.run.Name, giveUpAfter, err)})
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-t.clock.After(wait):
		}
		wait = min(2*wait, lastRewatch)
	}
}

// watchThenLook watches until the watch breaks, and then looks at what it may have missed.
func (t *tracker) watchThenLook(ctx context.Context) (seen, over bool, err error) {
	seen, over, err = t.watch(ctx)
	if over || err != nil || ctx.Err() != nil {
		return seen, over, err
	}
	over, err = t.look(ctx)
	return seen, over, err
}

// isRefusal tells an answer that trying again will not change.
func isRefusal(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsInvalid(err)
}

// watch sends what happens from the version seen last, until the watch breaks. over tells that there is no more to see.
func (t *tracker) watch(ctx context.Context) (seen, over bool, err error) {
	w, err := t.client.Watch(ctx, &corev1alpha1.RunList{}, client.InNamespace(t.run.Namespace),
		client.MatchingFields{"metadata.name": t.run.Name},
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: t.run.ResourceVersion, AllowWatchBookmarks: true}})
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return false, false, nil // looking again gives a version to start from
	}
	if err != nil {
		return false, false, err
	}
	defer w.Stop()
	for {
		var event watch.Event
		open := false
		select {
		case <-ctx.Done():
		case event, open = <-w.ResultChan():
		}
		if !open {
			return seen, false, nil
		}
		run, ok := event.Object.(*corev1alpha1.Run)
		if !ok || event.Type == watch.Bookmark || run.Name != t.run.Name || run.Namespace != t.run.Namespace {
			continue // an error event is followed by the end of the watch
		}
		seen = true
		if t.see(ctx, run, event.Type == watch.Deleted) {
			return seen, true, nil
		}
	}
}

// look reads the Run once.
func (t *tracker) look(ctx context.Context) (over bool, err error) {
	var run corev1alpha1.Run
	err = t.client.Get(ctx, client.ObjectKeyFromObject(t.run), &run)
	if apierrors.IsNotFound(err) {
		t.send(ctx, Sight{Run: t.run, Deleted: true})
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return t.see(ctx, &run, false), nil
}

// see sends a version of the Run. A Run of another UID is a new one: the followed Run is gone.
func (t *tracker) see(ctx context.Context, run *corev1alpha1.Run, deleted bool) (over bool) {
	if run.UID != t.run.UID {
		t.send(ctx, Sight{Run: t.run, Deleted: true})
		return true
	}
	changed := run.ResourceVersion != t.run.ResourceVersion
	t.run = run
	if !changed && !deleted {
		return false
	}
	return !t.send(ctx, Sight{Run: run, Deleted: deleted}) || deleted
}

func (t *tracker) send(ctx context.Context, s Sight) bool {
	select {
	case t.sights <- s:
		return true
	case <-ctx.Done():
		return false
	}
}
