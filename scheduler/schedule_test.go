package scheduler

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"kruntimes.io/kruntimes/election"
)

// startable makes a scheduler with a Run to place whose API server calls do for each request.
func startable(t *testing.T, do http.HandlerFunc) *scheduler {
	t.Helper()
	w := newWorld(t)
	w.runtime(1)
	w.pod("pod", "")
	w.add("a", "1")
	return &scheduler{clock: clock.RealClock{}, engine: w.engine, client: clientOf(t, do), slots: make(chan struct{}, maxBinds)}
}

// TestNothingIsWrittenAfterTheEnd ends the time of a scheduler before it begins to decide. Whether a select sees the end
// is a matter of luck, so it is tried often.
func TestNothingIsWrittenAfterTheEnd(t *testing.T) {
	const tries = 50
	t.Run("before it has begun", func(t *testing.T) {
		for range tries {
			var requests atomic.Int32
			s := startable(t, func(http.ResponseWriter, *http.Request) { requests.Add(1) })
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if settled := s.schedule(ctx); !settled || requests.Load() != 0 {
				t.Fatalf("%d requests were sent; settled: %t", requests.Load(), settled)
			}
		}
	})
	t.Run("while it catches up", func(t *testing.T) {
		for range tries {
			var writes atomic.Int32
			ctx, cancel := context.WithCancel(t.Context())
			s := startable(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet {
					writes.Add(1)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(`{"apiVersion":"kruntimes.io/v1alpha1","kind":"RunList","items":[]}`))
				cancel()
			})
			if settled := s.schedule(ctx); !settled || writes.Load() != 0 {
				t.Fatalf("%d writes were sent; settled: %t", writes.Load(), settled)
			}
		}
	})
}

// TestABindWithoutAnAnswerIsNotSettled ends the time of a scheduler while it does not know what became of a write.
func TestABindWithoutAnAnswerIsNotSettled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := startable(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.URL.Query().Has("limit") {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"apiVersion":"kruntimes.io/v1alpha1","kind":"RunList","items":[]}`))
			return
		}
		cancel()
		w.WriteHeader(http.StatusInternalServerError)
	})
	if s.schedule(ctx) {
		t.Error("the outcome of the bind is said to be known")
	}
}

// TestALeaderThatWasHaltedSendsNothing has a leader whose time is over, and whose timers have not told it yet, as after a
// halt of its machine. It may find out at any moment, but it must not write before.
func TestALeaderThatWasHaltedSendsNothing(t *testing.T) {
	var writes atomic.Int32
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := startable(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			writes.Add(1)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"apiVersion":"kruntimes.io/v1alpha1","kind":"RunList","items":[]}`))
	})
	c := clocktesting.NewFakeClock(epoch)
	l := leaseOf(nil, c)
	l.renewed = epoch
	c.Step(election.RenewDeadline)
	asked := make(chan struct{})
	var once sync.Once
	s.mayWrite = func() bool {
		once.Do(func() { close(asked) })
		return l.holds()
	}
	ended := make(chan bool)
	go func() { ended <- s.schedule(ctx) }()
	<-asked
	cancel()
	if settled := <-ended; !settled || writes.Load() != 0 {
		t.Errorf("%d writes were sent; settled: %t", writes.Load(), settled)
	}
}
