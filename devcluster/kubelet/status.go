package kubelet

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Reasons of Pod conditions, as a kubelet gives them.
const (
	reasonContainersNotInitialized = "ContainersNotInitialized"
	reasonContainersNotReady       = "ContainersNotReady"
	reasonReadinessGatesNotReady   = "ReadinessGatesNotReady"
	reasonPodCompleted             = "PodCompleted"
)

// podStatus is the status of a Pod with these containers. previous is the status that was written before; it lends the
// times at which conditions changed.
func podStatus(pod *corev1.Pod, containers []*container, previous *corev1.PodStatus, startedAt, now time.Time) *corev1.PodStatus {
	views := make([]seen, len(containers))
	for i, c := range containers {
		views[i] = c.seen
	}
	start := metav1.NewTime(startedAt)
	s := &corev1.PodStatus{
		Phase: phase(pod.Spec.RestartPolicy, views), StartTime: &start,
		HostIP: podIP, HostIPs: []corev1.HostIP{{IP: podIP}}, PodIP: podIP, PodIPs: []corev1.PodIP{{IP: podIP}},
	}
	if pod.DeletionTimestamp != nil {
		s.Phase = finalPhase(pod.Spec.RestartPolicy, views)
	}
	for _, c := range containers {
		if c.role == roleMain {
			s.ContainerStatuses = append(s.ContainerStatuses, c.status())
		} else {
			s.InitContainerStatuses = append(s.InitContainerStatuses, c.status())
		}
	}
	initialized := initializedCondition(containers)
	containersReady := containersReadyCondition(s.Phase, containers)
	s.Conditions = []corev1.PodCondition{
		{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue},
		initialized, containersReady, readyCondition(pod, containersReady),
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
	}
	for i := range s.Conditions {
		s.Conditions[i].ObservedGeneration = pod.Generation
		s.Conditions[i].LastTransitionTime = transitionTime(previous, s.Conditions[i], now)
	}
	s.ObservedGeneration = pod.Generation
	return s
}

func initializedCondition(containers []*container) corev1.PodCondition {
	var waiting []string
	for _, c := range containers {
		done := c.role == roleMain || c.role == roleInit && c.ended && c.exitCode == 0 || c.role == roleSidecar && c.started
		if !done {
			waiting = append(waiting, c.spec.Name)
		}
	}
	return condition(corev1.PodInitialized, waiting, reasonContainersNotInitialized, "containers with incomplete status")
}

func containersReadyCondition(phase corev1.PodPhase, containers []*container) corev1.PodCondition {
	if phase == corev1.PodSucceeded {
		return corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionFalse, Reason: reasonPodCompleted}
	}
	var waiting []string
	for _, c := range containers {
		if c.role != roleInit && !(c.running && c.ready) {
			waiting = append(waiting, c.spec.Name)
		}
	}
	return condition(corev1.ContainersReady, waiting, reasonContainersNotReady, "containers with unready status")
}

func readyCondition(pod *corev1.Pod, containersReady corev1.PodCondition) corev1.PodCondition {
	ready := containersReady
	ready.Type = corev1.PodReady
	if containersReady.Status != corev1.ConditionTrue {
		return ready
	}
	for _, gate := range pod.Spec.ReadinessGates {
		open := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == gate.ConditionType && c.Status == corev1.ConditionTrue
		})
		if !open {
			return corev1.PodCondition{
				Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: reasonReadinessGatesNotReady,
				Message: fmt.Sprintf("condition %s is not True", gate.ConditionType),
			}
		}
	}
	return ready
}

// condition is True when nobody is waited for, else False with their names.
func condition(kind corev1.PodConditionType, waiting []string, reason, words string) corev1.PodCondition {
	if len(waiting) == 0 {
		return corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue}
	}
	return corev1.PodCondition{
		Type: kind, Status: corev1.ConditionFalse, Reason: reason,
		Message: fmt.Sprintf("%s: [%s]", words, strings.Join(waiting, " ")),
	}
}

func transitionTime(previous *corev1.PodStatus, c corev1.PodCondition, now time.Time) metav1.Time {
	if previous != nil {
		for _, p := range previous.Conditions {
			if p.Type == c.Type && p.Status == c.Status {
				return p.LastTransitionTime
			}
		}
	}
	return metav1.NewTime(now)
}

// statusPatch is a strategic merge patch: lists of containers are replaced, conditions of other owners stay. The UID
// makes a patch for a Pod that was replaced under its name fail.
func statusPatch(uid types.UID, s *corev1.PodStatus) ([]byte, error) {
	content, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encoding the Pod's status: %w", err)
	}
	var status map[string]any
	if err := json.Unmarshal(content, &status); err != nil {
		return nil, fmt.Errorf("encoding the Pod's status: %w", err)
	}
	conditions, _ := status["conditions"].([]any)
	for _, c := range conditions {
		// Conditions are merged one by one, and what is left out stays as it was.
		fields, _ := c.(map[string]any)
		for _, name := range []string{"reason", "message"} {
			if _, set := fields[name]; !set {
				fields[name] = nil
			}
		}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid}, "status": status})
	if err != nil {
		return nil, fmt.Errorf("encoding the Pod's status: %w", err)
	}
	return patch, nil
}
