package v1alpha1

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestTroubleOf(t *testing.T) {
	waits := func(name, reason string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "because"}}}
	}
	killed := &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}
	ended := func(name string, how *corev1.ContainerStateTerminated) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: how}}
	}
	crashed := waits("runtime", "CrashLoopBackOff")
	crashed.LastTerminationState.Terminated = killed
	homeless := []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "no node fits"}}
	type statuses = []corev1.ContainerStatus
	cases := map[string]struct {
		pod  corev1.PodStatus
		want *PodTrouble
	}{
		"nothing is known yet":          {},
		"containers are on their way":   {pod: corev1.PodStatus{InitContainerStatuses: statuses{waits("i", "PodInitializing")}, ContainerStatuses: statuses{waits("c", "ContainerCreating"), waits("d", "")}}},
		"an init container that worked": {pod: corev1.PodStatus{InitContainerStatuses: statuses{ended("i", &corev1.ContainerStateTerminated{Reason: "Completed"})}}},
		"the Pod has failed, whatever its containers say": {pod: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "low on memory", ContainerStatuses: statuses{crashed}},
			want: &PodTrouble{Reason: "Evicted", Message: "low on memory"}},
		"an image is missing": {pod: corev1.PodStatus{ContainerStatuses: statuses{waits("runtime", "ErrImagePull")}, Conditions: homeless},
			want: &PodTrouble{Container: "runtime", Reason: "ErrImagePull", Message: "because", Waits: true}},
		"an init container comes first": {pod: corev1.PodStatus{InitContainerStatuses: statuses{waits("i", "ImagePullBackOff")}, ContainerStatuses: statuses{crashed}},
			want: &PodTrouble{Container: "i", Reason: "ImagePullBackOff", Message: "because", Waits: true}},
		"a container crashes again and again": {pod: corev1.PodStatus{ContainerStatuses: statuses{crashed}},
			want: &PodTrouble{Container: "runtime", Reason: "CrashLoopBackOff", Message: "because", Waits: true, Ended: killed}},
		"a container has ended":                  {pod: corev1.PodStatus{ContainerStatuses: statuses{ended("runtime", killed)}}, want: &PodTrouble{Container: "runtime", Reason: "OOMKilled", Ended: killed}},
		"a container has ended without a reason": {pod: corev1.PodStatus{ContainerStatuses: statuses{ended("runtime", &corev1.ContainerStateTerminated{ExitCode: 2})}}, want: &PodTrouble{Container: "runtime", Reason: "Error", Ended: &corev1.ContainerStateTerminated{ExitCode: 2}}},
		"no node takes the Pod":                  {pod: corev1.PodStatus{Conditions: homeless}, want: &PodTrouble{Reason: "Unschedulable", Message: "no node fits"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, TroubleOf(&tc.pod)); diff != "" {
				t.Errorf("trouble (-want +got):\n%s", diff)
			}
		})
	}
}
