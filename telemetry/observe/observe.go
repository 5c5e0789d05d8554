// Package observe shows what becomes of objects to whoever tells of it or counts it, beside the controllers that act on it.
package observe

import (
	"context"
	"fmt"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Eyes are what sees objects of one kind. They are called one at a time and must not wait for anything, and must not change
// what they are shown. A nil function sees nothing.
type Eyes[T client.Object] struct {
	// First is shown an object for the first time: it was there already when watching began, or has just been created.
	First func(now T, wasThere bool)
	// Changed is shown an object before and after a change. Several changes may come as one.
	Changed func(before, after T)
	// Gone is shown the last that was seen of a deleted object.
	Gone func(last T)
}

// Watch shows the objects of a kind until ctx ends, from the cache, which must be filled in time. An object that was replaced
// under its name is gone, and another one is there for the first time. That ctx ends before the cache is filled is no error.
func Watch[T client.Object](ctx context.Context, informers cache.Informers, kind T, eyes Eyes[T]) error {
	informer, err := informers.GetInformer(ctx, kind)
	if err == nil {
		var registration toolscache.ResourceEventHandlerRegistration
		if registration, err = informer.AddEventHandler(eyes.handler()); err == nil {
			<-ctx.Done()
			err = informer.RemoveEventHandler(registration)
		}
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("watching %T: %w", kind, err)
	}
	return nil
}

// handler is told by an informer.
func (e Eyes[T]) handler() toolscache.ResourceEventHandler {
	first := func(now T, wasThere bool) {
		if e.First != nil {
			e.First(now, wasThere)
		}
	}
	gone := func(last T) {
		if e.Gone != nil {
			e.Gone(last)
		}
	}
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, wasThere bool) {
			if now, ok := obj.(T); ok {
				first(now, wasThere)
			}
		},
		UpdateFunc: func(old, obj any) {
			before, ok1 := old.(T)
			after, ok2 := obj.(T)
			switch {
			case !ok1 || !ok2:
			case before.GetUID() != after.GetUID():
				gone(before)
				first(after, false)
			case e.Changed != nil && before.GetResourceVersion() != after.GetResourceVersion():
				e.Changed(before, after)
			}
		},
		DeleteFunc: func(obj any) {
			if unseen, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = unseen.Obj
			}
			if last, ok := obj.(T); ok {
				gone(last)
			}
		},
	}
}
