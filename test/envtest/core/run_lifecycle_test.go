package core

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// ending is how a Run ended, without the times.
type ending struct {
	Phase                           corev1alpha1.RunPhase
	Reason                          corev1alpha1.RunReason
	Message, Condition, AssignedPod string
}

func endingOf(run *corev1alpha1.Run) ending {
	e := ending{Phase: run.Status.Phase, Reason: run.Status.Reason, Message: run.Status.Message, AssignedPod: run.Status.AssignedPod}
	if c := meta.FindStatusCondition(run.Status.Conditions, corev1alpha1.RunConditionSucceeded); c != nil {
		e.Condition = string(c.Status) + " " + c.Reason
	}
	return e
}

func awaitEnd(t *testing.T, namespace, name string) *corev1alpha1.Run {
	t.Helper()
	return eventually(t, "the end of Run "+name, namespace, name, &corev1alpha1.Run{}, func(r *corev1alpha1.Run) bool { return r.Status.Phase.IsTerminal() })
}

func assign(t *testing.T, run *corev1alpha1.Run, pod *corev1.Pod, phase corev1alpha1.RunPhase) {
	t.Helper()
	status := map[string]any{"phase": "Scheduled", "attempt": 1, "assignedPod": pod.Name, "assignedPodUID": string(pod.UID)}
	if err := writeStatus(t, run, status); err != nil {
		t.Fatal(err)
	}
	if phase == corev1alpha1.RunRunning {
		if err := writeStatus(t, run, map[string]any{"phase": "Running"}); err != nil {
			t.Fatal(err)
		}
	}
}

func cancel(t *testing.T, run *corev1alpha1.Run) {
	t.Helper()
	if err := shared.Admin().Patch(t.Context(), run.DeepCopy(), mergePatch(`{"spec":{"cancelRequested":true}}`)); err != nil {
		t.Fatal(err)
	}
}

var lost = ending{Phase: "Failed", Reason: "RuntimePodLost", Message: "Pod a is gone, and nobody reported how the execution ended", Condition: "False RuntimePodLost", AssignedPod: "a"}

func TestRunsThatNobodyElseCanEnd(t *testing.T) {
	startManager(t)
	cases := map[string]struct {
		prepare func(*testing.T, *corev1alpha1.Run, *corev1.Pod)
		want    ending
	}{
		"cancelled before it has a Pod": {
			func(t *testing.T, run *corev1alpha1.Run, _ *corev1.Pod) { cancel(t, run) },
			ending{Phase: "Cancelled", Reason: "Cancelled", Message: "cancelled before it was assigned to a Pod", Condition: "False Cancelled"}},
		"its Pod is deleted while it is scheduled": {
			func(t *testing.T, run *corev1alpha1.Run, pod *corev1.Pod) {
				assign(t, run, pod, corev1alpha1.RunScheduled)
				shared.Delete(t, pod)
			}, lost},
		"its Pod is deleted while it runs": {
			func(t *testing.T, run *corev1alpha1.Run, pod *corev1.Pod) {
				assign(t, run, pod, corev1alpha1.RunRunning)
				shared.Delete(t, pod)
			}, lost},
		"it is assigned to a Pod that is gone already": {
			func(t *testing.T, run *corev1alpha1.Run, pod *corev1.Pod) {
				shared.Delete(t, pod)
				assign(t, run, pod, corev1alpha1.RunScheduled)
			}, lost},
		"its Pod is replaced under the same name": {
			func(t *testing.T, run *corev1alpha1.Run, pod *corev1.Pod) {
				assign(t, run, pod, corev1alpha1.RunRunning)
				shared.Delete(t, pod)
				shared.RuntimePod(t, run.Namespace, "sh", "a")
			}, lost},
		"its Pod is evicted": {
			func(t *testing.T, run *corev1alpha1.Run, pod *corev1.Pod) {
				assign(t, run, pod, corev1alpha1.RunRunning)
				before := client.MergeFrom(pod.DeepCopy())
				pod.Status.Phase, pod.Status.Reason, pod.Status.Message = corev1.PodFailed, "Evicted", "The node was low on memory."
				if err := shared.Admin().Status().Patch(t.Context(), pod, before); err != nil {
					t.Fatal(err)
				}
			}, ending{
				Phase: lost.Phase, Reason: lost.Reason, Message: lost.Message + ": Evicted: The node was low on memory.",
				Condition: lost.Condition, AssignedPod: lost.AssignedPod,
			}},
		"its Pod is gone after its end was asked for": {
			func(t *testing.T, run *corev1alpha1.Run, pod *corev1.Pod) {
				assign(t, run, pod, corev1alpha1.RunRunning)
				cancel(t, run)
				shared.Delete(t, pod)
			}, ending{Phase: "Cancelled", Reason: "Cancelled", Message: "cancelled; its Pod a is gone", Condition: "False Cancelled", AssignedPod: "a"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ns := shared.Namespace(t)
			pod := shared.RuntimePod(t, ns, "sh", "a")
			run := newRun(ns, "r")
			shared.Create(t, run)
			tc.prepare(t, run, pod)
			got := awaitEnd(t, ns, "r")
			if diff := cmp.Diff(tc.want, endingOf(got)); diff != "" {
				t.Errorf("end (-want +got):\n%s", diff)
			}
			if got.Status.CompletionTime == nil {
				t.Error("completionTime is not set")
			}
		})
	}
}

