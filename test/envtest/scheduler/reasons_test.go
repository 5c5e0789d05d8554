package scheduler

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/scheduler"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// why is what a Run's condition says.
type why struct{ Status, Reason, Message string }

func whyOf(r *corev1alpha1.Run) why {
	c := meta.FindStatusCondition(r.Status.Conditions, corev1alpha1.RunConditionScheduled)
	if c == nil {
		return why{}
	}
	return why{string(c.Status), c.Reason, c.Message}
}

func waits(reason, message string) why { return why{"False", reason, message} }

func requests(name corev1.ResourceName, units string) func(*corev1alpha1.Run) {
	return func(r *corev1alpha1.Run) {
		r.Spec.Resources = &corev1alpha1.RunResources{Requests: corev1.ResourceList{name: resource.MustParse(units)}}
	}
}

// unreadyPod makes a Pod whose container cannot start.
func unreadyPod(t *testing.T, namespace, runtime, name, reason string) *corev1.Pod {
	t.Helper()
	pod := shared.RuntimePod(t, namespace, runtime, name)
	pod.Status.Conditions[0].Status = corev1.ConditionFalse
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: corev1alpha1.ContainerRuntime, Image: "sh", ImageID: "sh",
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}
	if err := shared.Admin().Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

func TestWhyRunsWait(t *testing.T) {
	ns := shared.Namespace(t)
	runtimeOf(t, ns, "zero", 0, "4")
	runtimeOf(t, ns, "none-yet", 2, "4")
	runtimeOf(t, ns, "broken", 2, "4")
	unreadyPod(t, ns, "broken", "broken-a", "ImagePullBackOff")
	unreadyPod(t, ns, "broken", "broken-b", "CrashLoopBackOff")
	runtimeOf(t, ns, "mixed", 2, "1")
	shared.RuntimePod(t, ns, "mixed", "mixed-a")
	unreadyPod(t, ns, "mixed", "mixed-b", "ImagePullBackOff")
	start(t, scheduler.Options{Config: identity(t)})
	shared.Create(t, newRun(ns, "first", "mixed"))
	eventuallyRun(t, ns, "first", "scheduled", isScheduled)

	cases := map[string]struct {
		run  *corev1alpha1.Run
		want why
	}{
		"no such Runtime": {newRun(ns, "a", "nope"), waits(corev1alpha1.ReasonRuntimeNotFound, `the namespace has no Runtime "nope"`)},
		"scaled to 0":     {newRun(ns, "b", "zero"), waits(corev1alpha1.ReasonNoPods, `Runtime "zero" is scaled to 0 replicas`)},
		"no Pods yet":     {newRun(ns, "c", "none-yet"), waits(corev1alpha1.ReasonNoPods, `Runtime "none-yet" has none of its 2 Pods yet`)},
		"no Pod is ready, for their own reasons": {newRun(ns, "d", "broken"), waits(corev1alpha1.ReasonNoReadyPods,
			"2 Pods: 1 not ready: CrashLoopBackOff, 1 not ready: ImagePullBackOff")},
		"one is full, one is broken": {newRun(ns, "e", "mixed"), waits(corev1alpha1.ReasonInsufficientCapacity,
			"2 Pods: 1 full (runs 1/1), 1 not ready: ImagePullBackOff")},
		"larger than a Pod": {newRun(ns, "f", "mixed", requests("runs", "2")), waits(corev1alpha1.ReasonExceedsCapacity,
			`the Run requests 2 of runs, an empty Pod of Runtime "mixed" has 1`)},
		"a resource that is not offered": {newRun(ns, "g", "mixed", requests("example.com/gpu", "1")), waits(corev1alpha1.ReasonExceedsCapacity,
			`the Run requests 1 of example.com/gpu, an empty Pod of Runtime "mixed" has 0`)},
		"an affinity that nobody meets": {newRun(ns, "i", "mixed", func(r *corev1alpha1.Run) {
			r.Spec.Affinity = &corev1alpha1.Affinity{RunAffinity: &corev1alpha1.RunAffinity{Required: []corev1alpha1.RunAffinityTerm{{
				LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}, TopologyKey: corev1alpha1.TopologyRuntimePod}}}}
		}), waits(corev1alpha1.ReasonAffinityNotSatisfied, "2 Pods: 1 not ready: ImagePullBackOff, 1 without a Run that matches a=b")},
	}
	for _, tc := range cases {
		shared.Create(t, tc.run)
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := eventuallyRun(t, ns, tc.run.Name, "told why it waits", func(r *corev1alpha1.Run) bool { return whyOf(r) == tc.want })
			if got.Status.Phase != corev1alpha1.RunPending || got.Status.ObservedGeneration != got.Generation {
				t.Errorf("phase %s, observed generation %d of %d", got.Status.Phase, got.Status.ObservedGeneration, got.Generation)
			}
		})
	}
}

