package garbage

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/artifacts"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const ours = types.UID("our-namespace")

// store holds claims, of which some cannot be removed.
type store struct {
	artifacts.Store
	mu      sync.Mutex
	claims  []artifacts.Claim
	stuck   types.UID
	broken  error
	removed []types.UID
}

func (s *store) Claims(context.Context) iter.Seq2[artifacts.Claim, error] {
	return func(yield func(artifacts.Claim, error) bool) {
		s.mu.Lock()
		claims := slices.Clone(s.claims)
		s.mu.Unlock()
		if s.broken != nil && !yield(artifacts.Claim{}, s.broken) {
			return
		}
		for _, c := range claims {
			if !yield(c, nil) {
				return
			}
		}
	}
}

func (s *store) Remove(_ context.Context, run types.UID) error {
	if run == s.stuck {
		return errors.New("read-only")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removed = append(s.removed, run)
	s.claims = slices.DeleteFunc(s.claims, func(c artifacts.Claim) bool { return c.Run == run })
	return nil
}

// api knows Runs by their names.
type api struct {
	runs      map[string]types.UID
	forbidden bool
	mu        sync.Mutex
	asked     []string
}

func (a *api) NamespaceUID(context.Context) (types.UID, error) { return ours, nil }

func (a *api) Get(_ context.Context, name string) (*corev1alpha1.Run, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, name)
	resource := schema.GroupResource{Resource: "runs"}
	if a.forbidden {
		return nil, apierrors.NewForbidden(resource, name, nil)
	}
	uid, ok := a.runs[name]
	if !ok {
		return nil, apierrors.NewNotFound(resource, name)
	}
	run := &corev1alpha1.Run{}
	run.Name, run.UID = name, uid
	return run, nil
}

func claim(run, name string, namespace types.UID, age time.Duration) artifacts.Claim {
	return artifacts.Claim{Run: types.UID(run), Owner: artifacts.Owner{NamespaceUID: namespace, Run: name}, Since: now.Add(-age)}
}

func newSweeper(s artifacts.Store, a API, c *clocktesting.FakeClock) *Sweeper {
	return New(Options{Store: s, API: a, Interval: time.Hour, Grace: 15 * time.Minute, Random: func() float64 { return 0.5 },
		Clock: c, Log: logr.Discard()})
}

func TestSweep(t *testing.T) {
	cases := map[string]struct {
		claim     artifacts.Claim
		runs      map[string]types.UID
		forbidden bool
		want      []types.UID
		asked     []string
	}{
		"the Run is gone":                 {claim: claim("u", "r", ours, time.Hour), want: []types.UID{"u"}, asked: []string{"r"}},
		"another Run has its name":        {claim: claim("u", "r", ours, time.Hour), runs: map[string]types.UID{"r": "v"}, want: []types.UID{"u"}, asked: []string{"r"}},
		"the Run is there":                {claim: claim("u", "r", ours, time.Hour), runs: map[string]types.UID{"r": "u"}, asked: []string{"r"}},
		"it belongs to another namespace": {claim: claim("u", "r", "their-namespace", time.Hour)},
		"it belongs to nobody":            {claim: claim("u", "r", "", time.Hour)},
		"it names no Run":                 {claim: claim("u", "", ours, time.Hour)},
		"it was claimed a moment ago":     {claim: claim("u", "r", ours, 14*time.Minute)},
		"it is by a clock that is ahead":  {claim: claim("u", "r", ours, -time.Hour)},
		"the API server refuses to tell":  {claim: claim("u", "r", ours, time.Hour), forbidden: true, asked: []string{"r"}},
		"it cannot be removed":            {claim: claim("stuck", "r", ours, time.Hour), asked: []string{"r"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := &store{claims: []artifacts.Claim{tc.claim}, stuck: "stuck", broken: errors.New("half a claim")}
			a := &api{runs: tc.runs, forbidden: tc.forbidden}
			newSweeper(s, a, clocktesting.NewFakeClock(now)).Sweep(t.Context())
			if diff := cmp.Diff(tc.want, s.removed); diff != "" {
				t.Errorf("removed, -want +got:\n%s", diff)
			}
			if diff := cmp.Diff(tc.asked, a.asked); diff != "" {
				t.Errorf("asked for, -want +got:\n%s", diff)
			}
		})
	}
}

// TestSweepsTogether expects that many sweepers at once remove the same as one.
func TestSweepsTogether(t *testing.T) {
	s := &store{}
	a := &api{runs: map[string]types.UID{}}
	for i := range 50 {
		name := strings.Repeat("r", i+1)
		s.claims = append(s.claims, claim("u"+name, name, ours, time.Hour))
		if i%2 == 0 {
			a.runs[name] = types.UID("u" + name)
		}
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { newSweeper(s, a, clocktesting.NewFakeClock(now)).Sweep(t.Context()) })
	}
	all.Wait()
	if len(s.claims) != 25 {
		t.Errorf("%d claims are left, want 25", len(s.claims))
	}
	for _, c := range s.claims {
		if a.runs[c.Owner.Run] != c.Run {
			t.Errorf("the artifacts of a Run that is gone are left: %s", c.Owner.Run)
		}
	}
}

// TestRun steps through the times of sweeps.
func TestRun(t *testing.T) {
	c := clocktesting.NewFakeClock(now)
	s := &store{claims: []artifacts.Claim{claim("one", "one", ours, time.Hour)}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		newSweeper(s, &api{}, c).Run(ctx)
	}()
	left := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.claims)
	}
	waitFor(t, "a sweeper that waits", c.HasWaiters)
	c.Step(6*time.Minute - time.Second)
	if left() != 1 {
		t.Error("it swept too early")
	}
	c.Step(time.Second)
	waitFor(t, "the first sweep", func() bool { return left() == 0 })
	s.mu.Lock()
	s.claims = append(s.claims, claim("two", "two", ours, time.Hour))
	s.mu.Unlock()
	waitFor(t, "the second sweep", func() bool {
		c.Step(5 * time.Minute)
		return left() == 0
	})
	cancel()
	<-ended
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

func TestTimes(t *testing.T) {
	cases := map[string]struct{ got, want time.Duration }{
		"first, at the earliest": {first(time.Hour, 0), 3 * time.Minute},
		"first, at the latest":   {first(time.Hour, 1), 9 * time.Minute},
		"next, at the earliest":  {next(time.Hour, 0), 45 * time.Minute},
		"next, at the latest":    {next(time.Hour, 1), 75 * time.Minute},
	}
	for name, tc := range cases {
		if d := (tc.got - tc.want).Abs(); d > time.Second {
			t.Errorf("%s: want %s, got %s", name, tc.want, tc.got)
		}
	}
}