// TestRunsOfAPodThatIsThereAreLeftAlone lets a Run that must be ended follow one that must not.
func TestRunsOfAPodThatIsThereAreLeftAlone(t *testing.T) {
	startManager(t)
	ns := shared.Namespace(t)
	stays, goes := shared.RuntimePod(t, ns, "sh", "stays"), shared.RuntimePod(t, ns, "sh", "a")
	for name, pod := range map[string]*corev1.Pod{"healthy": stays, "cancelling": stays, "doomed": goes} {
		run := newRun(ns, name)
		shared.Create(t, run)
		assign(t, run, pod, corev1alpha1.RunRunning)
	}
	cancel(t, newRun(ns, "cancelling"))
	shared.SetReady(t, stays, false)
	if err := shared.Admin().Delete(t.Context(), stays, client.GracePeriodSeconds(600)); err != nil {
		t.Fatal(err)
	}
	shared.Delete(t, goes)
	if got := endingOf(awaitEnd(t, ns, "doomed")); got != lost {
		t.Errorf("got %+v, want %+v", got, lost)
	}
	for _, name := range []string{"healthy", "cancelling"} {
		run := &corev1alpha1.Run{}
		if err := shared.Admin().Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, run); err != nil {
			t.Fatal(err)
		}
		if run.Status.Phase != corev1alpha1.RunRunning {
			t.Errorf("Run %s is %s although its Pod is only terminating", name, run.Status.Phase)
		}
	}
}

func eventuallyGone(t *testing.T, namespace, name string) {
	t.Helper()
	cluster.Eventually(t, "Run "+name+" to be deleted", func(ctx context.Context) (bool, error) {
		err := shared.Admin().Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &corev1alpha1.Run{})
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

func TestFinishedRunsAreDeletedAfterTheirTimeToLive(t *testing.T) {
	startManager(t)
	ns := shared.Namespace(t)
	finish := func(name, spec string, completed time.Time) *corev1alpha1.Run {
		run := newRun(ns, name)
		shared.Create(t, run)
		stamp := completed.UTC().Format("2006-01-02T15:04:05.000000Z07:00")
		if err := writeStatus(t, run, map[string]any{"phase": "Cancelled", "completionTime": stamp}); err != nil {
			t.Fatal(err)
		}
		if err := shared.Admin().Patch(t.Context(), run.DeepCopy(), mergePatch(spec)); err != nil {
			t.Fatal(err)
		}
		return run
	}
	now := time.Now()
	finish("kept", `{}`, now.Add(-time.Hour))
	finish("later", `{"spec":{"ttlSecondsAfterFinished":3600}}`, now)
	over := finish("over", `{"spec":{"ttlSecondsAfterFinished":60}}`, now.Add(-time.Hour))
	soon := finish("soon", `{"spec":{"ttlSecondsAfterFinished":1}}`, now)
	atOnce := finish("at-once", `{"spec":{"ttlSecondsAfterFinished":0}}`, now)
	for _, run := range []*corev1alpha1.Run{over, soon, atOnce} {
		eventuallyGone(t, ns, run.Name)
	}
	var left corev1alpha1.RunList
	if err := shared.Admin().List(t.Context(), &left, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range left.Items {
		names = append(names, left.Items[i].Name)
	}
	if diff := cmp.Diff([]string{"kept", "later"}, names); diff != "" {
		t.Errorf("Runs left (-want +got):\n%s", diff)
	}
}
