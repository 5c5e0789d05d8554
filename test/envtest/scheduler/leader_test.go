package scheduler

import (
	"context"
	"net/http"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/scheduler"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// electing is a scheduler's configuration that counts the status writes, and can be cut off from the API server, as a
// whole or for its writes to the Lease only. A write to the Lease that is cut gets no answer.
type electing struct {
	options  scheduler.Options
	writes   atomic.Int64
	cut      atomic.Bool
	cutLease atomic.Bool
}

func newElecting(t *testing.T, namespace string) *electing {
	t.Helper()
	e := &electing{}
	cfg := rest.CopyConfig(shared.Config())
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if e.cut.Load() {
				return nil, errCut
			}
			if e.cutLease.Load() && r.Method == http.MethodPut && strings.HasSuffix(path.Dir(r.URL.Path), "/leases") {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/status") {
				e.writes.Add(1)
			}
			return next.RoundTrip(r)
		})
	})
	e.options = scheduler.Options{Config: cfg, LeaderElection: true, LeaderElectionNamespace: namespace}
	return e
}

func leaseHolder(t *testing.T, namespace string) string {
	t.Helper()
	var holder string
	cluster.Eventually(t, "somebody to hold the Lease", func(ctx context.Context) (bool, error) {
		lease := &coordinationv1.Lease{}
		err := shared.Admin().Get(ctx, client.ObjectKey{Namespace: namespace, Name: "kruntimes-scheduler"}, lease)
		if err == nil && lease.Spec.HolderIdentity != nil {
			holder = *lease.Spec.HolderIdentity
		}
		return holder != "", client.IgnoreNotFound(err)
	})
	return holder
}

// TestOnlyTheLeaderSchedules runs two schedulers, stops the leader, and has the other one carry on.
func TestOnlyTheLeaderSchedules(t *testing.T) {
	ns := shared.Namespace(t)
	w := observe(t, ns, succeed(t))
	runtimeOf(t, ns, "sh", 1, "4")
	shared.RuntimePod(t, ns, "sh", "pod-a")
	one, two := newElecting(t, ns), newElecting(t, ns)
	leader := start(t, one.options)
	leaseHolder(t, ns)
	start(t, two.options)
	createRuns(t, ns, "sh", 20)
	w.await(t, corev1alpha1.RunSucceeded, 20)
	if one.writes.Load() < 20 || two.writes.Load() != 0 {
		t.Errorf("the leader has written %d times, the other one %d times", one.writes.Load(), two.writes.Load())
	}
	leader.end(t)
	began := time.Now()
	shared.Create(t, newRun(ns, "after", "sh"))
	w.await(t, corev1alpha1.RunSucceeded, 21)
	t.Logf("after the leader had stopped, a Run was placed in %s", time.Since(began).Round(time.Millisecond))
	w.check(t, 4)
}

// TestALeaderThatIsCutOffEnds takes the network from the leader in mid-work: it ends by itself, with an error, and the
// other one carries on without giving a place away twice.
func TestALeaderThatIsCutOffEnds(t *testing.T) {
	ns := shared.Namespace(t)
	w := observe(t, ns, nil)
	runtimeOf(t, ns, "sh", 1, "4")
	shared.RuntimePod(t, ns, "sh", "pod-a")
	one, two := newElecting(t, ns), newElecting(t, ns)
	leader := start(t, one.options)
	leaseHolder(t, ns)
	start(t, two.options)
	createRuns(t, ns, "sh", 2)
	w.await(t, corev1alpha1.RunScheduled, 2)
	one.cut.Store(true)
	began := time.Now()
	for _, name := range []string{"x", "y", "z"} {
		shared.Create(t, newRun(ns, name, "sh"))
	}
	w.await(t, corev1alpha1.RunScheduled, 4)
	t.Logf("after the leader was cut off, the other one placed Runs in %s", time.Since(began).Round(time.Millisecond))
	w.check(t, 4)
	<-leader.done
	if leader.err == nil || !strings.Contains(leader.err.Error(), "leadership was lost") {
		t.Errorf("the leader ended with %v", leader.err)
	}
	leader.err = nil
}

// TestALeaderThatCannotRenewEnds takes nothing from the leader but its writes to the Lease. It must have stopped when a
// successor begins, though it could write Runs very well.
func TestALeaderThatCannotRenewEnds(t *testing.T) {
	ns := shared.Namespace(t)
	w := observe(t, ns, nil)
	runtimeOf(t, ns, "sh", 1, "4")
	shared.RuntimePod(t, ns, "sh", "pod-a")
	one, two := newElecting(t, ns), newElecting(t, ns)
	leader := start(t, one.options)
	holder := leaseHolder(t, ns)
	start(t, two.options)
	createRuns(t, ns, "sh", 2)
	w.await(t, corev1alpha1.RunScheduled, 2)
	one.cutLease.Store(true)
	cluster.Eventually(t, "the other one to hold the Lease", func(context.Context) (bool, error) {
		now := leaseHolder(t, ns)
		return now != holder && now != "", nil
	})
	before := one.writes.Load()
	for _, name := range []string{"u", "v", "w", "x", "y", "z"} {
		shared.Create(t, newRun(ns, name, "sh"))
	}
	w.await(t, corev1alpha1.RunScheduled, 4)
	w.check(t, 4)
	<-leader.done
	if leader.err == nil || !strings.Contains(leader.err.Error(), "leadership was lost") {
		t.Errorf("the leader ended with %v", leader.err)
	}
	leader.err = nil
	if got := one.writes.Load(); got != before {
		t.Errorf("the old leader has written %d times beside the new one", got-before)
	}
}

// TestAStoppedLeaderEmptiesTheLease, so that a successor need not wait.
func TestAStoppedLeaderEmptiesTheLease(t *testing.T) {
	ns := shared.Namespace(t)
	one := newElecting(t, ns)
	leader := start(t, one.options)
	leaseHolder(t, ns)
	leader.end(t)
	lease := &coordinationv1.Lease{}
	if err := shared.Admin().Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "kruntimes-scheduler"}, lease); err != nil {
		t.Fatal(err)
	}
	if holder := lease.Spec.HolderIdentity; holder != nil && *holder != "" {
		t.Errorf("the Lease is still held by %s", *holder)
	}
}
