package core

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// podTrouble says why a Pod does not become ready, in the Pod's own words: what keeps it from a node, or from starting a
// container. It is empty while nothing is known to be wrong.
func podTrouble(pod *corev1.Pod) string {
	if pod.Status.Phase == corev1.PodFailed {
		return sentence(fmt.Sprintf("Pod %s failed", pod.Name), pod.Status.Reason, pod.Status.Message)
	}
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if text := containerTrouble(s); text != "" {
			return fmt.Sprintf("container %s of Pod %s: %s", s.Name, pod.Name, text)
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return sentence(fmt.Sprintf("Pod %s has no node", pod.Name), c.Reason, c.Message)
		}
	}
	return ""
}

func containerTrouble(s corev1.ContainerStatus) string {
	switch {
	case s.State.Waiting != nil:
		w := s.State.Waiting
		if w.Reason == "" || w.Reason == "ContainerCreating" || w.Reason == "PodInitializing" {
			return ""
		}
		text := sentence(w.Reason, "", w.Message)
		if last := s.LastTerminationState.Terminated; last != nil {
			text += "; it ended with " + ending(last)
		}
		return text
	case s.State.Terminated != nil && s.State.Terminated.ExitCode != 0:
		return "it ended with " + ending(s.State.Terminated)
	default:
		return ""
	}
}

// ending names how a container ended, such as "OOMKilled, exit code 137".
func ending(t *corev1.ContainerStateTerminated) string {
	text := fmt.Sprintf("exit code %d", t.ExitCode)
	if t.Reason != "" && t.Reason != "Error" {
		text = t.Reason + ", " + text
	}
	if t.Message != "" {
		text += ": " + t.Message
	}
	return text
}

// sentence joins those of its parts that are not empty with colons.
func sentence(parts ...string) string {
	text := ""
	for _, part := range parts {
		switch {
		case part == "":
		case text == "":
			text = part
		default:
			text += ": " + part
		}
	}
	return text
}
