package scheduler

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/scheduler"
)

// TestAPodThatOnlyNamesARuntimeGetsNoRuns makes a ready Pod that somebody has given the Runtime's label. The manager does
// not watch it, so a Run on it would have nobody who ends it.
func TestAPodThatOnlyNamesARuntimeGetsNoRuns(t *testing.T) {
	ns := shared.Namespace(t)
	runtimeOf(t, ns, "sh", 1, "4")
	foreign := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "a-foreign", Labels: map[string]string{corev1alpha1.LabelRuntime: "sh"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	shared.Create(t, foreign)
	shared.SetReady(t, foreign, true)
	start(t, scheduler.Options{Config: identity(t)})
	shared.Create(t, newRun(ns, "r", "sh"))
	waiting := eventuallyRun(t, ns, "r", "told why it waits", func(r *corev1alpha1.Run) bool { return len(r.Status.Conditions) > 0 })
	if got := waiting.Status.Conditions[0].Reason; got != corev1alpha1.ReasonNoPods || waiting.Status.AssignedPod != "" {
		t.Errorf("reason %s on Pod %q, want %s", got, waiting.Status.AssignedPod, corev1alpha1.ReasonNoPods)
	}
	shared.RuntimePod(t, ns, "sh", "b-own")
	if got := eventuallyRun(t, ns, "r", "scheduled", isScheduled).Status.AssignedPod; got != "b-own" {
		t.Errorf("assigned to %s, want b-own", got)
	}
}

// TestAPodWithoutItsNodeGetsNoRuns deletes the Node of a Pod that goes on to say that it is ready, as it does until Kubernetes
// removes it. A scheduler that was there, and one that comes later, keep away from it.
func TestAPodWithoutItsNodeGetsNoRuns(t *testing.T) {
	ns := shared.Namespace(t)
	runtimeOf(t, ns, "sh", 2, "4")
	shared.RuntimePodOn(t, ns+"-a", ns, "sh", "a")
	p := start(t, scheduler.Options{Config: identity(t)})
	shared.Create(t, newRun(ns, "before", "sh"))
	if got := eventuallyRun(t, ns, "before", "scheduled", isScheduled).Status.AssignedPod; got != "a" {
		t.Fatalf("assigned to %s", got)
	}
	shared.Delete(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: ns + "-a"}})
	// What is told of a Run that cannot fit shows what the scheduler knows.
	toldWhen := func(name string) {
		t.Helper()
		shared.Create(t, newRun(ns, name, "sh", requests("runs", "4")))
		eventuallyRun(t, ns, name, "told that the Node is gone", func(r *corev1alpha1.Run) bool {
			return whyOf(r) == waits(corev1alpha1.ReasonNoReadyPods, "1 Pod: 1 on a Node that is gone")
		})
	}
	toldWhen("one")
	p.end(t)
	start(t, scheduler.Options{Config: identity(t)})
	toldWhen("two")
	shared.RuntimePodOn(t, ns+"-b", ns, "sh", "b")
	if got := eventuallyRun(t, ns, "one", "scheduled", isScheduled).Status.AssignedPod; got != "b" {
		t.Errorf("assigned to %s, want b", got)
	}
}
