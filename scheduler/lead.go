package scheduler

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const (
	// leaseName is the Lease that the active scheduler holds.
	leaseName = "kruntimes-scheduler"
	// A leader that cannot renew stops after renewDeadline; nobody else starts before leaseDuration. The difference is
	// longer than requestTimeout, see there.
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// errLeadershipLost makes the process end: a successor starts from what the API server holds, and so should this one.
var errLeadershipLost = errors.New("leadership was lost")

// lead schedules, with leader election only while this process is the leader.
func (s *scheduler) lead(ctx context.Context) error {
	if !s.options.LeaderElection {
		s.schedule(ctx)
		return nil
	}
	// The Lease is given up only after the last write has ended, so the election outlives ctx by that much.
	election, endElection := context.WithCancel(context.WithoutCancel(ctx))
	defer endElection()
	var term struct {
		sync.Mutex
		begun bool
		ended chan struct{}
	}
	term.ended = make(chan struct{})
	elector, err := s.newElector(func(leading context.Context) {
		term.Lock()
		term.begun = true
		term.Unlock()
		defer close(term.ended)
		defer endElection()
		leading, stop := context.WithCancel(leading)
		defer stop()
		defer context.AfterFunc(ctx, stop)()
		s.schedule(leading)
	}, logr.FromContextOrDiscard(ctx))
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() {
		term.Lock()
		defer term.Unlock()
		if !term.begun {
			endElection()
		}
	})()
	elector.Run(election)
	term.Lock()
	begun := term.begun
	term.Unlock()
	if begun {
		<-term.ended
	}
	if ctx.Err() == nil {
		return errLeadershipLost
	}
	return nil
}

func (s *scheduler) newElector(onStarted func(context.Context), log logr.Logger) (*leaderelection.LeaderElector, error) {
	client, err := coordinationv1.NewForConfig(s.options.Config)
	if err != nil {
		return nil, fmt.Errorf("making the client for Leases: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("asking for the host's name: %w", err)
	}
	identity := host + "_" + string(uuid.NewUUID())
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name: leaseName,
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: s.options.LeaderElectionNamespace, Name: leaseName},
			Client:     client,
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		ReleaseOnCancel: true,
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