func TestABoundRunSaysSo(t *testing.T) {
	ns := shared.Namespace(t)
	runtimeOf(t, ns, "sh", 1, "4")
	pod := shared.RuntimePod(t, ns, "sh", "pod-a")
	start(t, scheduler.Options{Config: identity(t)})
	shared.Create(t, newRun(ns, "r", "sh"))
	r := eventuallyRun(t, ns, "r", "scheduled", isScheduled)
	if r.Status.ScheduledTime == nil || time.Since(r.Status.ScheduledTime.Time) > time.Minute {
		t.Errorf("scheduled at %v", r.Status.ScheduledTime)
	}
	r.Status.ScheduledTime, r.Status.Conditions[0].LastTransitionTime = nil, metav1.Time{}
	want := corev1alpha1.RunStatus{
		Phase: corev1alpha1.RunScheduled, ObservedGeneration: 1, AssignedPod: "pod-a", AssignedPodUID: string(pod.UID), Attempt: 1,
		Conditions: []metav1.Condition{{Type: corev1alpha1.RunConditionScheduled, Status: metav1.ConditionTrue,
			Reason: corev1alpha1.ReasonAssigned, Message: "assigned to Pod pod-a", ObservedGeneration: 1}},
	}
	if diff := cmp.Diff(want, r.Status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

// TestEventsWakeWaitingRuns walks a Run through everything that can keep it waiting, one event after the other.
func TestEventsWakeWaitingRuns(t *testing.T) {
	ns := shared.Namespace(t)
	start(t, scheduler.Options{Config: identity(t)})
	shared.Create(t, newRun(ns, "r", "sh", requests("runs", "2")))
	waitsFor := func(reason string) {
		t.Helper()
		eventuallyRun(t, ns, "r", "waiting: "+reason, func(r *corev1alpha1.Run) bool { return whyOf(r).Reason == reason })
	}
	waitsFor(corev1alpha1.ReasonRuntimeNotFound)
	runtime := runtimeOf(t, ns, "sh", 1, "1")
	waitsFor(corev1alpha1.ReasonNoPods)
	pod := unreadyPod(t, ns, "sh", "pod-a", "ContainerCreating")
	waitsFor(corev1alpha1.ReasonExceedsCapacity)
	runtime.Spec.Capacity[corev1alpha1.ResourceRuns] = resource.MustParse("2")
	if err := shared.Admin().Update(t.Context(), runtime); err != nil {
		t.Fatal(err)
	}
	waitsFor(corev1alpha1.ReasonNoReadyPods)
	shared.SetReady(t, pod, true)
	first := eventuallyRun(t, ns, "r", "scheduled", isScheduled)
	shared.Create(t, newRun(ns, "s", "sh"))
	eventuallyRun(t, ns, "s", "waiting", func(r *corev1alpha1.Run) bool { return whyOf(r).Reason == corev1alpha1.ReasonInsufficientCapacity })
	succeed(t)(t.Context(), first)
	eventuallyRun(t, ns, "s", "scheduled", isScheduled)
}

func TestARunThatWasHandedBackWaitsForItsTime(t *testing.T) {
	ns := shared.Namespace(t)
	runtimeOf(t, ns, "sh", 1, "1")
	shared.RuntimePod(t, ns, "sh", "pod-a")
	clock := clocktesting.NewFakeClock(time.Now().Truncate(time.Second))
	start(t, scheduler.Options{Config: identity(t), Clock: clock})
	shared.Create(t, newRun(ns, "r", "sh"))
	first := eventuallyRun(t, ns, "r", "scheduled", isScheduled)
	next := metav1.NewMicroTime(clock.Now().Add(time.Hour))
	err := patchStatus(t.Context(), first, func(s *corev1alpha1.RunStatus) {
		s.Phase, s.AssignedPod, s.AssignedPodUID, s.Attempt, s.NextAttemptTime = corev1alpha1.RunPending, "", "", 2, &next
		s.Reason = corev1alpha1.RunReasonScriptFailed
	})
	if err != nil {
		t.Fatal(err)
	}
	// Its place is free meanwhile.
	shared.Create(t, newRun(ns, "s", "sh"))
	succeed(t)(t.Context(), eventuallyRun(t, ns, "s", "scheduled", isScheduled))
	eventuallyRun(t, ns, "r", "told when it is tried again", func(r *corev1alpha1.Run) bool {
		clock.Step(time.Second)
		return whyOf(r) == waits(corev1alpha1.ReasonBackoff, "attempt 2 is not tried before "+next.UTC().Format(time.RFC3339))
	})
	clock.SetTime(next.Time)
	again := eventuallyRun(t, ns, "r", "scheduled again", isScheduled)
	if again.Status.ScheduledTime.Before(&next) || again.Status.Attempt != 2 || again.Status.NextAttemptTime != nil {
		t.Errorf("scheduled at %s (not before %s), attempt %d, next attempt %v",
			again.Status.ScheduledTime, next, again.Status.Attempt, again.Status.NextAttemptTime)
	}
}

func TestRunsOnTheirWayOutAreNotBound(t *testing.T) {
	ns := shared.Namespace(t)
	runtimeOf(t, ns, "sh", 1, "10")
	shared.RuntimePod(t, ns, "sh", "pod-a")
	shared.Create(t, newRun(ns, "cancelled", "sh", func(r *corev1alpha1.Run) { r.Spec.CancelRequested = true }))
	deleted := newRun(ns, "deleted", "sh", func(r *corev1alpha1.Run) { r.Finalizers = []string{"test.kruntimes.io/stay"} })
	shared.Create(t, deleted)
	shared.Delete(t, deleted)
	start(t, scheduler.Options{Config: identity(t)})
	// A Run of later creation is bound, so the others have been looked at.
	shared.Create(t, newRun(ns, "other", "sh"))
	eventuallyRun(t, ns, "other", "scheduled", isScheduled)
	for _, name := range []string{"cancelled", "deleted"} {
		eventuallyRun(t, ns, name, "still pending", func(r *corev1alpha1.Run) bool { return r.Status.Phase == corev1alpha1.RunPending })
	}
}

// TestABacklogIsServedInOrder fills one place, lets Runs queue up, and frees the place again and again.
func TestABacklogIsServedInOrder(t *testing.T) {
	const count = 20
	ns := shared.Namespace(t)
	runtimeOf(t, ns, "sh", 1, "1")
	var order []string
	served := make(chan string, count)
	observe(t, ns, func(ctx context.Context, run *corev1alpha1.Run) {
		served <- run.Name
		succeed(t)(ctx, run)
	})
	var want []string
	for i := range count {
		name := fmt.Sprintf("r-%02d", count-i) // not in the order of names
		shared.Create(t, newRun(ns, name, "sh"))
		want = append(want, name)
	}
	shared.RuntimePod(t, ns, "sh", "pod-a")
	start(t, scheduler.Options{Config: identity(t)})
	cluster.Eventually(t, "all Runs to be served", func(context.Context) (bool, error) {
		for len(served) > 0 {
			order = append(order, <-served)
		}
		return len(order) == count, nil
	})
	if diff := cmp.Diff(want, order); diff != "" {
		t.Errorf("order (-created +served):\n%s", diff)
	}
}
