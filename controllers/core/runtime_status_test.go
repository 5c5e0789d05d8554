package core

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

func podNamed(name string, ready bool, containers ...corev1.ContainerStatus) corev1.Pod {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.PodStatus{
		Phase: corev1.PodRunning, ContainerStatuses: containers, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}}}
}

func waiting(reason, message string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: "runtime", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}
}

func ended(state *corev1.ContainerStateTerminated) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: "runtime", State: corev1.ContainerState{Terminated: state}}
}

func deploymentAt(replicas, updated int32, failure string) *appsv1.Deployment {
	d := &appsv1.Deployment{Status: appsv1.DeploymentStatus{Replicas: replicas, UpdatedReplicas: updated}}
	if failure != "" {
		d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: failure}}
	}
	return d
}

func TestCalculateStatus(t *testing.T) {
	crashed := waiting("CrashLoopBackOff", "back-off 10s restarting failed container")
	crashed.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}
	leaving := podNamed("z", true)
	leaving.DeletionTimestamp = ptr.To(metav1.NewTime(epoch))
	evicted := podNamed("e", false)
	evicted.Status.Phase, evicted.Status.Reason, evicted.Status.Message = corev1.PodFailed, "Evicted", "The node was low on resource: memory."
	stale := podNamed("e", true) // Its node is gone: nobody takes the condition back.
	stale.Status.Phase = corev1.PodFailed
	homeless := podNamed("a", false)
	homeless.Status.Phase = corev1.PodPending
	homeless.Status.Conditions = append(homeless.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available"})
	cases := map[string]struct {
		replicas                   int32
		pods                       []corev1.Pod
		deployment                 *appsv1.Deployment
		refused                    string
		wantAvailable, wantProgess string
		wantReplicas, wantReady    int32
	}{
		"nothing there yet": {replicas: 1,
			wantAvailable: "False PodsStarting: 0 of 1 Pods ready", wantProgess: "True PodsStarting: 0 of 1 Pods ready"},
		"all ready": {replicas: 1, pods: []corev1.Pod{podNamed("a", true)}, deployment: deploymentAt(1, 1, ""),
			wantAvailable: "True PodsReady: 1 of 1 Pods ready", wantProgess: "False PodsReady: 1 of 1 Pods ready", wantReplicas: 1, wantReady: 1},
		"some ready": {replicas: 2, pods: []corev1.Pod{podNamed("a", true), podNamed("b", false, waiting("ContainerCreating", ""))}, deployment: deploymentAt(2, 2, ""),
			wantAvailable: "True SomePodsReady: 1 of 2 Pods ready", wantProgess: "True PodsStarting: 1 of 2 Pods ready", wantReplicas: 2, wantReady: 1},
		"some ready, one in trouble": {replicas: 2, pods: []corev1.Pod{podNamed("a", true), podNamed("b", false, waiting("ErrImagePull", "not found"))}, deployment: deploymentAt(2, 2, ""),
			wantAvailable: "True SomePodsReady: 1 of 2 Pods ready; container runtime of Pod b: ErrImagePull: not found",
			wantProgess:   "False PodsFailing: 1 of 2 Pods ready; container runtime of Pod b: ErrImagePull: not found", wantReplicas: 2, wantReady: 1},
		"scaled to zero": {deployment: deploymentAt(0, 0, ""),
			wantAvailable: "True ScaledToZero: no Pod is asked for", wantProgess: "False ScaledToZero: no Pod is asked for"},
		"on the way to zero": {pods: []corev1.Pod{podNamed("a", true)}, deployment: deploymentAt(1, 1, ""),
			wantAvailable: "True ScaledToZero: no Pod is asked for", wantProgess: "True RollingOut: 1 of 0 Pods ready", wantReplicas: 1, wantReady: 1},
		"a Pod that leaves does not count": {replicas: 1, pods: []corev1.Pod{leaving}, deployment: deploymentAt(1, 1, ""),
			wantAvailable: "False PodsStarting: 0 of 1 Pods ready", wantProgess: "True PodsStarting: 0 of 1 Pods ready"},
		"an image that is not there; the first Pod by name speaks": {replicas: 2,
			pods: []corev1.Pod{podNamed("b", false, waiting("ErrImagePull", "second")), podNamed("a", false, waiting("ImagePullBackOff", "first"))}, deployment: deploymentAt(2, 2, ""),
			wantAvailable: "False PodsFailing: 0 of 2 Pods ready; container runtime of Pod a: ImagePullBackOff: first",
			wantProgess:   "False PodsFailing: 0 of 2 Pods ready; container runtime of Pod a: ImagePullBackOff: first", wantReplicas: 2},
		"a crash loop after an end for memory": {replicas: 1, pods: []corev1.Pod{podNamed("a", false, crashed)}, deployment: deploymentAt(1, 1, ""),
			wantAvailable: "False PodsFailing: 0 of 1 Pods ready; container runtime of Pod a: CrashLoopBackOff: back-off 10s restarting failed container; it ended with OOMKilled, exit code 137",
			wantProgess:   "False PodsFailing: 0 of 1 Pods ready; container runtime of Pod a: CrashLoopBackOff: back-off 10s restarting failed container; it ended with OOMKilled, exit code 137", wantReplicas: 1},
		"a container that just ended": {replicas: 1, pods: []corev1.Pod{podNamed("a", false, ended(&corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 2, Message: "bad flag"}))}, deployment: deploymentAt(1, 1, ""),
			wantAvailable: "False PodsFailing: 0 of 1 Pods ready; container runtime of Pod a: it ended with exit code 2: bad flag",
			wantProgess:   "False PodsFailing: 0 of 1 Pods ready; container runtime of Pod a: it ended with exit code 2: bad flag", wantReplicas: 1},
		"an evicted Pod": {replicas: 1, pods: []corev1.Pod{evicted}, deployment: deploymentAt(0, 0, ""),
			wantAvailable: "False PodsFailing: 0 of 1 Pods ready; Pod e failed: Evicted: The node was low on resource: memory.",
			wantProgess:   "False PodsFailing: 0 of 1 Pods ready; Pod e failed: Evicted: The node was low on resource: memory."},
		"an evicted Pod that was replaced": {replicas: 1, pods: []corev1.Pod{evicted, podNamed("f", true)}, deployment: deploymentAt(1, 1, ""),
			wantAvailable: "True PodsReady: 1 of 1 Pods ready", wantProgess: "False PodsReady: 1 of 1 Pods ready", wantReplicas: 1, wantReady: 1},
		"a failed Pod that still says it is ready": {replicas: 1, pods: []corev1.Pod{stale}, deployment: deploymentAt(0, 0, ""),
			wantAvailable: "False PodsFailing: 0 of 1 Pods ready; Pod e failed",
			wantProgess:   "False PodsFailing: 0 of 1 Pods ready; Pod e failed"},
		"a Pod without a node": {replicas: 1, pods: []corev1.Pod{homeless}, deployment: deploymentAt(1, 1, ""),
			wantAvailable: "False PodsFailing: 0 of 1 Pods ready; Pod a has no node: Unschedulable: 0/3 nodes are available",
			wantProgess:   "False PodsFailing: 0 of 1 Pods ready; Pod a has no node: Unschedulable: 0/3 nodes are available", wantReplicas: 1},
		"a quota": {replicas: 1, deployment: deploymentAt(0, 0, "pods is forbidden: exceeded quota"),
			wantAvailable: "False PodsRefused: 0 of 1 Pods ready; pods is forbidden: exceeded quota",
			wantProgess:   "False PodsRefused: 0 of 1 Pods ready; pods is forbidden: exceeded quota"},
		"a roll-out": {replicas: 1, pods: []corev1.Pod{podNamed("old", true), podNamed("new", false)}, deployment: deploymentAt(2, 1, ""),
			wantAvailable: "True PodsReady: 1 of 1 Pods ready", wantProgess: "True RollingOut: 1 of 1 Pods ready", wantReplicas: 2, wantReady: 1},
		"a refused Deployment": {replicas: 1, refused: "applying Deployment x: no",
			wantAvailable: "False DeploymentRefused: applying Deployment x: no", wantProgess: "False DeploymentRefused: applying Deployment x: no"},
		"a refused change while Pods are ready": {replicas: 1, pods: []corev1.Pod{podNamed("a", true)}, deployment: deploymentAt(1, 1, ""), refused: "no",
			wantAvailable: "True PodsReady: 1 of 1 Pods ready", wantProgess: "False DeploymentRefused: no", wantReplicas: 1, wantReady: 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			runtime := runtimeWith(func(r *corev1alpha1.Runtime) { r.Spec.Replicas = ptr.To(tc.replicas) })
			got := calculateStatus(runtime, &runtimeState{pods: tc.pods, deployment: tc.deployment}, tc.refused, epoch)
			want := corev1alpha1.RuntimeStatus{ObservedGeneration: 1, Replicas: tc.wantReplicas, ReadyReplicas: tc.wantReady, Selector: "kruntimes.io/runtime=sh",
				Conditions: []metav1.Condition{conditionFrom("Available", tc.wantAvailable), conditionFrom("Progressing", tc.wantProgess)}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

// conditionFrom reads "Status Reason: message".
func conditionFrom(kind, text string) metav1.Condition {
	status, rest, _ := strings.Cut(text, " ")
	reason, message, _ := strings.Cut(rest, ": ")
	return metav1.Condition{Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, Message: message, ObservedGeneration: 1, LastTransitionTime: metav1.NewTime(epoch)}
}

func TestTransitionTimesStayWhileNothingChanges(t *testing.T) {
	runtime := runtimeWith(nil)
	seen := &runtimeState{}
	runtime.Status = calculateStatus(runtime, seen, "", epoch)
	if diff := cmp.Diff(runtime.Status, calculateStatus(runtime, seen, "", epoch.Add(time.Hour))); diff != "" {
		t.Errorf("status changed with the clock alone (-before +after):\n%s", diff)
	}
}
