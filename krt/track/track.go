// Package track watches one object of the cluster through broken connections, until a person has seen enough.
package track

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Waits of a tracker whose connection is broken.
const (
	firstRewatch = 100 * time.Millisecond
	lastRewatch  = 5 * time.Second
	// giveUpAfter is how long the cluster may be away before a tracker ends with an error.
	giveUpAfter = 5 * time.Minute
)

// Sight is one observation of an object.
type Sight[T client.Object] struct {
	// Object as it was seen last; never nil.
	Object T
	// Deleted tells that the object does not exist any more.
	Deleted bool
	// Lost is set when the connection broke, with what was wrong; it is being made again.
	Lost error
	// Err ends the tracking.
	Err error
}

// Kind says how objects of one kind are read.
type Kind[T client.Object] struct {
	// Name of the kind, for errors.
	Name string
	// New returns an empty object, NewList an empty list.
	New     func() T
	NewList func() client.ObjectList
}

// Track sends what becomes of object, beginning with object itself, until it is deleted, tracking fails, or ctx ends.
// Then it closes the channel. A watch that breaks is made again.
func (k Kind[T]) Track(ctx context.Context, c client.WithWatch, clk clock.Clock, object T) <-chan Sight[T] {
	t := &tracker[T]{Kind: k, client: c, clock: clk, object: object, sights: make(chan Sight[T])}
	go func() {
		defer close(t.sights)
		t.loop(ctx)
	}()
	return t.sights
}

type tracker[T client.Object] struct {
	Kind[T]
	client client.WithWatch
	clock  clock.Clock
	object T
	sights chan Sight[T]
}

// loop watches, and looks again after each broken watch. It ends with the object.
func (t *tracker[T]) loop(ctx context.Context) {
	if !t.send(ctx, Sight[T]{Object: t.object}) {
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
			t.send(ctx, Sight[T]{Object: t.object, Err: fmt.Errorf("watching %s %s: %w", t.Name, t.object.GetName(), err)})
			return
		case lostSince.IsZero():
			lostSince = t.clock.Now()
			t.send(ctx, Sight[T]{Object: t.object, Lost: err})
		case t.clock.Since(lostSince) >= giveUpAfter:
			t.send(ctx, Sight[T]{Object: t.object, Err: fmt.Errorf("watching %s %s, without success for %s: %w",
				t.Name, t.object.GetName(), giveUpAfter, err)})
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
func (t *tracker[T]) watchThenLook(ctx context.Context) (seen, over bool, err error) {
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
func (t *tracker[T]) watch(ctx context.Context) (seen, over bool, err error) {
	w, err := t.client.Watch(ctx, t.NewList(), client.InNamespace(t.object.GetNamespace()),
		client.MatchingFields{"metadata.name": t.object.GetName()},
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: t.object.GetResourceVersion(), AllowWatchBookmarks: true}})
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
		object, ok := event.Object.(T)
		if !ok || event.Type == watch.Bookmark || client.ObjectKeyFromObject(object) != client.ObjectKeyFromObject(t.object) {
			continue // an error event is followed by the end of the watch
		}
		seen = true
		if t.see(ctx, object, event.Type == watch.Deleted) {
			return seen, true, nil
		}
	}
}

// look reads the object once.
func (t *tracker[T]) look(ctx context.Context) (over bool, err error) {
	object := t.New()
	err = t.client.Get(ctx, client.ObjectKeyFromObject(t.object), object)
	if apierrors.IsNotFound(err) {
		t.send(ctx, Sight[T]{Object: t.object, Deleted: true})
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return t.see(ctx, object, false), nil
}

// see sends a version of the object. One of another UID is new: the tracked one is gone.
func (t *tracker[T]) see(ctx context.Context, object T, deleted bool) (over bool) {
	if object.GetUID() != t.object.GetUID() {
		t.send(ctx, Sight[T]{Object: t.object, Deleted: true})
		return true
	}
	changed := object.GetResourceVersion() != t.object.GetResourceVersion()
	t.object = object
	if !changed && !deleted {
		return false
	}
	return !t.send(ctx, Sight[T]{Object: object, Deleted: deleted}) || deleted
}

func (t *tracker[T]) send(ctx context.Context, s Sight[T]) bool {
	select {
	case t.sights <- s:
		return true
	case <-ctx.Done():
		return false
	}
}
