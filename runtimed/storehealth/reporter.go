// Package storehealth shows in the status of the Runtime whether its artifact store can be used. Nothing is written while
// nothing changes.
package storehealth

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// checkTimeout bounds how long the store may take to say how it is.
const checkTimeout = 30 * time.Second

// API is what a Reporter reads from and writes to the API server.
type API interface {
	// Pod reads the metadata of a Pod.
	Pod(ctx context.Context, name string) (*metav1.ObjectMeta, error)
	// Runtime reads a Runtime.
	Runtime(ctx context.Context, name string) (*corev1alpha1.Runtime, error)
	// ApplyRuntimeCondition writes one condition of a Runtime, and nothing else of it.
	ApplyRuntimeCondition(ctx context.Context, r *corev1alpha1.Runtime, condition metav1.Condition) error
}

// Options are what a Reporter works with. All are required.
type Options struct {
	// Pod is the Pod of this runtimed.
	Pod string
	// Check tells what is wrong with the store.
	Check func(ctx context.Context) error
	// API holds the condition.
	API API
	// Interval is the mean time between two looks at a store that can be used, Retry at one that cannot.
	Interval, Retry time.Duration
	// Random returns numbers in [0, 1), which spread the looks of many Pods.
	Random func() float64
	// Clock measures all times.
	Clock clock.Clock
	// Log receives what goes wrong.
	Log logr.Logger
}

// Reporter looks at an artifact store and keeps the condition of the Runtime right.
type Reporter struct {
	Options
	// suspicions holds a token when the store is to be looked at at once.
	suspicions chan struct{}
	// isFailing tells that the last look found the store unusable.
	isFailing atomic.Bool
	// runtime is the name of the Runtime, once it is known.
	runtime string
	// answer brings what the store says; nil while it is not asked.
	answer chan error
}

// New returns a Reporter.
func New(opts Options) *Reporter {
	return &Reporter{Options: opts, suspicions: make(chan struct{}, 1)}
}

// Suspect has the store looked at at once, because it has failed. It returns at once.
func (r *Reporter) Suspect() {
	select {
	case r.suspicions <- struct{}{}:
	default:
	}
}

// Worked has a store that could not be used when it was looked at last looked at at once, because it has worked since. It
// returns at once.
func (r *Reporter) Worked() {
	if r.isFailing.Load() {
		r.Suspect()
	}
}

// Run looks at the store now, and then until ctx ends.
func (r *Reporter) Run(ctx context.Context) {
	for {
		wait := r.Interval
		failure, err := r.look(ctx)
		if ctx.Err() != nil {
			return
		}
		r.isFailing.Store(failure != nil)
		if err != nil {
			r.Log.Error(err, "Could not show the state of the artifact store")
		}
		if failure != nil {
			r.Log.Error(failure, "Found the artifact store unusable")
		}
		if err != nil || failure != nil {
			wait = r.Retry
		}
		timer := r.Clock.NewTimer(pause(wait, r.Random()))
		select {
		case <-timer.C():
		case <-r.suspicions:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// look looks at the store once. It returns what is wrong with it, and why that could not be shown.
func (r *Reporter) look(ctx context.Context) (failure, err error) {
	failure = r.check(ctx)
	if err := ctx.Err(); err != nil {
		return failure, err
	}
	if r.runtime == "" {
		pod, err := r.API.Pod(ctx, r.Pod)
		if err != nil {
			return failure, err
		}
		r.runtime = pod.Annotations[corev1alpha1.AnnotationRuntime]
		if r.runtime == "" {
			return failure, fmt.Errorf("reading Pod %s: it has no annotation %s", r.Pod, corev1alpha1.AnnotationRuntime)
		}
	}
	runtime, err := r.API.Runtime(ctx, r.runtime)
	if err != nil {
		return failure, err
	}
	if runtime.Spec.ArtifactStore == nil {
		return failure, nil // this Pod is of an earlier template
	}
	condition := wanted(seen{
		pod: r.Pod, generation: runtime.Generation, failure: failure, now: r.Clock.Now(), trusted: 2 * r.Retry,
		current: meta.FindStatusCondition(runtime.Status.Conditions, corev1alpha1.RuntimeConditionArtifactStoreReady),
	})
	if condition == nil {
		return failure, nil
	}
	return failure, r.API.ApplyRuntimeCondition(ctx, runtime, *condition)
}

// check asks the store, but not for ever. One that does not answer is not asked again before it has; what it says then was
// about a question that had been given up, and counts for nothing.
func (r *Reporter) check(ctx context.Context) error {
	timer := r.Clock.NewTimer(checkTimeout)
	defer timer.Stop()
	await := func() error {
		select {
		case err := <-r.answer:
			r.answer = nil
			return err
		case <-timer.C():
			return errSilent
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if r.answer != nil {
		if err := await(); r.answer != nil {
			return err
		}
	}
	bounded, cancel := context.WithCancel(ctx)
	defer cancel()
	answer := make(chan error, 1)
	r.answer = answer
	go func() { answer <- r.Check(bounded) }() // ends with the answer
	return await()
}

// errSilent is what is said of a store that says nothing.
var errSilent = errors.New("the artifact store does not answer within " + checkTimeout.String())
