package core

import (
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/manager"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// finish ends a Run on a Pod as runtimed of that would.
func finish(t *testing.T, run *corev1alpha1.Run, pod *corev1.Pod, end map[string]any) {
	t.Helper()
	assign(t, run, pod, corev1alpha1.RunRunning)
	if end["completionTime"] == nil {
		end["completionTime"] = stamp(time.Now())
	}
	if err := writeStatus(t, run, end); err != nil {
		t.Fatal(err)
	}
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z07:00") }

func failed() map[string]any {
	return map[string]any{"phase": "Failed", "reason": "ScriptFailed", "message": "exit code 3\ncannot open x"}
}

// created makes a Run.
func created(t *testing.T, namespace, name string) *corev1alpha1.Run {
	t.Helper()
	run := newRun(namespace, name)
	shared.Create(t, run)
	return run
}

// onEvents calls do in place of every request that writes an event in a namespace.
func onEvents(namespace string, do func(r *http.Request, send http.RoundTripper) (*http.Response, error)) func(*manager.Options) {
	return func(o *manager.Options) {
		o.Config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return cluster.RoundTripper(func(r *http.Request) (*http.Response, error) {
				if cluster.IsEvent(r) && strings.Contains(r.URL.Path, "/namespaces/"+namespace+"/") {
					return do(r, next)
				}
				return next.RoundTrip(r)
			})
		})
	}
}

// countEvents counts the requests that write events in a namespace.
func countEvents(namespace string, count *atomic.Int32) func(*manager.Options) {
	return onEvents(namespace, func(r *http.Request, send http.RoundTripper) (*http.Response, error) {
		count.Add(1)
		return send.RoundTrip(r)
	})
}

// TestEventsTellOnceHowRunsEnd ends Runs in all ways while a manager looks on, and after it, and starts further managers.
func TestEventsTellOnceHowRunsEnd(t *testing.T) {
	var written atomic.Int32
	ns := shared.Namespace(t)
	stop := startManager(t, countEvents(ns, &written))
	pod, leaves := shared.RuntimePod(t, ns, "sh", "stays"), shared.RuntimePod(t, ns, "sh", "a")
	finish(t, created(t, ns, "succeeded"), pod, map[string]any{"phase": "Succeeded"})
	finish(t, created(t, ns, "failed"), pod, failed())
	finish(t, created(t, ns, "slow"), pod, map[string]any{"phase": "Timeout", "reason": "Timeout", "message": "stopped after 1s"})
	cancel(t, created(t, ns, "cancelled"))
	lost := created(t, ns, "lost")
	assign(t, lost, leaves, corev1alpha1.RunRunning)
	retried := retryRun(t, ns, "retried", time.Hour)
	assign(t, retried, leaves, corev1alpha1.RunRunning)
	shared.Delete(t, leaves)
	next := awaitHandedBack(t, retried, 2).Status.NextAttemptTime.UTC().Format(time.RFC3339)
	want := map[string][]string{
		"run/failed":    {"Warning ScriptFailed: exit code 3; cannot open x"},
		"run/slow":      {"Warning Timeout: stopped after 1s"},
		"run/cancelled": {"Normal Cancelled: cancelled before it was assigned to a Pod"},
		"run/lost":      {"Warning RuntimePodLost: Pod a is gone, and nobody reported how the execution ended"},
		"run/retried": {"Normal Retrying: attempt 1 ended (RuntimePodLost); attempt 2 of 3 is not tried before " + next +
			": Pod a is gone, and nobody reported how the execution ended"},
	}
	shared.ExpectEvents(t, ns, want, nil)
	if got := int(written.Load()); got != len(want) {
		t.Errorf("%d writes of events, want one for each, and none for the Run that succeeded", got)
	}
	stop()

	// What happens while no manager is there is told by the next one, unless it is too long ago.
	finish(t, created(t, ns, "unseen"), pod, failed())
	finish(t, created(t, ns, "unseen-success"), pod, map[string]any{"phase": "Succeeded"})
	old := failed()
	old["completionTime"] = stamp(time.Now().Add(-time.Hour))
	finish(t, created(t, ns, "old"), pod, old)
	want["run/unseen"] = []string{"Warning ScriptFailed: exit code 3; cannot open x"}
	for i := range 2 {
		written.Store(0)
		stop = startManager(t, countEvents(ns, &written))
		shared.ExpectEvents(t, ns, want, nil)
		// What was there is told before what comes.
		last := created(t, ns, "last-"+strconv.Itoa(i))
		finish(t, last, pod, failed())
		want["run/"+last.Name] = []string{"Warning ScriptFailed: exit code 3; cannot open x"}
		shared.ExpectEvents(t, ns, want, nil)
		stop()
	}
	// The last manager sent what the API server had already, of the Runs that ended or were handed back lately: five of the
	// first manager, "unseen", one of the second manager, and its own.
	if got := written.Load(); got > 8 {
		t.Errorf("a manager that is started anew sent %d events", got)
	}
}

