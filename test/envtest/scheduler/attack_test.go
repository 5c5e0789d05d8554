package scheduler

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/scheduler"
)

// retried gives a Run as many attempts as there can be, without a wait.
func retried(r *corev1alpha1.Run) {
	r.Spec.RetryPolicy = &corev1alpha1.RetryPolicy{MaxAttempts: 100, Backoff: &metav1.Duration{}}
}

// lasts waits, as an execution takes time, unless ctx ends.
func lasts(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// report stores what becomes of an attempt, unless the Run has another version by now.
func report(ctx context.Context, run, after *corev1alpha1.Run) error {
	patch := client.MergeFromWithOptions(run, client.MergeFromWithOptimisticLock{})
	return client.IgnoreNotFound(shared.Admin().Status().Patch(ctx, after, patch))
}

// handBack ends an attempt of a Run as its runtimed would when it fails.
func handBack(ctx context.Context, run *corev1alpha1.Run) error {
	next, ok := run.HandedBack(corev1alpha1.AttemptEnd{Reason: corev1alpha1.RunReasonScriptFailed, Time: time.Now()})
	if !ok {
		return fmt.Errorf("no attempt is left after %d", run.Status.Attempt)
	}
	return report(ctx, run, next)
}

// TestRunsThatFailAtOnceUnderLateAnswers has Runs that fail and are handed back before the scheduler gets the answer to their
// bind. The answer to the first bind comes in the middle of a later one, and must not give its place away.
func TestRunsThatFailAtOnceUnderLateAnswers(t *testing.T) {
	const count, attempts, places = 12, 5, 3
	ns := shared.Namespace(t)
	w := observe(t, ns, func(ctx context.Context, run *corev1alpha1.Run) {
		if run.Status.Attempt >= attempts {
			succeed(t)(ctx, run)
			return
		}
		if err := handBack(ctx, run); err != nil && ctx.Err() == nil {
			t.Errorf("handing Run %s back: %v", run.Name, err)
		}
	})
	runtimeOf(t, ns, "sh", 1, fmt.Sprint(places))
	shared.RuntimePod(t, ns, "sh", "pod-a")
	cfg := onPatch(identity(t), func(_ int64, r *http.Request, send http.RoundTripper) (*http.Response, error) {
		response, err := send.RoundTrip(r)
		lasts(r.Context(), 300*time.Millisecond)
		return response, err
	})
	start(t, scheduler.Options{Config: cfg})
	for i := range count {
		shared.Create(t, newRun(ns, fmt.Sprintf("r%02d", i), "sh", retried))
	}
	w.await(t, corev1alpha1.RunSucceeded, count)
	w.check(t, places)
}

// TestPodsAreReplacedUnderBoundRuns deletes Pods and makes them again under their names, while Runs arrive and execute. With
// attempts left, all Runs succeed in the end; each attempt was bound once, and no Pod had too many.
func TestPodsAreReplacedUnderBoundRuns(t *testing.T) {
	const rounds = 6
	ns := shared.Namespace(t)
	w := observe(t, ns, func(ctx context.Context, run *corev1alpha1.Run) {
		if !lasts(ctx, 100*time.Millisecond) {
			return
		}
		done := run.DeepCopy()
		now := metav1.NowMicro()
		done.Status.Phase, done.Status.CompletionTime = corev1alpha1.RunSucceeded, &now
		// A conflict means that the Pod was lost: the report comes too late.
		if err := report(ctx, run, done); err != nil && !apierrors.IsConflict(err) && ctx.Err() == nil {
			t.Errorf("ending Run %s: %v", run.Name, err)
		}
	})
	runtimeOf(t, ns, "sh", 2, "4")
	pods := map[string]*corev1.Pod{}
	for _, name := range []string{"pod-a", "pod-b"} {
		pods[name] = shared.RuntimePod(t, ns, "sh", name)
	}
	shared.StartManager(t)
	start(t, scheduler.Options{Config: identity(t)})
	created := 0
	for range rounds {
		for name, pod := range pods {
			for range 10 {
				shared.Create(t, newRun(ns, fmt.Sprintf("r%03d", created), "sh", retried))
				created++
			}
			shared.Delete(t, pod)
			pods[name] = shared.RuntimePod(t, ns, "sh", name)
		}
	}
	w.await(t, corev1alpha1.RunSucceeded, created)
	w.check(t, 4)
}

// TestARuntimeIsDeletedUnderActiveRuns lets one Run execute and another one wait. The first is left alone, the second is told,
// and goes on when there is a Runtime of that name again.
func TestARuntimeIsDeletedUnderActiveRuns(t *testing.T) {
	ns := shared.Namespace(t)
	runtime := runtimeOf(t, ns, "sh", 1, "1")
	shared.RuntimePod(t, ns, "sh", "pod-a")
	start(t, scheduler.Options{Config: identity(t)})
	shared.Create(t, newRun(ns, "active", "sh"))
	active := eventuallyRun(t, ns, "active", "scheduled", isScheduled)
	shared.Create(t, newRun(ns, "waits", "sh"))
	told := func(reason string) {
		t.Helper()
		eventuallyRun(t, ns, "waits", "told "+reason, func(r *corev1alpha1.Run) bool { return whyOf(r).Reason == reason })
	}
	told(corev1alpha1.ReasonInsufficientCapacity)
	shared.Delete(t, runtime)
	told(corev1alpha1.ReasonRuntimeNotFound)
	succeed(t)(t.Context(), active)
	// The place is free, and a Run of another Runtime shows that the scheduler has been at work since.
	runtimeOf(t, ns, "other", 1, "1")
	shared.RuntimePod(t, ns, "other", "pod-b")
	shared.Create(t, newRun(ns, "other", "other"))
	eventuallyRun(t, ns, "other", "scheduled", isScheduled)
	told(corev1alpha1.ReasonRuntimeNotFound)
	runtimeOf(t, ns, "sh", 1, "1")
	eventuallyRun(t, ns, "waits", "scheduled", isScheduled)
}

// TestCapacityIsLoweredBelowUse takes places away that are in use: nobody is evicted, and nobody comes until it fits.
func TestCapacityIsLoweredBelowUse(t *testing.T) {
	ns := shared.Namespace(t)
	w := observe(t, ns, nil)
	runtime := runtimeOf(t, ns, "sh", 1, "4")
	shared.RuntimePod(t, ns, "sh", "pod-a")
	start(t, scheduler.Options{Config: identity(t)})
	createRuns(t, ns, "sh", 4)
	w.await(t, corev1alpha1.RunScheduled, 4)
	lowered := client.MergeFrom(runtime.DeepCopy())
	runtime.Spec.Capacity[corev1alpha1.ResourceRuns] = resource.MustParse("2")
	if err := shared.Admin().Patch(t.Context(), runtime, lowered); err != nil {
		t.Fatal(err)
	}
	shared.Create(t, newRun(ns, "waits", "sh"))
	for i, used := range []int{4, 3, 2} {
		want := waits(corev1alpha1.ReasonInsufficientCapacity, fmt.Sprintf("1 Pod: 1 full (runs %d/2)", used))
		eventuallyRun(t, ns, "waits", "told "+want.Message, func(r *corev1alpha1.Run) bool { return whyOf(r) == want })
		succeed(t)(t.Context(), eventuallyRun(t, ns, fmt.Sprintf("r%04d", i), "scheduled", isScheduled))
	}
	eventuallyRun(t, ns, "waits", "scheduled", isScheduled)
	w.check(t, 4)
}

// TestQuotaIsNamed has a Runtime of which the manager says that some Pods are refused.
func TestQuotaIsNamed(t *testing.T) {
	ns := shared.Namespace(t)
	runtime := runtimeOf(t, ns, "sh", 3, "1")
	shared.RuntimePod(t, ns, "sh", "pod-a")
	before := client.MergeFrom(runtime.DeepCopy())
	runtime.Status.Conditions = []metav1.Condition{{Type: "Progressing", Status: metav1.ConditionFalse, LastTransitionTime: metav1.Now(),
		Reason: corev1alpha1.ReasonPodsRefused, Message: "exceeded quota: pods"}}
	if err := shared.Admin().Status().Patch(t.Context(), runtime, before); err != nil {
		t.Fatal(err)
	}
	start(t, scheduler.Options{Config: identity(t)})
	shared.Create(t, newRun(ns, "first", "sh"))
	eventuallyRun(t, ns, "first", "scheduled", isScheduled)
	shared.Create(t, newRun(ns, "second", "sh"))
	want := waits(corev1alpha1.ReasonInsufficientCapacity,
		"1 Pod: 1 full (runs 1/1); 2 more cannot be made: PodsRefused: exceeded quota: pods")
	eventuallyRun(t, ns, "second", "told of the quota", func(r *corev1alpha1.Run) bool { return whyOf(r) == want })
}

// TestRetriesOfManyDoNotComeBackTogether hands many Runs back at the same moment. Their next attempts are bound apart.
func TestRetriesOfManyDoNotComeBackTogether(t *testing.T) {
	const count, backoff = 40, 2 * time.Second
	ns := shared.Namespace(t)
	w := observe(t, ns, nil)
	runtimeOf(t, ns, "sh", 1, fmt.Sprint(count))
	shared.RuntimePod(t, ns, "sh", "pod-a")
	start(t, scheduler.Options{Config: identity(t)})
	for i := range count {
		shared.Create(t, newRun(ns, fmt.Sprintf("r%02d", i), "sh", func(r *corev1alpha1.Run) {
			r.Spec.RetryPolicy = &corev1alpha1.RetryPolicy{MaxAttempts: 2, Backoff: &metav1.Duration{Duration: backoff}}
		}))
	}
	w.await(t, corev1alpha1.RunScheduled, count)
	runs := &corev1alpha1.RunList{}
	if err := shared.Admin().List(t.Context(), runs, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	failed := time.Now()
	for i := range runs.Items {
		next, _ := runs.Items[i].HandedBack(corev1alpha1.AttemptEnd{Reason: corev1alpha1.RunReasonScriptFailed, Time: failed})
		if err := report(t.Context(), &runs.Items[i], next); err != nil {
			t.Fatal(err)
		}
	}
	again := func(r *corev1alpha1.Run) bool { return isScheduled(r) && r.Status.Attempt == 2 }
	quarters := map[time.Duration]int{}
	for i := range count {
		r := eventuallyRun(t, ns, fmt.Sprintf("r%02d", i), "scheduled again", again)
		due := failed.Add(r.RetryWait(2))
		if early := due.Sub(r.Status.ScheduledTime.Time); early > time.Millisecond {
			t.Errorf("Run %s was bound %s too early", r.Name, early)
		}
		quarters[(r.RetryWait(2)-backoff)*4/(backoff/4)]++
	}
	if len(quarters) != 4 {
		t.Errorf("the attempts are due in %v of the four quarters of the time that is added", quarters)
	}
	w.check(t, count)
}

// TestASelectorForEachOfAThousandRuns has Runs with a rule each, all different, on two Pods: they cost no more than others.
func TestASelectorForEachOfAThousandRuns(t *testing.T) {
	const count = 300
	ns := shared.Namespace(t)
	w := observe(t, ns, succeed(t))
	runtimeOf(t, ns, "sh", 2, "4")
	shared.RuntimePod(t, ns, "sh", "pod-a")
	shared.RuntimePod(t, ns, "sh", "pod-b")
	start(t, scheduler.Options{Config: identity(t)})
	for i := range count {
		own := fmt.Sprint("step-", i)
		shared.Create(t, newRun(ns, fmt.Sprintf("r%04d", i), "sh", func(r *corev1alpha1.Run) {
			r.Labels = map[string]string{"step": own, "parity": strings.Repeat("x", 1+i%2)}
			r.Spec.Affinity = &corev1alpha1.Affinity{RunAffinity: selecting("step", own), RunAntiAffinity: selecting("apart-from", own)}
		}))
	}
	w.await(t, corev1alpha1.RunSucceeded, count)
	w.check(t, 4)
}
