package executor

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/runtimed/decision"
	"kruntimes.io/kruntimes/runtimed/runs"
)

func TestFence(t *testing.T) {
	cases := map[string]struct {
		answers []answer
		want    error
	}{
		"the Run is ours":                    {[]answer{{http.StatusOK, assigned("2")}}, nil},
		"the API server answers late":        {[]answer{{code: 500}, {code: 500}, {http.StatusOK, assigned("2")}}, nil},
		"the Run is in another attempt":      {[]answer{{http.StatusOK, assigned("2", inAnotherAttempt)}}, errNotOurs},
		"the Run is gone":                    {[]answer{{code: http.StatusNotFound}}, errNotOurs},
		"the Run is back to where it waited": {[]answer{{http.StatusOK, assigned("2", handedBack)}}, errNotOurs},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			api := &scriptedAPI{answers: tc.answers}
			server := httptest.NewServer(api)
			defer server.Close()
			client, err := runs.NewClient(&rest.Config{Host: server.URL}, "ns")
			if err != nil {
				t.Fatal(err)
			}
			e := &Executor{Options: Options{Pod: Pod{Name: "p", Namespace: "ns", UID: "pu"}, Client: client, Clock: clock.RealClock{}, Log: logr.Discard()}}
			if err := newClaim(e, assigned("1"), "u.1").fence(t.Context()); !errors.Is(err, tc.want) {
				t.Errorf("want %v, got %v", tc.want, err)
			}
		})
	}
}

// TestFenceGivesUp expects that an API server that is away holds no claim that has ended.
func TestFenceGivesUp(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }))
	defer server.Close()
	client, err := runs.NewClient(&rest.Config{Host: server.URL}, "ns")
	if err != nil {
		t.Fatal(err)
	}
	e := &Executor{Options: Options{Pod: Pod{Name: "p", Namespace: "ns", UID: "pu"}, Client: client, Clock: clock.RealClock{}, Log: logr.Discard()}}
	c := newClaim(e, assigned("1"), "u.1")
	c.leave()
	if err := c.fence(t.Context()); !apierrors.IsInternalError(err) {
		t.Errorf("got %v", err)
	}
}

func TestAwaitStopOfUpload(t *testing.T) {
	began := time.Unix(1000, 0)
	limited := func(r *corev1alpha1.Run) { r.Spec.Timeout = &metav1.Duration{Duration: time.Minute} }
	cases := map[string]struct {
		change []func(*corev1alpha1.Run)
		then   func(t *testing.T, c *claim, clock *clocktesting.FakeClock, cancel func())
		want   decision.StopCause
		ok     bool
	}{
		"a cancel that was asked for": {[]func(*corev1alpha1.Run){withCancel}, nil, decision.StopCancel, true},
		"a cancel": {nil, func(_ *testing.T, c *claim, _ *clocktesting.FakeClock, _ func()) {
			c.update(assigned("9", withCancel))
		}, decision.StopCancel, true},
		"the Run has left": {nil, func(_ *testing.T, c *claim, _ *clocktesting.FakeClock, _ func()) { c.leave() }, decision.StopNone, true},
		"the Pod ends":     {nil, func(_ *testing.T, c *claim, _ *clocktesting.FakeClock, _ func()) { close(c.e.closing) }, decision.StopShutdown, true},
		"the time is up": {[]func(*corev1alpha1.Run){limited}, func(_ *testing.T, _ *claim, clock *clocktesting.FakeClock, _ func()) {
			clock.Step(50 * time.Second)
		}, decision.StopTimeout, true},
		"it is done": {nil, func(_ *testing.T, _ *claim, _ *clocktesting.FakeClock, cancel func()) { cancel() }, decision.StopNone, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			fake := clocktesting.NewFakeClock(began.Add(10 * time.Second))
			e := &Executor{Options: Options{Clock: fake, Log: logr.Discard(), Timing: Timing{RunningDelay: time.Hour}}, closing: make(chan struct{})}
			c := newClaim(e, assigned("1", tc.change...), "u.1")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			type end struct {
				cause decision.StopCause
				ok    bool
			}
			ended := make(chan end, 1)
			go func() {
				cause, ok := c.awaitStopOfUpload(ctx, began)
				ended <- end{cause, ok}
			}()
			if tc.then != nil {
				for !fake.HasWaiters() {
					select {
					case <-time.After(time.Millisecond):
					case <-t.Context().Done():
						t.Fatal("it does not wait")
					}
				}
				tc.then(t, c, fake, cancel)
			}
			for {
				select {
				case got := <-ended:
					if got != (end{tc.want, tc.ok}) {
						t.Errorf("want %v %t, got %v", tc.want, tc.ok, got)
					}
					return
				case <-time.After(time.Millisecond):
					fake.Step(0) // a timer that was made too late to see the step
				}
			}
		})
	}
}