// TestAnEventThatIsLostIsToldByTheNextManager ends a manager between what it stores and what it tells.
func TestAnEventThatIsLostIsToldByTheNextManager(t *testing.T) {
	ns := shared.Namespace(t)
	lost := make(chan struct{}, 100)
	stop := startManager(t, onEvents(ns, func(*http.Request, http.RoundTripper) (*http.Response, error) {
		lost <- struct{}{}
		return nil, cluster.ErrKilled
	}))
	cancel(t, created(t, ns, "r"))
	awaitEnd(t, ns, "r")
	<-lost
	stop()
	startManager(t)
	shared.ExpectEvents(t, ns, map[string][]string{"run/r": {"Normal Cancelled: cancelled before it was assigned to a Pod"}}, nil)
}

// TestEventsTellOfARuntime follows a Runtime through trouble, twice.
func TestEventsTellOfARuntime(t *testing.T) {
	startManager(t)
	ns := shared.Namespace(t)
	shared.Create(t, newRuntime(ns, "sh"))
	says := func(progressing string) {
		t.Helper()
		eventually(t, "the condition "+progressing, ns, "sh", &corev1alpha1.Runtime{}, func(r *corev1alpha1.Runtime) bool {
			return condition(r, corev1alpha1.RuntimeConditionProgressing) == progressing
		})
	}
	says("True PodsStarting: 0 of 1 Pods ready")
	deployment := eventually(t, "the Deployment", ns, "runtime-sh", &appsv1.Deployment{}, func(*appsv1.Deployment) bool { return true })
	observed := client.MergeFrom(deployment.DeepCopy())
	deployment.Status.ObservedGeneration = deployment.Generation // as its controller would
	if err := shared.Admin().Status().Patch(t.Context(), deployment, observed); err != nil {
		t.Fatal(err)
	}
	pod := shared.RuntimePod(t, ns, "sh", "a")
	says("False PodsReady: 1 of 1 Pods ready")
	for range 2 {
		before := client.MergeFrom(pod.DeepCopy())
		pod.Status.Conditions[0].Status = corev1.ConditionFalse
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "runtime", Image: "x", ImageID: "x",
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}}}}
		if err := shared.Admin().Status().Patch(t.Context(), pod, before); err != nil {
			t.Fatal(err)
		}
		says("False PodsFailing: 0 of 1 Pods ready; container runtime of Pod a: ImagePullBackOff: no such image")
		before = client.MergeFrom(pod.DeepCopy())
		pod.Status.Conditions[0].Status, pod.Status.ContainerStatuses = corev1.ConditionTrue, nil
		if err := shared.Admin().Status().Patch(t.Context(), pod, before); err != nil {
			t.Fatal(err)
		}
		says("False PodsReady: 1 of 1 Pods ready")
	}
	shared.ExpectEvents(t, ns, map[string][]string{"runtime/sh": {
		"Normal PodsReady: 1 of 1 Pods ready (3 times)",
		"Warning PodsFailing: 0 of 1 Pods ready; container runtime of Pod a: ImagePullBackOff: no such image (2 times)",
	}}, nil)
}
