package core

import (
	"strings"
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

func TestEndsOfPods(t *testing.T) {
	drained := drainedPod(nil)
	undrained := drainedPod(func(p *corev1.Pod) { p.Status = corev1.PodStatus{} })
	evicted := drainedPod(func(p *corev1.Pod) {
		p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "The node was low on memory. "}
	})
	wordy := drainedPod(func(p *corev1.Pod) {
		p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Message: strings.Repeat("é", wordsBound)}
	})
	type step = func(*podEnds, *testingclock.FakePassiveClock)
	note := func(pod *corev1.Pod) step {
		return func(p *podEnds, c *testingclock.FakePassiveClock) { p.note(pod, c) }
	}
	gone := func(pod *corev1.Pod) step {
		return func(p *podEnds, c *testingclock.FakePassiveClock) { p.gone(pod, c) }
	}
	missed := func(p *podEnds, c *testingclock.FakePassiveClock) { p.of("p-uid", c) }
	later := func(d time.Duration) step {
		return func(_ *podEnds, c *testingclock.FakePassiveClock) { c.SetTime(c.Now().Add(d)) }
	}
	cases := map[string]struct {
		steps []step
		want  podEnd
	}{
		"never heard of":                        {nil, podEnd{unheard: endSettle}},
		"missed a while ago":                    {[]step{missed, later(endSettle - 1)}, podEnd{unheard: 1}},
		"missed long ago":                       {[]step{missed, later(endSettle)}, podEnd{}},
		"alive":                                 {[]step{note(undrained)}, podEnd{unheard: endSettle}},
		"gone":                                  {[]step{gone(undrained)}, podEnd{}},
		"missed, then gone":                     {[]step{missed, gone(undrained)}, podEnd{}},
		"drained":                               {[]step{note(drained)}, podEnd{drained: true}},
		"missed, then drained":                  {[]step{missed, note(drained)}, podEnd{drained: true}},
		"drained, and gone in an earlier state": {[]step{note(drained), gone(undrained)}, podEnd{drained: true}},
		"evicted":                               {[]step{gone(evicted)}, podEnd{words: "Evicted: The node was low on memory."}},
		"evicted, then deleted":                 {[]step{gone(evicted), gone(undrained)}, podEnd{words: "Evicted: The node was low on memory."}},
		"ended in many words":                   {[]step{gone(wordy)}, podEnd{words: strings.Repeat("é", wordsBound/2) + "…"}},
		"forgotten":                             {[]step{note(drained), later(endKept + 1)}, podEnd{unheard: endSettle}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			clock, ends := testingclock.NewFakePassiveClock(epoch), &podEnds{}
			for _, do := range tc.steps {
				do(ends, clock)
			}
			if got := ends.of("p-uid", clock); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}
