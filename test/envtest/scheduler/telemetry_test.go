package scheduler

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/scheduler"
	"kruntimes.io/kruntimes/telemetry/endpoint"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// TestEventsTellWhyRunsWait has a Run wait for its Runtime, then for Pods, and one that is placed at once.
func TestEventsTellWhyRunsWait(t *testing.T) {
	ns := shared.Namespace(t)
	runtimeOf(t, ns, "sh", 1, "1")
	shared.RuntimePod(t, ns, "sh", "sh-a")
	first := start(t, scheduler.Options{Config: identity(t)})
	shared.Create(t, newRun(ns, "placed", "sh"))
	placed := eventuallyRun(t, ns, "placed", "scheduled", isScheduled)
	shared.Create(t, newRun(ns, "waits", "sh"))
	shared.Create(t, newRun(ns, "lost", "nope"))
	want := map[string][]string{
		"run/waits": {"Normal InsufficientCapacity: 1 Pod: 1 full (runs 1/1)"},
		"run/lost":  {`Warning RuntimeNotFound: the namespace has no Runtime "nope"`},
	}
	shared.ExpectEvents(t, ns, want, nil)
	for about, told := range want { // The condition says the same.
		name := strings.TrimPrefix(about, "run/")
		run := eventuallyRun(t, ns, name, "told why it waits", func(r *corev1alpha1.Run) bool { return whyOf(r).Reason != "" })
		why := whyOf(run)
		if !strings.HasSuffix(told[0], why.Reason+": "+why.Message) {
			t.Errorf("%s: the event says %q, the condition %+v", name, told[0], why)
		}
	}
	runtimeOf(t, ns, "nope", 0, "1")
	want["run/lost"] = append(want["run/lost"], `Normal NoPods: Runtime "nope" is scaled to 0 replicas`)
	shared.ExpectEvents(t, ns, want, nil)

	// A scheduler that is started anew tells nothing of it again.
	first.end(t)
	start(t, scheduler.Options{Config: identity(t)})
	succeed(t)(t.Context(), placed)
	eventuallyRun(t, ns, "waits", "scheduled", isScheduled)
	shared.Create(t, newRun(ns, "marker", "none"))
	want["run/marker"] = []string{`Warning RuntimeNotFound: the namespace has no Runtime "none"`}
	shared.ExpectEvents(t, ns, want, nil)
}

// TestTheSchedulerCounts places two of three Runs.
func TestTheSchedulerCounts(t *testing.T) {
	shared.DeleteAll(t, &corev1alpha1.RunList{}) // a scheduler looks at all namespaces
	ns := shared.Namespace(t)
	token := shared.MetricsReader(t, ns, "reader")
	runtimeOf(t, ns, "sh", 1, "2")
	shared.RuntimePod(t, ns, "sh", "sh-a")
	address := cluster.FreeAddress(t)
	p := start(t, scheduler.Options{Config: identity(t), Metrics: endpoint.Options{Address: address}})
	before := cluster.Metrics(t, address, token)
	for i := range 3 {
		shared.Create(t, newRun(ns, fmt.Sprintf("r%d", i), "sh"))
		if i < 2 {
			eventuallyRun(t, ns, fmt.Sprintf("r%d", i), "scheduled", isScheduled)
		}
	}
	want := map[string]float64{
		"kruntimes_scheduler_attempts_total result=placed":        2,
		"kruntimes_scheduler_bind_duration_seconds result=stored": 2,
		"kruntimes_scheduler_binding_seconds":                     2,
		"kruntimes_scheduler_pending_runs queue=parked":           1,
	}
	sums := map[string]float64{}
	cluster.Eventually(t, "the figures", func(context.Context) (bool, error) {
		got := cluster.Grown(before, cluster.Metrics(t, address, token), "kruntimes_scheduler_")
		for name, value := range got {
			if sum, ok := strings.CutSuffix(name, " sum"); ok {
				sums[sum] = value
				delete(got, name)
			}
		}
		// The one that waits is tried again from time to time.
		rejected, cycles := got["kruntimes_scheduler_attempts_total result=unschedulable"], got["kruntimes_scheduler_cycle_duration_seconds"]
		if rejected < 1 || cycles != rejected+2 {
			return false, fmt.Errorf("%v cycles, of which %v found no Pod", cycles, rejected)
		}
		delete(got, "kruntimes_scheduler_attempts_total result=unschedulable")
		delete(got, "kruntimes_scheduler_cycle_duration_seconds")
		if diff := cmp.Diff(want, got); diff != "" {
			return false, fmt.Errorf("figures (-want +got):\n%s", diff)
		}
		return true, nil
	})
	if got := sums["kruntimes_scheduler_binding_seconds"]; got <= 0 || got > 60 {
		t.Errorf("from creation to binding took %v s", got)
	}
	for token, want := range map[string]int{"": http.StatusUnauthorized, shared.ServiceAccount(t, ns, "nobody").BearerToken: http.StatusForbidden} {
		if code, _, err := cluster.Scrape(t.Context(), "https://"+address+"/metrics", token); err != nil || code != want {
			t.Errorf("got code %d and error %v, want %d", code, err, want)
		}
	}
	// Whoever does not schedule any more does not know what waits.
	p.end(t)
	again := cluster.FreeAddress(t)
	held := identity(t)
	held.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if strings.HasPrefix(r.URL.Path, "/apis/kruntimes.io/") {
				return nil, errCut
			}
			return next.RoundTrip(r)
		})
	})
	start(t, scheduler.Options{Config: held, Metrics: endpoint.Options{Address: again}})
	if got := cluster.Metrics(t, again, token)["kruntimes_scheduler_pending_runs queue=parked"]; got != before["kruntimes_scheduler_pending_runs queue=parked"] {
		t.Errorf("%v Runs wait at a scheduler that does not work", got)
	}
}

// TestASchedulerIsReadyWithoutBeingTheLeader starts two.
func TestASchedulerIsReadyWithoutBeingTheLeader(t *testing.T) {
	for range 2 { // the first one has the Lease
		health := cluster.FreeAddress(t)
		start(t, scheduler.Options{Config: identity(t), HealthAddress: health, LeaderElection: true, LeaderElectionNamespace: "kruntimes-system"})
		cluster.Eventually(t, "a scheduler to be ready", func(ctx context.Context) (bool, error) {
			code, page, err := cluster.Scrape(ctx, "http://"+health+"/readyz", "")
			if err == nil && code != http.StatusOK {
				err = fmt.Errorf("code %d: %s", code, page)
			}
			return err == nil, err
		})
	}
}
