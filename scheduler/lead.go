package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/leaderelection"

	"kruntimes.io/kruntimes/election"
)

// leaseName is the Lease that the active scheduler holds. A leader that cannot renew stops after election.RenewDeadline; nobody else
// starts before election.LeaseDuration. The difference is longer than requestTimeout, see there.
const leaseName = "kruntimes-scheduler"

// errLeadershipLost makes the process end: a successor starts from what the API server holds, and so should this one.
var errLeadershipLost = errors.New("leadership was lost")

// lead schedules, with leader election only while this process is the leader.
//
// Two leaders would give the same places away twice, so the Lease is never free while this one may still write: it is
// renewed until the last write has ended, is emptied only then, and is left to run out where the outcome of a write is
// not known. The elector's own release knows none of that: it frees the Lease before it ends the term.
func (s *scheduler) lead(ctx context.Context) error {
	if !s.options.LeaderElection {
		s.schedule(ctx)
		return nil
	}
	log := logr.FromContextOrDiscard(ctx)
	l, err := s.newLease()
	if err != nil {
		return err
	}
	s.mayWrite = l.holds
	election, endElection := context.WithCancel(context.WithoutCancel(ctx))
	defer endElection()
	ended, settled := make(chan struct{}), false
	elector, err := newElector(l, log, func(leading context.Context) {
		defer close(ended)
		defer endElection()
		settled = s.serveTerm(ctx, leading, l)
	})
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() {
		if !l.isTaken() { // else the end of the term ends the election
			endElection()
		}
	})()
	elector.Run(election)
	if l.isTaken() {
		<-ended
	}
	if ctx.Err() == nil {
		return errLeadershipLost
	}
	if settled {
		released, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
		defer cancel()
		if err := l.release(released); err != nil {
			log.Error(err, "Left the Lease to run out")
		}
	}
	return nil
}

// serveTerm schedules until ctx, leading or the Lease ends. It tells whether the outcome of every bind is known.
func (s *scheduler) serveTerm(ctx, leading context.Context, l *lease) (settled bool) {
	leading, stop := context.WithCancel(leading)
	defer context.AfterFunc(ctx, stop)()
	var watch sync.WaitGroup
	defer watch.Wait()
	defer stop()
	watch.Go(func() {
		l.awaitExpiry(leading)
		stop()
	})
	return s.schedule(leading)
}

func newElector(l *lease, log logr.Logger, onStarted func(context.Context)) (*leaderelection.LeaderElector, error) {
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name: leaseName, Lock: l,
		LeaseDuration: election.LeaseDuration, RenewDeadline: election.RenewDeadline, RetryPeriod: election.RetryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: onStarted,
			OnStoppedLeading: func() {},
			OnNewLeader:      func(leader string) { log.Info("Observed leader", "leader", leader) },
		},
	})
	if err != nil {
		return nil, fmt.Errorf("setting leader election up: %w", err)
	}
	return elector, nil
}
