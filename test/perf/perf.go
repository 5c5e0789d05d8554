// Package perf measures what a Run costs beside the floor: the same three API writes (create, bind, finish) on an inert
// copy of the Run CRD that no component watches, on the same control plane and in the same sitting. Ratios are what
// counts; absolute times on a shared machine say little.
package perf

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// Load says how Runs are offered.
type Load struct {
	// Name of the row, for people.
	Name string
	// Total number of Runs.
	Total int
	// InFlight is how many Runs are between create and terminal at a time. 0: all are created at once, by Creators.
	InFlight int
	// Creators bounds the concurrent create calls of a burst. Used when InFlight is 0.
	Creators int
}

// Sample is what one load measured.
type Sample struct {
	// Latencies are the times from the create call to the terminal phase seen by a watcher, in order of size.
	Latencies []time.Duration
	// Elapsed is the time from the first create call to the last terminal phase.
	Elapsed time.Duration
}

// Quantile returns the latency below which the share q (0 to 1) of the Runs lie.
func (s Sample) Quantile(q float64) time.Duration {
	if len(s.Latencies) == 0 {
		return 0
	}
	i := int(q * float64(len(s.Latencies)-1))
	return s.Latencies[i]
}

// Rate returns Runs per second.
func (s Sample) Rate() float64 {
	if s.Elapsed <= 0 {
		return 0
	}
	return float64(len(s.Latencies)) / s.Elapsed.Seconds()
}

// Target is a kind of object that can be taken through the life of a Run.
type Target struct {
	// Client and Resource say where the objects are made.
	Client    dynamic.Interface
	Resource  schema.GroupVersionResource
	Namespace string
	// Object returns the i-th object to create.
	Object func(i int) *unstructured.Unstructured
	// Advance makes the writes that follow the create call; nil where components do that.
	Advance func(ctx context.Context, created *unstructured.Unstructured) error
}

// Measure offers load to target and returns what a watcher saw. It ends with ctx, and when nothing more can be seen.
func Measure(ctx context.Context, target Target, load Load) (Sample, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	seen, err := watchTerminal(ctx, target, cancel)
	if err != nil {
		return Sample{}, err
	}
	limit := load.InFlight
	if limit == 0 {
		limit = load.Creators
	}
	latencies := make([]time.Duration, load.Total)
	begin := time.Now()
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(limit)
	waiters, waitCtx := errgroup.WithContext(ctx)
	for i := range load.Total {
		object := target.Object(i)
		group.Go(func() error {
			start := time.Now()
			done := seen.expect(object.GetName())
			created, err := target.Client.Resource(target.Resource).Namespace(target.Namespace).Create(groupCtx, object, createOptions)
			if err != nil {
				return fmt.Errorf("creating %s: %w", object.GetName(), err)
			}
			if target.Advance != nil {
				if err := target.Advance(groupCtx, created); err != nil {
					return fmt.Errorf("advancing %s: %w", object.GetName(), err)
				}
			}
			wait := func() error {
				select {
				case end := <-done:
					latencies[i] = end.Sub(start)
					return nil
				case <-waitCtx.Done():
					return fmt.Errorf("waiting for %s: %w", object.GetName(), context.Cause(waitCtx))
				}
			}
			if load.InFlight > 0 {
				return wait()
			}
			waiters.Go(wait)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return Sample{}, err
	}
	if err := waiters.Wait(); err != nil {
		return Sample{}, err
	}
	slices.Sort(latencies)
	return Sample{Latencies: latencies, Elapsed: seen.last().Sub(begin)}, nil
}
