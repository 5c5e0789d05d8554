package manager

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// stoppableCache stops waiting when it is told to stop. A manager of controller-runtime v0.25 that is cancelled while its
// caches fill would otherwise never return and keep a processor busy: runnableGroup.Start loops until every cache has
// reported, and a cache that stops before it is filled reports nothing. Remove this when Start returns on cancellation.
type stoppableCache struct{ cache.Cache }

// newStoppableCache makes the cache of a manager.
func newStoppableCache(cfg *rest.Config, options cache.Options) (cache.Cache, error) {
	c, err := cache.New(cfg, options)
	if err != nil {
		return nil, fmt.Errorf("making the cache: %w", err)
	}
	return stoppableCache{c}, nil
}

// WaitForCacheSync returns true when the cache is filled, and also when ctx ends because everything stops.
func (c stoppableCache) WaitForCacheSync(ctx context.Context) bool {
	return c.Cache.WaitForCacheSync(ctx) || errors.Is(ctx.Err(), context.Canceled)
}
