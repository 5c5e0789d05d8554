package perf

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

var createOptions = metav1.CreateOptions{FieldManager: "kruntimes-bench"}

// terminals tells waiters when an object became terminal, as seen by one watch.
type terminals struct {
	mu      sync.Mutex
	waiting map[string]chan time.Time
	latest  time.Time
}

// expect returns a channel that receives the time at which the named object is seen in a terminal phase.
func (t *terminals) expect(name string) <-chan time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	ch := make(chan time.Time, 1)
	t.waiting[name] = ch
	return ch
}

func (t *terminals) last() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.latest
}

func (t *terminals) observe(object *unstructured.Unstructured, now time.Time) {
	phase, _, _ := unstructured.NestedString(object.Object, "status", "phase")
	if !corev1alpha1.RunPhase(phase).IsTerminal() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if ch, ok := t.waiting[object.GetName()]; ok {
		delete(t.waiting, object.GetName())
		t.latest = now
		ch <- now
	}
}

// watchTerminal starts to follow all objects of target, from now on, until ctx ends. It calls fail when it cannot.
func watchTerminal(ctx context.Context, target Target, fail func(error)) (*terminals, error) {
	seen := &terminals{waiting: map[string]chan time.Time{}}
	w, err := openWatch(ctx, target, seen)
	if err != nil {
		return nil, err
	}
	go func() {
		for err == nil {
			for event := range w.ResultChan() {
				if object, ok := event.Object.(*unstructured.Unstructured); ok && event.Type != watch.Deleted {
					seen.observe(object, time.Now())
				}
			}
			// The API server closes a watch now and then, one of a slow reader above all. What was missed is listed.
			w, err = openWatch(ctx, target, seen)
		}
		fail(err)
	}()
	return seen, nil
}

// openWatch looks at what there is, and opens a watch from there on.
func openWatch(ctx context.Context, target Target, seen *terminals) (watch.Interface, error) {
	resource := target.Client.Resource(target.Resource).Namespace(target.Namespace)
	list, err := resource.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", target.Resource.Resource, err)
	}
	for i := range list.Items {
		seen.observe(&list.Items[i], time.Now())
	}
	w, err := resource.Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", target.Resource.Resource, err)
	}
	return w, nil
}
