package readiness

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/scheduler/framework"
)

type verdict struct {
	Code         framework.Code
	Reason, Text string
}

func verdictOf(s *framework.Status) verdict {
	if s == nil {
		return verdict{}
	}
	return verdict{s.Code, s.Reason, s.Message()}
}

func TestPreFilter(t *testing.T) {
	cases := map[string]struct {
		snapshot framework.Snapshot
		want     verdict
	}{
		"no such Runtime": {framework.Snapshot{},
			verdict{framework.Unresolvable, corev1alpha1.ReasonRuntimeNotFound, `the namespace has no Runtime "sh"`}},
		"a Runtime that is being deleted takes nothing, though it has Pods": {
			framework.Snapshot{Runtime: &framework.RuntimeInfo{Name: "sh", Deleting: true}, Pods: []*framework.PodInfo{{}}},
			verdict{framework.Unresolvable, corev1alpha1.ReasonNoPods, `Runtime "sh" is being deleted`}},
		"scaled to 0": {framework.Snapshot{Runtime: &framework.RuntimeInfo{Name: "sh"}},
			verdict{framework.Unschedulable, corev1alpha1.ReasonNoPods, `Runtime "sh" is scaled to 0 replicas`}},
		"scaled to 0 with a Pod that is still there": {
			framework.Snapshot{Runtime: &framework.RuntimeInfo{Name: "sh"}, Pods: []*framework.PodInfo{{}}}, verdict{}},
		"Pods that do not come yet": {framework.Snapshot{Runtime: &framework.RuntimeInfo{Name: "sh", Replicas: 3}},
			verdict{framework.Unschedulable, corev1alpha1.ReasonNoPods, `Runtime "sh" has none of its 3 Pods yet`}},
		"Pods that a quota forbids": {framework.Snapshot{Runtime: &framework.RuntimeInfo{Name: "sh", Replicas: 3, Trouble: "PodsRefused: exceeded quota"}},
			verdict{framework.Unschedulable, corev1alpha1.ReasonNoPods, `Runtime "sh" has none of its 3 Pods: PodsRefused: exceeded quota`}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := New().PreFilter(&framework.Cycle{Run: &framework.RunInfo{Runtime: "sh"}, Snapshot: &tc.snapshot})
			if diff := cmp.Diff(tc.want, verdictOf(got)); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFilter(t *testing.T) {
	unavailable := func(text string) verdict {
		return verdict{framework.Unavailable, corev1alpha1.ReasonNoReadyPods, text}
	}
	cases := map[string]struct {
		pod  framework.PodInfo
		want verdict
	}{
		"ready":                       {framework.PodInfo{Ready: true}, verdict{}},
		"ready, but on its way out":   {framework.PodInfo{Ready: true, Terminating: true}, unavailable("terminating")},
		"ready, but without its Node": {framework.PodInfo{Ready: true, NodeGone: true}, unavailable("on a Node that is gone")},
		"not ready, nobody knows why": {framework.PodInfo{}, unavailable("not ready")},
		"not ready, with its reason":  {framework.PodInfo{NotReadyReason: "ImagePullBackOff"}, unavailable("not ready: ImagePullBackOff")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, verdictOf(New().Filter(&framework.Cycle{Snapshot: &framework.Snapshot{}}, &tc.pod))); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}
