// Package garbage frees what an artifact store holds of Runs that are gone. Every runtimed does so now and then, for its own
// namespace and without asking the others: what one has removed, the next one does not find. Nobody waits for it, so that
// a store that is broken holds nothing up.
package garbage

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/artifacts"
)

// API is what a Sweeper asks the API server.
type API interface {
	// NamespaceUID returns the UID of the namespace.
	NamespaceUID(ctx context.Context) (types.UID, error)
	// Get reads a Run from the API server's store.
	Get(ctx context.Context, name string) (*corev1alpha1.Run, error)
}

// Options are what a Sweeper works with. All are required.
type Options struct {
	// Store is swept.
	Store artifacts.Store
	// API knows which Runs there are.
	API API
	// Interval is the mean time between two sweeps. A sweep ends after that time at the latest.
	Interval time.Duration
	// Grace is how old a claim must be.
	Grace time.Duration
	// Random returns numbers in [0, 1), which spread the sweeps of many Pods.
	Random func() float64
	// Clock measures all times.
	Clock clock.Clock
	// Log receives what goes wrong.
	Log logr.Logger
}

// Sweeper sweeps an artifact store.
type Sweeper struct{ Options }

// New returns a Sweeper.
func New(opts Options) *Sweeper { return &Sweeper{Options: opts} }

// Run sweeps until ctx ends. It does not return while the store does not answer.
func (s *Sweeper) Run(ctx context.Context) {
	for pause := first(s.Interval, s.Random()); ; pause = next(s.Interval, s.Random()) {
		timer := s.Clock.NewTimer(pause)
		select {
		case <-timer.C():
			s.Sweep(ctx)
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// Sweep removes what is garbage now. What goes wrong is logged; the next sweep tries again.
func (s *Sweeper) Sweep(ctx context.Context) {
	began := s.Clock.Now()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	late := s.Clock.NewTimer(s.Interval)
	defer late.Stop()
	go func() { // ends with the sweep
		select {
		case <-late.C():
			cancel()
		case <-ctx.Done():
		}
	}()
	namespace, err := s.API.NamespaceUID(ctx)
	if err != nil {
		s.Log.Error(err, "Could not sweep the artifact store")
		return
	}
	removed, problems := 0, 0
	for claim, err := range s.Store.Claims(ctx) {
		if err != nil {
			problems++
			s.Log.V(1).Info("Could not read a claim", "cause", err.Error())
			continue
		}
		if !isCandidate(claim, namespace, began.Add(-s.Grace)) {
			continue
		}
		done, err := s.removeIfGarbage(ctx, claim)
		if err != nil {
			problems++
			s.Log.Error(err, "Could not free the artifacts of a Run", "run", claim.Owner.Run, "uid", claim.Run)
		}
		if done {
			removed++
		}
	}
	if removed+problems > 0 {
		s.Log.Info("Swept the artifact store", "removed", removed, "problems", problems, "took", s.Clock.Since(began).String())
	}
}

func (s *Sweeper) removeIfGarbage(ctx context.Context, claim artifacts.Claim) (bool, error) {
	run, err := s.API.Get(ctx, claim.Owner.Run)
	if apierrors.IsNotFound(err) {
		run, err = nil, nil
	}
	if err != nil || !isGarbage(claim, run) {
		return false, err
	}
	if err := s.Store.Remove(ctx, claim.Run); err != nil {
		return false, err
	}
	s.Log.V(1).Info("Freed the artifacts of a Run", "run", claim.Owner.Run, "uid", claim.Run)
	return true, nil
}
