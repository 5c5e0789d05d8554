package storehealth

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func condition(status metav1.ConditionStatus, message string, age time.Duration) *metav1.Condition {
	c := &metav1.Condition{
		Type: "ArtifactStoreReady", Status: status, Reason: "StoreReady", Message: message,
		ObservedGeneration: 7, LastTransitionTime: metav1.NewTime(now.Add(-age)),
	}
	if status == metav1.ConditionFalse {
		c.Reason = "StoreFailed"
	}
	return c
}

func TestWanted(t *testing.T) {
	const minute = time.Minute
	ready := func(age time.Duration) *metav1.Condition {
		return condition("True", "Pod p: artifacts can be kept", age)
	}
	broken := func(pod, why string, age time.Duration) *metav1.Condition {
		return condition("False", "Pod "+pod+": "+why, age)
	}
	full := errors.New("disk full")
	cases := map[string]struct {
		current *metav1.Condition
		failure error
		want    *metav1.Condition
	}{
		"the first word is good":                         {nil, nil, ready(0)},
		"the first word is bad":                          {nil, full, broken("p", "disk full", 0)},
		"it stays good":                                  {ready(minute), nil, nil},
		"it is good for another Pod, too":                {condition("True", "Pod q: artifacts can be kept", minute), nil, nil},
		"it goes bad":                                    {ready(minute), full, broken("p", "disk full", 0)},
		"it stays bad":                                   {broken("p", "disk full", minute), full, nil},
		"it stays bad for another reason":                {broken("p", "gone", minute), full, broken("p", "disk full", minute)},
		"it becomes good again":                          {broken("p", "gone", minute), nil, ready(0)},
		"it is bad for another Pod, too":                 {broken("p-2", "gone", time.Hour), full, nil},
		"it is bad for another Pod, since a moment":      {broken("p-2", "gone", 10*minute), nil, nil},
		"it was bad for another Pod":                     {broken("p-2", "gone", 10*minute+1), nil, ready(0)},
		"a Pod whose name begins like ours is another's": {broken("p2", "gone", minute), full, nil},
		"a long story is cut":                            {nil, errors.New(strings.Repeat("x", 2000)), broken("p", strings.Repeat("x", 1024-len("Pod p: ")-3)+"…", 0)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := wanted(seen{pod: "p", generation: 7, current: tc.current, failure: tc.failure, now: now, trusted: 10 * minute})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// api is a Runtime, and counts what is written to it.
type api struct {
	mu      sync.Mutex
	runtime corev1alpha1.Runtime
	written []string
	broken  error
}

func (a *api) Pod(context.Context, string) (*metav1.ObjectMeta, error) {
	return &metav1.ObjectMeta{Annotations: map[string]string{corev1alpha1.AnnotationRuntime: "r"}}, nil
}

func (a *api) Runtime(_ context.Context, name string) (*corev1alpha1.Runtime, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if name != "r" {
		return nil, errors.New("no such Runtime")
	}
	return a.runtime.DeepCopy(), a.broken
}

func (a *api) ApplyRuntimeCondition(_ context.Context, _ *corev1alpha1.Runtime, c metav1.Condition) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.runtime.Status.Conditions = []metav1.Condition{c}
	a.written = append(a.written, c.Message)
	return nil
}

func (a *api) messages() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.written...)
}

// checks is a store that says what it was told to.
type checks struct {
	mu     sync.Mutex
	answer error
	asked  int
	hangs  bool
}

func (c *checks) check(ctx context.Context) error {
	c.mu.Lock()
	c.asked++
	answer, hangs := c.answer, c.hangs
	c.mu.Unlock()
	if hangs {
		<-ctx.Done()
		select {} // it does not even answer to that
	}
	return answer
}

func (c *checks) set(answer error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = answer
}

func (c *checks) times() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

func start(t *testing.T, a *api, s *checks) (*Reporter, *clocktesting.FakeClock) {
	t.Helper()
	clock := clocktesting.NewFakeClock(now)
	r := New(Options{Pod: "p", Check: s.check, API: a, Interval: time.Hour, Retry: 5 * time.Minute,
		Random: func() float64 { return 0.5 }, Clock: clock, Log: logr.Discard()})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return r, clock
}

func withStore() corev1alpha1.Runtime {
	return corev1alpha1.Runtime{Spec: corev1alpha1.RuntimeSpec{ArtifactStore: &corev1alpha1.ArtifactStore{}}}
}

func TestReporter(t *testing.T) {
	a, s := &api{runtime: withStore()}, &checks{}
	r, clock := start(t, a, s)
	waitFor(t, "a first word", func() bool { return len(a.messages()) == 1 && clock.HasWaiters() })
	s.set(errors.New("access denied"))
	r.Suspect()
	waitFor(t, "a look at once", func() bool { return len(a.messages()) == 2 })
	waitFor(t, "a look after a while that finds nothing new", func() bool {
		clock.Step(time.Minute)
		return s.times() >= 4
	})
	s.set(nil)
	waitFor(t, "a good word", func() bool {
		clock.Step(time.Minute)
		return len(a.messages()) == 3
	})
	want := []string{"Pod p: artifacts can be kept", "Pod p: access denied", "Pod p: artifacts can be kept"}
	if diff := cmp.Diff(want, a.messages()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestReporterLeavesARuntimeWithoutStoreAlone(t *testing.T) {
	a, s := &api{}, &checks{answer: errors.New("gone")}
	_, clock := start(t, a, s)
	waitFor(t, "some looks", func() bool {
		clock.Step(time.Minute)
		return s.times() > 2
	})
	if got := a.messages(); len(got) > 0 {
		t.Errorf("written: %v", got)
	}
}

func TestReporterGivesAStoreUpThatHangs(t *testing.T) {
	a, s := &api{runtime: withStore()}, &checks{hangs: true}
	_, clock := start(t, a, s)
	waitFor(t, "a word about it", func() bool {
		clock.Step(10 * time.Second)
		return len(a.messages()) > 0
	})
	for range 100 {
		clock.Step(time.Minute)
	}
	if diff := cmp.Diff([]string{"Pod p: the artifact store does not answer within 30s"}, a.messages()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := s.times(); got != 1 {
		t.Errorf("it was asked %d times, although it had not answered", got)
	}
}

// TestAnAnswerThatComesLateCountsForNothing has a store that answers its first question only when that is given up, and all
// later ones at once.
func TestAnAnswerThatComesLateCountsForNothing(t *testing.T) {
	a, late := &api{runtime: withStore()}, make(chan struct{}, 1)
	late <- struct{}{}
	clock := clocktesting.NewFakeClock(now)
	r := New(Options{Pod: "p", API: a, Interval: time.Hour, Retry: 5 * time.Minute, Random: func() float64 { return 0.5 },
		Clock: clock, Log: logr.Discard(), Check: func(ctx context.Context) error {
			select {
			case <-late:
				<-ctx.Done()
				return ctx.Err()
			default:
				return nil
			}
		}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	waitFor(t, "a word about the silence", func() bool {
		clock.Step(10 * time.Second)
		return len(a.messages()) > 0
	})
	waitFor(t, "a good word once it has worked", func() bool {
		r.Worked()
		return len(a.messages()) > 1
	})
	want := []string{"Pod p: the artifact store does not answer within 30s", "Pod p: artifacts can be kept"}
	if diff := cmp.Diff(want, a.messages()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func waitFor(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for !condition() {
		select {
		case <-look.C:
		case <-deadline.C:
			t.Fatalf("no %s", what)
		}
	}
}
