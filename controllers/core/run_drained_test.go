package core

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
)

// drainedPod is a Pod in its grace period whose runtimed has ended well.
func drainedPod(change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "p-uid", DeletionTimestamp: ptr.To(metav1.NewTime(epoch.Add(time.Minute)))},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
			{Name: "runtime", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137}}},
			{Name: "runtimed", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}},
		}},
	}
	if change != nil {
		change(p)
	}
	return p
}

func TestHasDrained(t *testing.T) {
	cases := map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"runtimed ended well":            {nil, true},
		"runtimed failed":                {func(p *corev1.Pod) { p.Status.ContainerStatuses[1].State.Terminated.ExitCode = 1 }, false},
		"runtimed is there":              {func(p *corev1.Pod) { p.Status.ContainerStatuses[1].State = corev1.ContainerState{} }, false},
		"runtimed will be started again": {func(p *corev1.Pod) { p.DeletionTimestamp = nil }, false},
		"nothing is known":               {func(p *corev1.Pod) { p.Status.ContainerStatuses = nil }, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := hasDrained(drainedPod(tc.change)); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}

func TestDrainedPodsAreForgotten(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(epoch)
	var d drainedPods
	has := func(want bool) {
		t.Helper()
		if got := d.has("p-uid", clock); got != want {
			t.Errorf("got %t, want %t", got, want)
		}
	}
	has(false)
	d.note(drainedPod(func(p *corev1.Pod) { p.DeletionTimestamp = nil }), clock)
	has(false)
	d.note(drainedPod(nil), clock)
	has(true)
	clock.SetTime(epoch.Add(drainedKept + time.Second))
	has(false)
}
