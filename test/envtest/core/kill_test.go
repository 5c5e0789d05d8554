package core

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/manager"
)

// fault lets a number of writes of a component through and then cuts the component off, as if it had been killed: either
// before its next write leaves, or after that write was carried out and before the answer is seen.
type fault struct {
	mu     sync.Mutex
	writes int
	// allowed is the number of writes that pass unharmed.
	allowed int
	// answerLost lets the fatal write reach the server.
	answerLost bool
	// tripped is closed at the fatal write.
	tripped chan struct{}
	dead    bool
}

var errKilled = errors.New("killed by the test")

// wrap puts the fault into a component's way to the API server.
func (f *fault) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodGet {
			return next.RoundTrip(r)
		}
		return f.write(next, r)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

func (f *fault) write(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dead {
		return nil, errKilled
	}
	if f.writes++; f.writes <= f.allowed {
		return next.RoundTrip(r)
	}
	f.dead = true
	defer close(f.tripped)
	if f.answerLost {
		response, err := next.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}
	return nil, errKilled
}

// killAtEveryWrite runs the manager once for every write that it makes, kills it there, and calls check on what a fresh
// manager makes of the rest. prepare makes the work; done tells when an unharmed manager has finished it.
func killAtEveryWrite(t *testing.T, prepare func(*testing.T) string, done func(*testing.T, string) bool, check func(*testing.T, string)) {
	for _, lost := range []bool{false, true} {
		for n := 0; ; n++ {
			tripped := false
			t.Run(fmt.Sprintf("after %d writes, answer lost %t", n, lost), func(t *testing.T) {
				ns := prepare(t)
				f := &fault{allowed: n, answerLost: lost, tripped: make(chan struct{})}
				stop := startManager(t, func(o *manager.Options) {
					o.Config.Wrap(f.wrap)
				})
				tripped = awaitTrip(t, f, func() bool { return done(t, ns) })
				stop()
				startManager(t)
				check(t, ns)
			})
			if !tripped || t.Failed() {
				break
			}
			if n > 20 {
				t.Fatal("more than 20 writes: the manager does not come to an end")
			}
		}
	}
}

// awaitTrip waits until the fault has struck, which it reports with true, or the work is done without.
func awaitTrip(t *testing.T, f *fault, done func() bool) bool {
	t.Helper()
	deadline, tick := time.After(time.Minute), time.NewTicker(50*time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-f.tripped:
			return true
		case <-tick.C:
			if done() {
				return false
			}
		case <-deadline:
			t.Fatal("neither was the fault reached nor the work done")
		}
	}
}

func TestTheRuntimeControllerSurvivesAKillAtEveryWrite(t *testing.T) {
	prepare := func(t *testing.T) string {
		ns := shared.Namespace(t)
		shared.Create(t, newRuntime(ns, "sh"))
		return ns
	}
	reported := func(t *testing.T, ns string) bool {
		r := &corev1alpha1.Runtime{}
		err := shared.Admin().Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "sh"}, r)
		return err == nil && len(r.Status.Conditions) > 0
	}
	killAtEveryWrite(t, prepare, reported, func(t *testing.T, ns string) {
		eventually(t, "the status", ns, "sh", &corev1alpha1.Runtime{}, func(r *corev1alpha1.Runtime) bool {
			return condition(r, "Available") == "False PodsStarting: 0 of 1 Pods ready"
		})
		for _, o := range []client.Object{&appsv1.Deployment{}, &corev1.ServiceAccount{}, &rbacv1.RoleBinding{}} {
			if err := shared.Admin().Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "runtime-sh"}, o); err != nil {
				t.Errorf("%T: %v", o, err)
			}
		}
	})
}

func TestTheLifecycleControllerSurvivesAKillAtEveryWrite(t *testing.T) {
	prepare := func(t *testing.T) string {
		ns := shared.Namespace(t)
		gone := shared.RuntimePod(t, ns, "sh", "a")
		waits, orphan, over := newRun(ns, "waits"), newRun(ns, "orphan"), newRun(ns, "over")
		over.Spec.TTLSecondsAfterFinished = new(int32)
		for _, run := range []*corev1alpha1.Run{waits, orphan, over} {
			shared.Create(t, run)
		}
		assign(t, orphan, gone, corev1alpha1.RunRunning)
		shared.Delete(t, gone)
		cancel(t, waits)
		if err := writeStatus(t, over, map[string]any{"phase": "Cancelled", "completionTime": "2026-01-01T00:00:00.000000Z"}); err != nil {
			t.Fatal(err)
		}
		return ns
	}
	phases := func(t *testing.T, ns string) map[string]corev1alpha1.RunPhase {
		got := map[string]corev1alpha1.RunPhase{}
		for _, name := range []string{"waits", "orphan", "over"} {
			run := &corev1alpha1.Run{}
			err := shared.Admin().Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, run)
			if err == nil {
				got[name] = run.Status.Phase
			} else if !apierrors.IsNotFound(err) {
				t.Fatal(err)
			}
		}
		return got
	}
	want := map[string]corev1alpha1.RunPhase{"waits": "Cancelled", "orphan": "Failed"}
	done := func(t *testing.T, ns string) bool { return cmp.Equal(want, phases(t, ns)) }
	killAtEveryWrite(t, prepare, done, func(t *testing.T, ns string) {
		awaitEnd(t, ns, "waits")
		awaitEnd(t, ns, "orphan")
		eventuallyGone(t, ns, "over")
		if diff := cmp.Diff(want, phases(t, ns)); diff != "" {
			t.Errorf("phases (-want +got):\n%s", diff)
		}
	})
}
