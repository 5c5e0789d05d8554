package v1alpha1

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// PodTrouble is what keeps a Pod from becoming ready, in the words of Kubernetes.
// +kubebuilder:object:generate=false
type PodTrouble struct {
	// Container is the container that does not run; empty when the whole Pod has failed, or no node takes it.
	Container string
	// Reason is one word, such as ImagePullBackOff; only a Pod has none at times. Message is what was said beside it.
	Reason, Message string
	// Waits tells that the container waits for another start. Else it has ended.
	Waits bool
	// Ended is how the container has ended last; nil when it never ran.
	Ended *corev1.ContainerStateTerminated
}

// TroubleOf returns what keeps a Pod from becoming ready: that it has failed, else what keeps the first of its containers
// that is in trouble from running, else what keeps it from a node. It is nil while nothing is known to be wrong.
func TroubleOf(pod *corev1.PodStatus) *PodTrouble {
	if pod.Phase == corev1.PodFailed {
		return &PodTrouble{Reason: pod.Reason, Message: pod.Message}
	}
	for _, s := range slices.Concat(pod.InitContainerStatuses, pod.ContainerStatuses) {
		switch waits, ended := s.State.Waiting, s.State.Terminated; {
		case waits != nil && waits.Reason != "" && waits.Reason != "ContainerCreating" && waits.Reason != "PodInitializing":
			return &PodTrouble{Container: s.Name, Reason: waits.Reason, Message: waits.Message, Waits: true, Ended: s.LastTerminationState.Terminated}
		case ended != nil && ended.ExitCode != 0:
			return &PodTrouble{Container: s.Name, Reason: cmp.Or(ended.Reason, "Error"), Message: ended.Message, Ended: ended}
		}
	}
	for _, c := range pod.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return &PodTrouble{Reason: c.Reason, Message: c.Message}
		}
	}
	return nil
}
