package core

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// retryRun makes a Run that is tried up to three times, with a wait of backoff before the second attempt.
func retryRun(t *testing.T, namespace, name string, backoff time.Duration, on ...corev1alpha1.RunReason) *corev1alpha1.Run {
	t.Helper()
	run := newRun(namespace, name)
	run.Spec.RetryPolicy = &corev1alpha1.RetryPolicy{MaxAttempts: 3, Backoff: &metav1.Duration{Duration: backoff}, RetryOn: on}
	shared.Create(t, run)
	return run
}

func awaitHandedBack(t *testing.T, run *corev1alpha1.Run, attempt int32) *corev1alpha1.Run {
	t.Helper()
	return eventually(t, "Run "+run.Name+" to be handed back", run.Namespace, run.Name, &corev1alpha1.Run{}, func(r *corev1alpha1.Run) bool {
		return r.Status.Attempt == attempt && r.Status.Phase == corev1alpha1.RunPending
	})
}

// TestRunsOfLostPodsAreHandedBack loses the Pods of a Run until its attempts are used up.
func TestRunsOfLostPodsAreHandedBack(t *testing.T) {
	startManager(t)
	ns := shared.Namespace(t)
	run := retryRun(t, ns, "r", time.Hour)
	for attempt := int32(1); attempt <= 3; attempt++ {
		pod := shared.RuntimePod(t, ns, "sh", "a")
		status := map[string]any{"phase": "Scheduled", "attempt": attempt, "assignedPod": "a", "assignedPodUID": string(pod.UID), "nextAttemptTime": nil}
		if err := writeStatus(t, run, status); err != nil {
			t.Fatal(err)
		}
		before := time.Now()
		shared.Delete(t, pod)
		if attempt == 3 {
			break
		}
		got := awaitHandedBack(t, run, attempt+1).Status
		stored := eventually(t, "Run r", ns, "r", &corev1alpha1.Run{}, func(*corev1alpha1.Run) bool { return true })
		wait := stored.RetryWait(attempt + 1)
		const bound = 5 * time.Minute // the schema's default of maxBackoff is less than an hour
		if wait < bound*4/5 || wait > bound {
			t.Fatalf("the wait is %s", wait)
		}
		if got.NextAttemptTime == nil || got.NextAttemptTime.Time.Before(before.Add(wait)) || got.NextAttemptTime.After(time.Now().Add(wait)) {
			t.Errorf("nextAttemptTime is %v, want %s from now", got.NextAttemptTime, wait)
		}
		if c := meta.FindStatusCondition(got.Conditions, corev1alpha1.RunConditionScheduled); c == nil || c.Reason != corev1alpha1.ReasonBackoff {
			t.Errorf("the condition Scheduled is %+v", c)
		}
		got.NextAttemptTime, got.Conditions = nil, nil
		want := corev1alpha1.RunStatus{Phase: "Pending", Attempt: attempt + 1, ObservedGeneration: 1, Reason: lost.Reason, Message: lost.Message}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("status (-want +got):\n%s", diff)
		}
	}
	if diff := cmp.Diff(lost, endingOf(awaitEnd(t, ns, "r"))); diff != "" {
		t.Errorf("end (-want +got):\n%s", diff)
	}
}

func TestRunsOfLostPodsThatAreNotHandedBack(t *testing.T) {
	startManager(t)
	cases := map[string]struct {
		on     []corev1alpha1.RunReason
		cancel bool
		want   ending
	}{
		"other reasons are listed":  {on: []corev1alpha1.RunReason{"OOMKilled"}, want: lost},
		"its end was asked for":     {cancel: true, want: ending{Phase: "Cancelled", Reason: "Cancelled", Message: "cancelled; its Pod a is gone", Condition: "False Cancelled", AssignedPod: "a"}},
		"its end, and it is listed": {on: []corev1alpha1.RunReason{"RuntimePodLost"}, cancel: true, want: ending{Phase: "Cancelled", Reason: "Cancelled", Message: "cancelled; its Pod a is gone", Condition: "False Cancelled", AssignedPod: "a"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ns := shared.Namespace(t)
			pod := shared.RuntimePod(t, ns, "sh", "a")
			run := retryRun(t, ns, "r", 0, tc.on...)
			assign(t, run, pod, corev1alpha1.RunRunning)
			if tc.cancel {
				cancel(t, run)
			}
			shared.Delete(t, pod)
			if diff := cmp.Diff(tc.want, endingOf(awaitEnd(t, ns, "r"))); diff != "" {
				t.Errorf("end (-want +got):\n%s", diff)
			}
		})
	}
}

