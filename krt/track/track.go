// Package track watches one object of the cluster through broken connections, until a person has seen enough.
package track

import (
	"cmp"
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
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
	// sayAgainAfter is how often a tracker says meanwhile that it is still away.
	sayAgainAfter = time.Minute
)

// Sight is one observation of an object.
type Sight[T client.Object] struct {
	// Object as it was seen last; never nil.
	Object T
	// Deleted tells that the object does not exist any more.
	Deleted bool
	// Lost is set when the connection broke, and once a minute while it is being made again, with what is wrong.
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
	t := &tracker[T]{Kind: k, client: c, clock: clk, object: object, version: object.GetResourceVersion(), sights: make(chan Sight[T])}
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
	// version is that of all objects of the kind up to which the object's course is known, at which a watch goes on. That of
	// the object itself soon is too old for it where others change.
	version string
	sights  chan Sight[T]
}

// loop watches, and looks again after each broken watch. It ends with the object.
func (t *tracker[T]) loop(ctx context.Context) {
	if !t.send(ctx, Sight[T]{Object: t.object}) {
		return
	}
	wait := firstRewatch
	var lostSince, said time.Time
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
			said = lostSince
			t.send(ctx, Sight[T]{Object: t.object, Lost: err})
		case t.clock.Since(lostSince) >= giveUpAfter:
			t.send(ctx, Sight[T]{Object: t.object, Err: fmt.Errorf("watching %s %s, without success for %s: %w",
				t.Name, t.object.GetName(), giveUpAfter, err)})
			return
		case t.clock.Since(said) >= sayAgainAfter:
			said = t.clock.Now()
			t.send(ctx, Sight[T]{Object: t.object, Lost: fmt.Errorf("without success for %s of %s: %w",
				said.Sub(lostSince).Truncate(time.Second), giveUpAfter, err)})
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

// watch sends what happens from the known version, until the watch breaks. over tells that there is no more to see.
func (t *tracker[T]) watch(ctx context.Context) (seen, over bool, err error) {
	w, err := t.client.Watch(ctx, t.NewList(), client.InNamespace(t.object.GetNamespace()), t.options(t.version))
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return false, false, nil // looking gives a version to start from
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
		if !ok {
			continue // an error event is followed by the end of the watch
		}
		if event.Type == watch.Bookmark {
			t.version = object.GetResourceVersion()
			continue
		}
		if client.ObjectKeyFromObject(object) != client.ObjectKeyFromObject(t.object) {
			continue
		}
		seen, t.version = true, object.GetResourceVersion()
		if t.see(ctx, object, event.Type == watch.Deleted) {
			return seen, true, nil
		}
	}
}

// options choose the one object, from a version on.
func (t *tracker[T]) options(version string) *client.ListOptions {
	name := fields.OneTermEqualSelector(metav1.ObjectNameField, t.object.GetName()).String()
	return &client.ListOptions{Raw: &metav1.ListOptions{FieldSelector: name, ResourceVersion: version, AllowWatchBookmarks: version != ""}}
}

// look reads the object once, and the version from which it can be watched.
func (t *tracker[T]) look(ctx context.Context) (over bool, err error) {
	list := t.NewList()
	err = t.client.List(ctx, list, client.InNamespace(t.object.GetNamespace()), t.options(""))
	if apierrors.IsForbidden(err) {
		return t.get(ctx) // to watch does not take the right to list
	}
	if err != nil {
		return false, err
	}
	objects, err := meta.ExtractList(list)
	if err != nil {
		return false, fmt.Errorf("reading a list: %w", err)
	}
	for _, o := range objects {
		if object, ok := o.(T); ok && client.ObjectKeyFromObject(object) == client.ObjectKeyFromObject(t.object) {
			t.version = cmp.Or(list.GetResourceVersion(), object.GetResourceVersion())
			return t.see(ctx, object, false), nil
		}
	}
	t.send(ctx, Sight[T]{Object: t.object, Deleted: true})
	return true, nil
}

// get reads the object alone, whose version may be too old for a watch.
func (t *tracker[T]) get(ctx context.Context) (over bool, err error) {
	object := t.New()
	err = t.client.Get(ctx, client.ObjectKeyFromObject(t.object), object)
	if apierrors.IsNotFound(err) {
		t.send(ctx, Sight[T]{Object: t.object, Deleted: true})
		return true, nil
	}
	if err != nil {
		return false, err
	}
	t.version = object.GetResourceVersion()
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
