package scheduler

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/scheduler"
)

// selecting is a required rule about Runs with a label.
func selecting(key, value string) *corev1alpha1.RunAffinity {
	return &corev1alpha1.RunAffinity{Required: []corev1alpha1.RunAffinityTerm{{
		LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{key: value}}, TopologyKey: corev1alpha1.TopologyRuntimePod}}}
}

// TestRunAffinity places a cohort on one Pod, keeps a Run away from it, and lets both wait for what helps them.
func TestRunAffinity(t *testing.T) {
	ns := shared.Namespace(t)
	runtimeOf(t, ns, "sh", 3, "2")
	for _, name := range []string{"pod-a", "pod-b", "pod-c"} {
		shared.RuntimePod(t, ns, "sh", name)
	}
	start(t, scheduler.Options{Config: identity(t)})
	member := func(r *corev1alpha1.Run) {
		r.Labels = map[string]string{"job": "build"}
		r.Spec.Affinity = &corev1alpha1.Affinity{RunAffinity: selecting("job", "build")}
	}
	create := func(name string, change ...func(*corev1alpha1.Run)) {
		shared.Create(t, newRun(ns, name, "sh", change...))
	}
	podOf := func(name string) string {
		return eventuallyRun(t, ns, name, "scheduled", isScheduled).Status.AssignedPod
	}
	create("load")
	if got := podOf("load"); got != "pod-a" {
		t.Fatalf("the load is on %s", got)
	}
	for i := range 3 {
		create(fmt.Sprint("member-", i), member)
	}
	// Two Pods are empty, but the cohort stays where its first member went.
	if diff := cmp.Diff([]string{"pod-b", "pod-b"}, []string{podOf("member-0"), podOf("member-1")}); diff != "" {
		t.Fatalf("the cohort (-want +got):\n%s", diff)
	}
	create("hermit", func(r *corev1alpha1.Run) {
		r.Labels = map[string]string{"job": "deploy"}
		r.Spec.Affinity = &corev1alpha1.Affinity{RunAntiAffinity: selecting("job", "build")}
	})
	if got := podOf("hermit"); got != "pod-c" {
		t.Errorf("the hermit is on %s", got)
	}
	create("follower", func(r *corev1alpha1.Run) {
		r.Spec.Affinity = &corev1alpha1.Affinity{RunAffinity: selecting("job", "test")}
	})
	told := func(name string, want why) {
		t.Helper()
		eventuallyRun(t, ns, name, "told why it waits", func(r *corev1alpha1.Run) bool { return whyOf(r) == want })
	}
	told("member-2", waits(corev1alpha1.ReasonUnschedulable, "3 Pods: 2 without a Run that matches job=build, 1 full (runs 2/2)"))
	told("follower", waits(corev1alpha1.ReasonAffinityNotSatisfied, "3 Pods: 3 without a Run that matches job=test"))
	finish := func(name string) { succeed(t)(t.Context(), eventuallyRun(t, ns, name, "scheduled", isScheduled)) }
	finish("load")
	create("leader", func(r *corev1alpha1.Run) { r.Labels = map[string]string{"job": "test"} })
	if diff := cmp.Diff([]string{"pod-a", "pod-a"}, []string{podOf("leader"), podOf("follower")}); diff != "" {
		t.Errorf("the leader and its follower (-want +got):\n%s", diff)
	}
	finish("member-0")
	if got := podOf("member-2"); got != "pod-b" {
		t.Errorf("the third member is on %s", got)
	}
	// The hermit's rule holds against Runs that come later and have none.
	create("late", func(r *corev1alpha1.Run) { r.Labels = map[string]string{"job": "build"} })
	told("late", waits(corev1alpha1.ReasonUnschedulable, "3 Pods: 2 full (runs 2/2), 1 with a Run that keeps away job=build"))
	finish("hermit")
	if got := podOf("late"); got != "pod-c" {
		t.Errorf("the late one is on %s", got)
	}
}