// handedBack makes a Run that waits an hour for its second attempt, its Pod being there still.
func handedBack(t *testing.T, namespace string) (*corev1alpha1.Run, *corev1.Pod) {
	t.Helper()
	pod := shared.RuntimePod(t, namespace, "sh", "a")
	run := retryRun(t, namespace, "r", time.Hour)
	assign(t, run, pod, corev1alpha1.RunRunning)
	next := time.Now().Add(time.Hour).UTC().Format("2006-01-02T15:04:05.000000Z07:00")
	status := map[string]any{"phase": "Pending", "attempt": 2, "assignedPod": nil, "assignedPodUID": nil, "nextAttemptTime": next,
		"reason": "ScriptFailed", "message": "Exit code 3", "exitCode": 3}
	if err := writeStatus(t, run, status); err != nil {
		t.Fatal(err)
	}
	return run, pod
}

func TestCancelDuringBackoff(t *testing.T) {
	startManager(t)
	ns := shared.Namespace(t)
	run, pod := handedBack(t, ns)
	shared.Delete(t, pod) // the loss of the Pod of an attempt that is over means nothing
	cancel(t, run)
	got := awaitEnd(t, ns, "r")
	want := ending{Phase: "Cancelled", Reason: "Cancelled", Message: "cancelled before attempt 2 was assigned to a Pod", Condition: "False Cancelled"}
	if diff := cmp.Diff(want, endingOf(got)); diff != "" {
		t.Errorf("end (-want +got):\n%s", diff)
	}
	if got.Status.NextAttemptTime != nil || got.Status.CompletionTime == nil {
		t.Errorf("times: %+v", got.Status)
	}
}

func TestDeletionDuringBackoff(t *testing.T) {
	startManager(t)
	ns := shared.Namespace(t)
	run, _ := handedBack(t, ns)
	shared.Delete(t, run)
	eventuallyGone(t, ns, "r")
}

// TestTimeToLiveDuringBackoff sets a time to live of nothing: a Run that waits for another attempt has not finished.
func TestTimeToLiveDuringBackoff(t *testing.T) {
	startManager(t)
	ns := shared.Namespace(t)
	run, _ := handedBack(t, ns)
	if err := shared.Admin().Patch(t.Context(), run.DeepCopy(), mergePatch(`{"spec":{"ttlSecondsAfterFinished":0}}`)); err != nil {
		t.Fatal(err)
	}
	// Another Run that ends now shows that the controller has seen what came before.
	other := newRun(ns, "other")
	shared.Create(t, other)
	cancel(t, other)
	awaitEnd(t, ns, "other")
	if awaitHandedBack(t, run, 2).DeletionTimestamp != nil {
		t.Fatal("the Run is deleted while it waits")
	}
	cancel(t, run)
	eventuallyGone(t, ns, "r")
}

// TestLateReportsOfOldAttempts lets the Pod of the first attempt report during and after the second.
func TestLateReportsOfOldAttempts(t *testing.T) {
	ns := shared.Namespace(t)
	run, first := handedBack(t, ns)
	second := shared.RuntimePod(t, ns, "sh", "b")
	late := map[string]string{
		"a success":          `{"status":{"phase":"Succeeded","exitCode":0}}`,
		"a higher attempt":   `{"status":{"phase":"Pending","attempt":7}}`,
		"a claim of the Run": `{"status":{"phase":"Running","attempt":3,"assignedPod":"a","assignedPodUID":"` + string(first.UID) + `"}}`,
	}
	for name, patch := range late {
		if patchStatus(t, cluster.Client(t, shared.Pod(t, first)), run, patch) == nil {
			t.Errorf("%s is stored while the Run waits", name)
		}
	}
	if err := writeStatus(t, run, map[string]any{"phase": "Scheduled", "assignedPod": "b", "assignedPodUID": string(second.UID), "nextAttemptTime": nil}); err != nil {
		t.Fatal(err)
	}
	for name, patch := range late {
		if patchStatus(t, cluster.Client(t, shared.Pod(t, first)), run, patch) == nil {
			t.Errorf("%s is stored while the second attempt takes place", name)
		}
	}
	if err := patchStatus(t, cluster.Client(t, shared.Pod(t, second)), run, `{"status":{"phase":"Succeeded","exitCode":0}}`); err != nil {
		t.Errorf("the second attempt cannot report: %v", err)
	}
}
