package scheduler

import (
	"context"
	"fmt"
	"math/rand"
	"net/http"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/scheduler"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// TestSlowAndFaultyAPIServer adds 300 ms to every request, and makes one in twenty fail before or after it was served.
func TestSlowAndFaultyAPIServer(t *testing.T) {
	const count = 200
	ns := shared.Namespace(t)
	w := observe(t, ns, succeed(t))
	runtimeOf(t, ns, "sh", 2, "16")
	shared.RuntimePod(t, ns, "sh", "pod-a")
	shared.RuntimePod(t, ns, "sh", "pod-b")
	var mu sync.Mutex
	rng := rand.New(rand.NewSource(1))
	draw := func() int {
		mu.Lock()
		defer mu.Unlock()
		return rng.Intn(40)
	}
	cfg := rest.CopyConfig(identity(t))
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			timer := time.NewTimer(300 * time.Millisecond)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
			switch draw() {
			case 0:
				return nil, errCut
			case 1:
				if r.Method == http.MethodPatch {
					return faults["the answer is lost"](r, next)
				}
			}
			return next.RoundTrip(r)
		})
	})
	start(t, scheduler.Options{Config: cfg})
	createRuns(t, ns, "sh", count)
	w.await(t, corev1alpha1.RunSucceeded, count)
	w.check(t, 16)
}

// TestNothingIsWrittenWhileNothingHappens lets ten safety nets go by over Runs that wait and know why.
func TestNothingIsWrittenWhileNothingHappens(t *testing.T) {
	ns := shared.Namespace(t)
	runtimeOf(t, ns, "sh", 1, "1")
	shared.RuntimePod(t, ns, "sh", "pod-a")
	var mu sync.Mutex
	written := map[string]int{}
	cfg := onPatch(identity(t), func(_ int64, r *http.Request, send http.RoundTripper) (*http.Response, error) {
		mu.Lock()
		written[runIn(r)]++
		mu.Unlock()
		return send.RoundTrip(r)
	})
	clock := clocktesting.NewFakeClock(time.Now())
	start(t, scheduler.Options{Config: cfg, Clock: clock})
	createRuns(t, ns, "sh", 20)
	// step lets time go by in the steps of the teller's ticker.
	step := func(d time.Duration) {
		for range d / (100 * time.Millisecond) {
			clock.Step(100 * time.Millisecond)
		}
	}
	waiting := 0
	cluster.Eventually(t, "19 Runs to be told why they wait", func(context.Context) (bool, error) {
		step(time.Second)
		waiting = 0
		for i := range 20 {
			r := &corev1alpha1.Run{}
			if err := shared.Admin().Get(t.Context(), client.ObjectKey{Namespace: ns, Name: fmt.Sprintf("r%04d", i)}, r); err != nil {
				return false, err
			}
			if whyOf(r).Reason == corev1alpha1.ReasonInsufficientCapacity {
				waiting++
			}
		}
		return waiting == 19, nil
	})
	step(10 * time.Minute)
	// A Run that can be placed shows that the scheduler has been at work in these minutes.
	runtimeOf(t, ns, "other", 1, "1")
	shared.RuntimePod(t, ns, "other", "pod-b")
	shared.Create(t, newRun(ns, "probe", "other"))
	eventuallyRun(t, ns, "probe", "scheduled", isScheduled)
	mu.Lock()
	defer mu.Unlock()
	for name, n := range written {
		if n != 1 {
			t.Errorf("Run %s was written %d times, want once", name, n)
		}
	}
}
