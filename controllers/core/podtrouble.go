package core

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// podTrouble says why a Pod does not become ready, in the Pod's own words. It is empty while nothing is known to be wrong.
func podTrouble(pod *corev1.Pod) string {
	t := corev1alpha1.TroubleOf(&pod.Status)
	switch {
	case t == nil:
		return ""
	case t.Container != "":
		return fmt.Sprintf("container %s of Pod %s: %s", t.Container, pod.Name, containerTrouble(t))
	case pod.Status.Phase == corev1.PodFailed:
		return sentence(fmt.Sprintf("Pod %s failed", pod.Name), t.Reason, t.Message)
	default:
		return sentence(fmt.Sprintf("Pod %s has no node", pod.Name), t.Reason, t.Message)
	}
}

func containerTrouble(t *corev1alpha1.PodTrouble) string {
	switch {
	case !t.Waits:
		return "it ended with " + ending(t.Ended)
	case t.Ended != nil:
		return sentence(t.Reason, t.Message) + "; it ended with " + ending(t.Ended)
	default:
		return sentence(t.Reason, t.Message)
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
