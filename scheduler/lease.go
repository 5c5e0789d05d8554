package scheduler

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"

	"kruntimes.io/kruntimes/election"
)

// lease is the Lease as this process sees it. It knows until when the process may act as the leader by itself, because
// the elector does not say so in time: it measures from the answer to a renewal, and not from the request, after which a
// successor may have begun to count.
type lease struct {
	resourcelock.Interface
	clock clock.Clock

	// lost is closed, by lose, when somebody else is seen to hold the Lease that was this process's.
	lost chan struct{}
	lose func()

	mu sync.Mutex
	// renewed is when the last write that was stored was asked for; zero before the first.
	renewed time.Time
}

func leaseOf(lock resourcelock.Interface, c clock.Clock) *lease {
	lost := make(chan struct{})
	return &lease{Interface: lock, clock: c, lost: lost, lose: sync.OnceFunc(func() { close(lost) })}
}

func (s *scheduler) newLease() (*lease, error) {
	lock, err := election.NewLock(election.Options{Config: s.options.Config, Namespace: s.options.LeaderElectionNamespace, Name: leaseName})
	if err != nil {
		return nil, fmt.Errorf("setting leader election up: %w", err)
	}
	return leaseOf(lock, s.clock), nil
}

// Get reads the Lease. Once somebody else has it, this process leads no more, however late it had renewed: the Lease may have been
// deleted, and made by another replica.
func (l *lease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil && l.isTaken() && record.HolderIdentity != "" && record.HolderIdentity != l.Identity() {
		l.lose()
	}
	return record, raw, err
}

// Create takes the Lease that is not there yet.
func (l *lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.take(func() error { return l.Interface.Create(ctx, record) })
}

// Update takes or renews the Lease.
func (l *lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.take(func() error { return l.Interface.Update(ctx, record) })
}

func (l *lease) take(write func() error) error {
	asked := l.clock.Now()
	if err := write(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renewed = asked
	return nil
}

// isTaken tells whether the Lease has ever been this process's: then, and only then, the elector begins a term.
func (l *lease) isTaken() bool { return !l.renewedAt().IsZero() }

func (l *lease) renewedAt() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.renewed
}

// holds tells whether this process may still act as the leader. A process that was halted for a while, with its machine say,
// sees its timers late: what it is about to send is held back by asking the clock.
func (l *lease) holds() bool {
	select {
	case <-l.lost:
		return false
	default:
		return l.clock.Since(l.renewedAt()) < election.RenewDeadline
	}
}

// awaitExpiry returns when the Lease was lost, when it was not renewed for the RenewDeadline, or when ctx ends.
func (l *lease) awaitExpiry(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		select {
		case <-l.lost:
		case <-ctx.Done():
		}
	}()
	for {
		left := election.RenewDeadline - l.clock.Since(l.renewedAt())
		if left <= 0 || !sleep(ctx, l.clock, left) {
			return
		}
	}
}

// release empties the Lease, if it is this process's still, so that a successor need not wait for its end. Nobody else
// may use l meanwhile.
func (l *lease) release(ctx context.Context) error {
	for {
		record, _, err := l.Get(ctx)
		if err != nil {
			return fmt.Errorf("reading the Lease: %w", err)
		}
		if record.HolderIdentity != l.Identity() {
			return nil
		}
		now := metav1.NewTime(l.clock.Now())
		record.HolderIdentity, record.LeaseDurationSeconds = "", 1
		record.AcquireTime, record.RenewTime = now, now
		err = l.Interface.Update(ctx, *record)
		if apierrors.IsConflict(err) {
			continue // a renewal was under way when the election ended
		}
		if err != nil {
			return fmt.Errorf("emptying the Lease: %w", err)
		}
		return nil
	}
}
