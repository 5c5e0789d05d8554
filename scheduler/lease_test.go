package scheduler

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"kruntimes.io/kruntimes/election"
)

// stored is a Lease without an API server: write is called for each write.
type stored struct {
	resourcelock.Interface
	record resourcelock.LeaderElectionRecord
	write  func() error
}

func (s *stored) Identity() string { return "me" }

func (s *stored) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record := s.record
	return &record, nil, nil
}

func (s *stored) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	if err := s.write(); err != nil {
		return err
	}
	s.record = record
	return nil
}

// noticed is a clock that tells when a timer was made.
type noticed struct {
	*clocktesting.FakeClock
	timers chan struct{}
}

func (n *noticed) NewTimer(d time.Duration) clock.Timer {
	defer func() { n.timers <- struct{}{} }()
	return n.FakeClock.NewTimer(d)
}

// TestALeaseRunsFromTheRequest expects that a slow answer makes no term longer, and a renewal that fails none.
func TestALeaseRunsFromTheRequest(t *testing.T) {
	c := &noticed{clocktesting.NewFakeClock(epoch), make(chan struct{}, 1)}
	s := &stored{}
	l := leaseOf(s, c)
	s.write = func() error { return errors.New("refused") }
	if err := l.Update(t.Context(), resourcelock.LeaderElectionRecord{}); err == nil || l.isTaken() {
		t.Fatalf("a Lease that was refused is taken: %v", err)
	}
	s.write = func() error {
		c.Step(election.RenewDeadline - time.Second)
		return nil
	}
	if err := l.Update(t.Context(), resourcelock.LeaderElectionRecord{}); err != nil || !l.isTaken() {
		t.Fatalf("it is not taken: %v", err)
	}
	expired := make(chan struct{})
	go func() {
		l.awaitExpiry(t.Context())
		close(expired)
	}()
	<-c.timers
	select {
	case <-expired:
		t.Error("it has expired too early")
	default:
	}
	c.Step(time.Second)
	<-expired
}

// TestALeaseThatSomebodyElseHasIsLost has the Lease deleted and made anew by another replica, long before the term would end.
func TestALeaseThatSomebodyElseHasIsLost(t *testing.T) {
	c := &noticed{clocktesting.NewFakeClock(epoch), make(chan struct{}, 1)}
	s := &stored{write: func() error { return nil }, record: resourcelock.LeaderElectionRecord{HolderIdentity: "other"}}
	l := leaseOf(s, c)
	read := func() {
		if _, _, err := l.Get(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	read() // as a candidate, which has nothing to lose
	if err := l.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "me"}); err != nil {
		t.Fatal(err)
	}
	read()
	if !l.holds() {
		t.Fatal("a Lease that is ours is not held")
	}
	expired := make(chan struct{})
	go func() {
		l.awaitExpiry(t.Context())
		close(expired)
	}()
	<-c.timers
	s.record.HolderIdentity = "other"
	read()
	if l.holds() {
		t.Error("a Lease that is another's is held")
	}
	<-expired
}

func TestReleasingALease(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "leases"}, "l", nil)
	cases := map[string]struct {
		holder string
		errs   []error
		want   string
	}{
		"ours is emptied":             {holder: "me", want: ""},
		"another one's stays":         {holder: "other", want: "other"},
		"a conflict is tried again":   {holder: "me", errs: []error{conflict, conflict}, want: ""},
		"an error leaves it":          {holder: "me", errs: []error{errors.New("down")}, want: "me"},
		"nobody's needs no new write": {holder: "", errs: []error{errors.New("down")}, want: ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := &stored{record: resourcelock.LeaderElectionRecord{HolderIdentity: tc.holder}}
			errs := tc.errs
			s.write = func() error {
				if len(errs) == 0 {
					return nil
				}
				err := errs[0]
				errs = errs[1:]
				return err
			}
			err := leaseOf(s, clocktesting.NewFakeClock(epoch)).release(t.Context())
			if diff := cmp.Diff(tc.want, s.record.HolderIdentity); diff != "" {
				t.Errorf("holder after %v (-want +got):\n%s", err, diff)
			}
			if failed := tc.want == "me"; (err != nil) != failed {
				t.Errorf("got %v", err)
			}
		})
	}
}
