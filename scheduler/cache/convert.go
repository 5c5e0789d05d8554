package cache

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/scheduler/framework"
	"kruntimes.io/kruntimes/statuspatch"
)

// maxReason bounds what is taken over of a Pod's or Runtime's own words. Unit: bytes.
const maxReason = 200

// PodOf reads what the cache holds of a Pod. It returns false for a Pod that was not made for a Runtime.
func PodOf(pod *corev1.Pod) (Pod, bool) {
	if !corev1alpha1.PodIsOfRuntime(pod) {
		return Pod{}, false
	}
	label := pod.Labels[corev1alpha1.LabelRuntime]
	// The annotation holds names that are too long for the label. One that contradicts the label is not believed.
	name := pod.Annotations[corev1alpha1.AnnotationRuntime]
	if name == "" || corev1alpha1.RuntimeLabelValue(name) != label {
		name = label
	}
	p := Pod{
		Runtime: types.NamespacedName{Namespace: pod.Namespace, Name: name},
		Name:    pod.Name, UID: pod.UID, Node: pod.Spec.NodeName,
		Terminating: pod.DeletionTimestamp != nil,
	}
	p.Ready = corev1alpha1.PodIsReady(pod)
	if p.Terminating {
		grace := time.Duration(ptr.Deref(pod.DeletionGracePeriodSeconds, 0)) * time.Second
		p.TakesUntil = pod.DeletionTimestamp.UTC().Add(-corev1alpha1.StopLead(grace))
	}
	if !p.Ready {
		p.NotReadyReason = statuspatch.Bounded(notReadyReason(pod), maxReason)
	}
	return p, true
}

// notReadyReason finds the most telling word on why a Pod is not ready: what is wrong with it, else how it has ended, what
// its containers wait for, or what its condition says.
func notReadyReason(pod *corev1.Pod) string {
	if trouble := corev1alpha1.TroubleOf(&pod.Status); trouble != nil && trouble.Reason != "" {
		return trouble.Reason
	}
	waiting := waitingReason(slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses))
	ready := podCondition(pod, corev1.PodReady)
	switch {
	case pod.Status.Reason != "":
		return pod.Status.Reason
	case waiting != "":
		return waiting
	case pod.Status.Phase == corev1.PodFailed, pod.Status.Phase == corev1.PodSucceeded:
		return string(pod.Status.Phase)
	case ready != nil && ready.Reason != "":
		return ready.Reason
	}
	return string(pod.Status.Phase)
}

// waitingReason returns why a container waits that is not in trouble: one that is being made rather than one whose turn has
// not come.
func waitingReason(statuses []corev1.ContainerStatus) (reason string) {
	const initializing = "PodInitializing"
	for i := range statuses {
		if s := statuses[i].State.Waiting; s != nil && (reason == "" || reason == initializing) {
			reason = s.Reason
		}
	}
	return reason
}

func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// RuntimeOf reads what plugins may know of a Runtime.
func RuntimeOf(runtime *corev1alpha1.Runtime) *framework.RuntimeInfo {
	info := &framework.RuntimeInfo{
		Namespace: runtime.Namespace, Name: runtime.Name, Replicas: runtime.DesiredReplicas(),
		Capacity: framework.CapacityOf(runtime.OfferedCapacity()), Deleting: runtime.DeletionTimestamp != nil,
	}
	for _, c := range runtime.Status.Conditions {
		if c.Reason == corev1alpha1.ReasonPodsRefused || c.Reason == corev1alpha1.ReasonDeploymentRefused {
			info.Trouble = statuspatch.Bounded(c.Reason+": "+c.Message, maxReason)
			break
		}
	}
	return info
}
